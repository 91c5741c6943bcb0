"""Where a run's tasks come from: a study, a bundle, an adaptive rule, pending work."""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.engine.sources.adaptive import AdaptiveSource as AdaptiveSource
