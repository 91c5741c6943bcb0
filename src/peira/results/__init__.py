"""Trials and scores as read back from a store, and their rows for other tools.

`history` is imported at its first use, since most runs end without it.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.results import history as history
