"""Student's t distribution: intervals, quantiles, p-values, and Welch's degrees of freedom.

A `Spread` with a skewness is that of a mean of skewed values. Its interval is the hull of Student's and of
Hall's, which transforms the t statistic by a monotone cubic that takes its skewness out (Hall 1992, "On the
removal of skewness by transformation"); its p-value is the largest of these, in agreement. Never narrower
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
    below = max([reach, *(_skewed(reach, part) for part in _parts(spread))])
    above = max([reach, *(-_skewed(-reach, part) for part in _parts(spread))])
    return mean - below * spread.error, mean + above * spread.error


def p_of(mean: float, spread: Spread, alternative: Alternative) -> float:
    """The p-value of the null hypothesis of a mean of 0, in agreement with `around`."""
    statistic = mean / spread.error
    plain = p_value(statistic, spread.df, alternative)
    unskewed = (
        statistic + part * statistic**2 / 3 + part**2 * statistic**3 / 27 + part / 6
        for part in _parts(spread)
    )
    return max([plain, *(p_value(one, spread.df, alternative) for one in unskewed)])


def _parts(spread: Spread) -> list[float]:
    """The skewnesses that are allowed for: up to that of the spread, which need not reach furthest."""
    return [spread.skewness * part / 4 for part in (1, 2, 3, 4)] if spread.skewness else []


def _skewed(reach: float, skewness: float) -> float:
    """The t statistic whose value without skewness is `reach`: the inverse of Hall's transformation."""
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
