"""The shelf of stopping rules: designs that learn on the way when to stop, and where to go on.

`decided` stops when the declared hypotheses are; `racing` gives up levels that are clearly worse than
another; `successive_rejects` gives up the worst so far, on a schedule that fits a budget.
"""

from __future__ import annotations

from peira.core.registry import Registry
from peira.design.adaptive.decided import Decided
from peira.design.adaptive.racing import Racing
from peira.design.adaptive.rejects import Rejects


def register(registry: Registry) -> None:
    """Offer the built-in rules, as any plug-in would."""
    registry.add("stop", "decided", Decided)
    registry.add("stop", "racing", Racing)
    registry.add("stop", "successive_rejects", Rejects)
