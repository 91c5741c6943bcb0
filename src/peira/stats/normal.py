"""Quantiles and p-values of the standard normal distribution."""

from __future__ import annotations

from peira.stats.inputs import known
from peira.stats.values import ALTERNATIVES, Alternative


def quantile(probability: float) -> float:
    """The standard normal quantile of a probability."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def p_value(z: float, alternative: Alternative) -> float:
    """The p-value of a z statistic for the given alternative.

    Raises ValueError for an unknown alternative.
    """
    from scipy.special import ndtr

    known("the alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * float(ndtr(-abs(z)))
    return float(ndtr(-z if alternative == "greater" else z))
