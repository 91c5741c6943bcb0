"""Student's t distribution: intervals, quantiles, p-values, and Welch's degrees of freedom."""

from __future__ import annotations

import math
from dataclasses import dataclass

from peira.stats.inputs import known, upper
from peira.stats.values import ALTERNATIVES, Alternative


@dataclass(frozen=True)
class Spread:
    """A standard error and its degrees of freedom."""

    error: float
    df: float


def around(mean: float, spread: Spread, level: float) -> tuple[float, float]:
    """The two-sided t interval around a mean.

    Raises ValueError for a level outside (0, 1).
    """
    half = quantile(spread.df, upper(level)) * spread.error
    return mean - half, mean + half


def quantile(df: float, probability: float) -> float:
    """The quantile of Student's t with `df` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def p_value(statistic: float, df: float, alternative: Alternative) -> float:
    """The p-value of a t statistic for the given alternative.

    Raises ValueError for an unknown alternative.
    """
    from scipy.special import stdtr

    known("the alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * float(stdtr(df, -abs(statistic)))
    return float(stdtr(df, -statistic if alternative == "greater" else statistic))


def independent(one: Spread, two: Spread) -> Spread:
    """The standard error of a difference of two independent means, with Welch's degrees of freedom.

    At least one of the two standard errors must be positive.
    """
    error = math.hypot(one.error, two.error)
    a, b = (one.error / error) ** 2, (two.error / error) ** 2
    return Spread(error, 1 / (a * a / one.df + b * b / two.df))
