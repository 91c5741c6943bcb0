"""The normal distribution, in the two forms the other rooms need."""

from __future__ import annotations

from peira.stats.inputs import known
from peira.stats.values import ALTERNATIVES, Alternative


def quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))


def p_value(z: float, alternative: Alternative) -> float:
    """The chance of a z at least as far out as this, on the side or sides that the alternative names."""
    from scipy.special import ndtr

    known("the alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * float(ndtr(-abs(z)))
    return float(ndtr(-z if alternative == "greater" else z))
