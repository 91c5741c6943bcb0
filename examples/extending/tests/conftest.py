"""Suites draw examples with hypothesis: without a deadline, because a shared machine stalls at random."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("extras", settings.default, deadline=None)
settings.load_profile("extras")
