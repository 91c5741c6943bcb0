"""Paired proportions: McNemar's test, Tango's score interval, the matched odds ratio.

`won` counts the cases that only the first side got right, `lost` those that only the second did.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np

from peira.stats import normal
from peira.stats.inputs import Floats, counts, known, upper
from peira.stats.intervals.proportions import exact
from peira.stats.values import ALTERNATIVES, Alternative, Estimate, Interval, TestResult

_MOST_CASES = 5_000
_SHARES = 400


def mcnemar(
    won: int,
    lost: int,
    n: int,
    alternative: Alternative = "two-sided",
    method: Literal["exact", "conditional", "mid-p", "asymptotic"] | None = None,
) -> TestResult:
    """McNemar's test, on `n` cases, that both sides win equally often.

    - "exact" (Suissa and Shuster) is the unconditional test: the maximum p-value over the unknown discordance
      rate. It keeps its level and is more powerful than the conditional test.
    - "conditional" is the classical exact binomial test given the number of discordant cases, which is very
      conservative when they are few.
    - "mid-p" is the same with half the probability of the observed outcome.
    - "asymptotic" is the normal approximation.

    The default is "exact" up to 5,000 cases and "asymptotic" beyond. Without discordant cases p is 1.
    """
    _check(won, lost, n)
    known("the alternative", alternative, ALTERNATIVES)
    known("the method", method or "exact", ("exact", "conditional", "mid-p", "asymptotic"))
    if won + lost == 0:
        return TestResult(1.0, None, n, "mcnemar, no differences")
    z, chosen = (
        (won - lost) / math.sqrt(won + lost),
        method or ("exact" if n <= _MOST_CASES else "asymptotic"),
    )
    if chosen == "asymptotic":
        p = normal.p_value(z, alternative)
    elif chosen == "exact":
        p = largest_p(z, n, alternative)
    else:
        p = _binomial_p(won, won + lost, alternative, 0.5 if chosen == "mid-p" else 0.0)
    return TestResult(p, z, n, f"mcnemar {chosen}")


def largest_p(z: float, n: int, alternative: Alternative) -> float:
    """The maximum p-value of the score `z` with n cases, over all discordance rates.

    The rates are a grid of 400, equidistant on the arcsine scale.
    """
    return min(1.0, float((_differing(n) @ beyond(z, n, 0.5, alternative)).max()))


@lru_cache(maxsize=2)
def _differing(n: int) -> Floats:
    """The binomial probabilities of 0 to n discordant cases, for a grid of discordance rates."""
    from scipy.stats import binom

    shares = np.sin(np.linspace(0, np.pi / 2, _SHARES + 1)[1:, None]) ** 2
    return np.asarray(binom.pmf(np.arange(n + 1), n, shares), dtype=np.float64)


def beyond(z: float, n: int, share: float, alternative: Alternative) -> Floats:
    """The probability of a score as extreme as `z`, for 0 to n discordant cases.

    The first side wins each discordant case with probability `share`. Returns n + 1 probabilities, given the
    number of discordant cases; without any the score counts as 0.
    """
    from scipy.stats import binom

    k = np.arange(1, n + 1)
    edge = (abs(z) if alternative == "two-sided" else z) * np.sqrt(k)
    above = binom.sf(np.ceil((k + edge) / 2 - 1e-9) - 1, k, share)
    below = binom.cdf(np.floor((k + (edge if alternative == "less" else -edge)) / 2 + 1e-9), k, share)
    sides = {"greater": above, "less": below, "two-sided": np.minimum(1.0, above + below)}
    none = {"greater": z <= 0, "less": z >= 0, "two-sided": z == 0}[alternative]
    return np.concatenate([[float(none)], sides[alternative]])


def tango(won: int, lost: int, n: int, level: float = 0.95) -> Estimate:
    """Tango's score interval of the difference of paired proportions among `n` cases.

    Within [-1, 1], and of positive width even without discordant cases.
    """
    _check(won, lost, n)
    z, mean = normal.quantile(upper(level)), (won - lost) / n
    low = _crossing(won, lost, n, z, -1.0, mean)
    high = -_crossing(lost, won, n, z, -1.0, -mean)
    return Estimate(mean, min(low, mean), max(high, mean), n, "tango")


def tango_score(won: int, lost: int, n: int, difference: float) -> float:
    """Tango's score statistic of the observed difference under the null value `difference`.

    The variance uses the constrained maximum likelihood estimate under the null. Infinite if it is 0 and the
    observed difference deviates from the null value.
    """
    a, c = 2.0 * n, -lost * difference * (1 - difference)
    b = -won - lost + (2 * n - won + lost) * difference
    only_second = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = n * (2 * only_second + difference * (1 - difference))
    distance = won - lost - n * difference
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def matched_odds_ratio(won: int, lost: int, level: float = 0.95) -> Interval:
    """The ratio of `won` to `lost` with its exact interval; unbounded above if none is lost.

    The interval is that of the proportion of wins among discordant cases. Unknown without discordant cases.
    """
    counts(won=won, lost=lost)
    upper(level)
    if won + lost == 0:
        return Interval(None, None, None, 0, "unknown")
    found = exact(won, won + lost, level)
    value = won / lost if lost else None
    return Interval(value, _odds(found.low), _odds(found.high), won + lost, "exact")


def _odds(share: float | None) -> float | None:
    """The odds of a proportion; None if it is unknown or 1."""
    return None if share is None or share >= 1 else share / (1 - share)


def _check(won: int, lost: int, n: int) -> None:
    """Raise ValueError unless the counts are possible."""
    counts(won=won, lost=lost)
    if won + lost > n or n < 1:
        raise ValueError(f"need won + lost <= n and n >= 1, not {won} + {lost} of {n}")


def _binomial_p(won: int, n: int, alternative: Alternative, half: float) -> float:
    """The conditional (binomial) p-value; `half` is the share of the observed outcome to subtract."""
    from scipy.special import bdtr, bdtrc

    here = math.exp(math.lgamma(n + 1) - math.lgamma(won + 1) - math.lgamma(n - won + 1) - n * math.log(2))
    below, above = float(bdtr(won, n, 0.5)), float(bdtrc(won, n, 0.5)) + here
    if alternative == "two-sided":
        return min(1.0, 2 * (min(below, above) - half * here))
    return (above if alternative == "greater" else below) - half * here


def _crossing(won: int, lost: int, n: int, z: float, end: float, mean: float) -> float:
    """The difference below the mean at which Tango's score equals `z`, by bisection."""
    if mean <= end:
        return end
    low, high = end, mean
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tango_score(won, lost, n, middle) > z else (low, middle)
    return (low + high) / 2
