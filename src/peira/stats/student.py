"""Student's t distribution: intervals, quantiles, p-values, and Welch's degrees of freedom.

A `Spread` with a skewness is that of a mean of skewed values. Its interval is the hull of Student's and of
Hall's, which transforms the t statistic by a monotone cubic that takes its skewness out (Hall 1992, "On the
removal of skewness by transformation"); its p-value is the larger of the two, in agreement. Never narrower
than Student's t at either end, so that a skewness which the sample has by chance does no harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from peira.stats.inputs import known, upper
from peira.stats.values import ALTERNATIVES, Alternative


@dataclass(frozen=True)
class Spread:
    """A standard error and its degrees of freedom; `skewness` is that of the estimate, 0 to ignore it."""

    error: float
    df: float
    skewness: float = 0.0


def around(mean: float, spread: Spread, level: float) -> tuple[float, float]:
    """The two-sided t interval around a mean, adjusted for the skewness of the spread if it has one.

    Raises ValueError for a level outside (0, 1).
    """
    reach = quantile(spread.df, upper(level))
    below = above = reach
    if spread.skewness:
        below, above = max(reach, _skewed(reach, spread)), max(reach, -_skewed(-reach, spread))
    return mean - below * spread.error, mean + above * spread.error


def p_of(mean: float, spread: Spread, alternative: Alternative) -> float:
    """The p-value of the null hypothesis of a mean of 0, in agreement with `around`."""
    statistic = mean / spread.error
    plain = p_value(statistic, spread.df, alternative)
    if not spread.skewness:
        return plain
    skewness = spread.skewness
    unskewed = statistic + skewness * statistic**2 / 3 + skewness**2 * statistic**3 / 27 + skewness / 6
    return max(plain, p_value(unskewed, spread.df, alternative))


def _skewed(reach: float, spread: Spread) -> float:
    """The t statistic whose value without skewness is `reach`: the inverse of Hall's transformation."""
    skewness = spread.skewness
    return 3 / skewness * (math.cbrt(1 + skewness * (reach - skewness / 6)) - 1)


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
