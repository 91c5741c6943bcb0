"""Tests of hypotheses with a margin: equivalence, non-inferiority, and effects of a minimum size.

Each margin is tested one-sided by inverting the interval that fits the data (`stats.tests.equivalence`):
two one-sided tests for equivalence, one for the others. The same is done for the opposite, so that such a
hypothesis can also be rejected.
"""

from __future__ import annotations

from peira.analysis.compare.difference import Difference
from peira.stats.tests.equivalence import equivalence

CLAIMS = {
    "equivalent": "equivalent within {margin:g}",
    "not_less": "not less by {margin:g} or more",
    "not_greater": "not greater by {margin:g} or more",
    "greater": "greater by more than {margin:g}",
    "less": "less by more than {margin:g}",
}
"""What a hypothesis with a margin claims, by its direction."""


def claim(direction: str, margin: float | None) -> str:
    """What a hypothesis with a margin claims; "" without a margin."""
    return "" if margin is None else CLAIMS[direction].format(margin=margin)


def margin_evidence(
    found: Difference, direction: str, margin: float, alpha: float, tailed: bool = False
) -> tuple[float | None, float | None]:
    """The p-value of the claim about a difference, and that of its opposite; None if unknown.

    With `tailed` those that they have if few units hide a long tail.
    """
    interval = found.tailed_estimate if tailed else found.estimate

    def p(low: float | None, high: float | None) -> float | None:
        return equivalence(interval, low, high, min(alpha, 0.49)).p

    if not found.known:
        return None, None
    if direction == "equivalent":
        beyond = [one for one in (p(margin, None), p(None, -margin)) if one is not None]
        return p(-margin, margin), min(1.0, 2 * min(beyond)) if beyond else None
    border = margin if direction in ("greater", "not_greater") else -margin
    above, below = p(border, None), p(None, border)
    return (above, below) if direction in ("greater", "not_less") else (below, above)
