"""Power, sample size and smallest detectable difference of means and proportions.

All tests are two-sided at `alpha`; differences are in units of the score. Power is that of the t test itself
(noncentral t), not of a normal approximation. A `DifferenceVariance` describes what one case contributes;
results count cases.

For paired proportions only discordant cases count: `won` and `lost` are the probabilities that only the
first, or only the second, side gets a case right; `discordance` is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from peira.stats import normal
from peira.stats.tests.mcnemar import beyond, largest_p

_MOST = 10**12


# Means


@dataclass(frozen=True)
class DifferenceVariance:
    """The standard deviation of one case's contribution to a difference.

    Unpaired studies have `sides` 2, with n cases on each. `inflation` is the design effect of clustered
    cases, 1 + (m - 1) x correlation.
    """

    deviation: float
    sides: int = 1
    inflation: float = 1.0

    def __post_init__(self) -> None:
        if not self.deviation > 0 or self.sides not in (1, 2) or not self.inflation > 0:
            raise ValueError("need a positive deviation, 1 or 2 sides and a positive inflation")

    def error(self, n: float) -> float:
        """The standard error of the difference with n cases (on each side)."""
        return self.deviation * math.sqrt(self.sides * self.inflation / n)


def paired(deviation: float, inflation: float = 1.0) -> DifferenceVariance:
    """Both sides on the same cases.

    `deviation` is the standard deviation of the paired differences.
    """
    return DifferenceVariance(deviation, 1, inflation)


def unpaired(deviation: float, inflation: float = 1.0) -> DifferenceVariance:
    """Each side on n cases of its own; `deviation` is the common standard deviation of the values."""
    return DifferenceVariance(deviation, 2, inflation)


def repeated(
    between: float, within: float, repeats: int, other_within: float | None = None, inflation: float = 1.0
) -> DifferenceVariance:
    """Both sides on the same cases with `repeats` trials each; the arguments are variances.

    `between` is the between-case variance of the true difference; `within` and `other_within` (equal if not
    given) are the within-case variances over repeats on the first and second side. As repeats grow only
    `between` remains, and only more cases increase power.
    """
    second = within if other_within is None else other_within
    if min(between, within, second) < 0 or repeats < 1:
        raise ValueError("need variances of at least 0 and at least one repeat")
    return DifferenceVariance(math.sqrt(between + (within + second) / repeats), 1, inflation)


def deviation_interval(deviation: float, df: float, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a standard deviation with these degrees of freedom, for normal values."""
    from scipy.special import chdtri

    tail = (1 - level) / 2
    return deviation * math.sqrt(df / chdtri(df, tail)), deviation * math.sqrt(df / chdtri(df, 1 - tail))


def design_effect(size: float, correlation: float) -> float:
    """The factor by which clusters of `size` with this correlation inflate the variance of a mean."""
    if size < 1 or not -1 <= correlation <= 1 or 1 + (size - 1) * correlation <= 0:
        raise ValueError(f"need size >= 1 and a possible correlation, not {size} and {correlation}")
    return 1 + (size - 1) * correlation


def power(design: DifferenceVariance, n: int, difference: float, alpha: float = 0.05) -> float:
    """The power of the t test with n cases (on each side) for a true difference of this size.

    Two-sided at `alpha`; 0 with fewer than two cases.
    """
    _check(alpha)
    if n < 2:
        return 0.0
    df = design.sides * (n - 1)
    return _t_power(abs(difference) / design.error(n), df, alpha)


def cases_needed(
    design: DifferenceVariance, difference: float, alpha: float = 0.05, wanted: float = 0.8
) -> int | None:
    """The fewest cases (on each side) with at least the wanted power; None for a difference of 0.

    Found by doubling and bisection of the exact power, not by a normal approximation.
    """
    _check(alpha, wanted)
    if difference == 0:
        return None
    return fewest(lambda n: power(design, n, difference, alpha) >= wanted)


def smallest_difference(
    design: DifferenceVariance, n: int, alpha: float = 0.05, wanted: float = 0.8
) -> float | None:
    """The minimum detectable difference with n cases (on each side); None below 2 cases.

    The difference at which the two-sided test at `alpha` has the wanted power, by bisection.
    """
    _check(alpha, wanted)
    if n < 2:
        return None
    low, high = 0.0, design.error(n)
    while power(design, n, high, alpha) < wanted:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if power(design, n, middle, alpha) >= wanted else (middle, high)
    return high


def more_cases(
    design: DifferenceVariance, n: int, difference: float, alpha: float = 0.05, wanted: float = 0.8
) -> int | None:
    """How many cases (on each side) to add to n for the wanted power; None for a difference of 0.

    0 if n cases are enough already.
    """
    needed = cases_needed(design, difference, alpha, wanted)
    return None if needed is None else max(0, needed - n)


def error_bars_cases(
    between: float, within: float, difference: float, alpha: float = 0.05, wanted: float = 0.8
) -> float:
    """The sample size formula of "Adding Error Bars to Evals" for paired studies; not rounded.

    It uses normal quantiles. `between` is the between-case variance of the true difference, `within` the sum
    over both sides of the within-case variance divided by the number of repeats.
    """
    _check(alpha, wanted)
    quantiles = normal.quantile(1 - alpha / 2) + normal.quantile(wanted)
    return quantiles**2 * (between + within) / difference**2


def fewest(enough: Callable[[int], bool], least: int = 2, most: int = _MOST) -> int | None:
    """The smallest number from `least` (1 or 2) for which `enough` is true.

    None if none up to `most` is.

    `enough` must be monotone: once true, it stays true.
    """
    high = least
    while not enough(high):
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _t_power(shift: float, df: float, alpha: float) -> float:
    """The power of a two-sided t test with this noncentrality and degrees of freedom."""
    from scipy.special import stdtrit

    critical = float(stdtrit(df, 1 - alpha / 2))
    return min(1.0, 1 - _noncentral_t(df, shift, critical) + _noncentral_t(df, shift, -critical))


def _noncentral_t(df: float, shift: float, at: float) -> float:
    """The distribution function of noncentral t, also where scipy's series returns NaN.

    There it is integrated: the normal distribution of the mean, given the chi-distributed standard deviation.
    """
    from scipy.integrate import quad
    from scipy.special import nctdtr, ndtr
    from scipy.stats import chi

    found = float(nctdtr(df, shift, at))
    if not math.isnan(found):
        return found
    ends = chi.ppf((1e-14, 1 - 1e-14), df)
    scale = at / math.sqrt(df)
    return float(quad(lambda s: ndtr(scale * s - shift) * chi.pdf(s, df), *ends, epsabs=1e-13, limit=200)[0])


def _check(alpha: float, wanted: float = 0.5) -> None:
    """Raise ValueError unless 0 < alpha < power < 1."""
    if not 0 < alpha < 1 or not alpha < wanted < 1:
        raise ValueError(f"need 0 < alpha < power < 1, not alpha={alpha}, power={wanted}")


# Proportions


def mcnemar_power(won: float, lost: float, n: int, alpha: float = 0.05) -> float:
    """The power of McNemar's exact test with n cases.

    Exact over all outcomes up to n = 2,000; Connor's normal approximation beyond.
    """
    _check_matched(won, lost, alpha)
    if n > 2_000:
        return _connor(won, lost, n, alpha)
    return _exact(won, lost, n, alpha)


def mcnemar_cases(won: float, lost: float, alpha: float = 0.05, wanted: float = 0.8) -> int | None:
    """The number of cases for the wanted power of McNemar's test; None if `won` equals `lost`.

    One case fewer has less than the wanted power. Exact power is not monotone in n, so a smaller number may
    exist.
    """
    _check_matched(won, lost, alpha)
    if won == lost:
        return None
    return fewest(lambda n: mcnemar_power(won, lost, n, alpha) >= wanted)


def mcnemar_smallest(discordance: float, n: int, alpha: float = 0.05, wanted: float = 0.8) -> float | None:
    """The minimum detectable difference of paired proportions with n cases; None if there is none.

    `discordance` is the share of cases on which the sides differ, which bounds the difference.
    """

    def shown(difference: float) -> bool:
        won, lost = (discordance + difference) / 2, (discordance - difference) / 2
        return mcnemar_power(won, max(lost, 0.0), n, alpha) >= wanted

    if not shown(discordance):
        return None
    low, high = 0.0, discordance
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def proportions_power(one: float, two: float, n: int, alpha: float = 0.05) -> float:
    """The power of the pooled z test of two independent proportions with n cases on each side.

    By the normal approximation, with the unpooled variance under the alternative.
    """
    _check_matched(one, 0.0, alpha)
    _check_matched(two, 0.0, alpha)
    pooled = (one + two) / 2
    under_null = math.sqrt(2 * pooled * (1 - pooled) / n)
    error = math.sqrt((one * (1 - one) + two * (1 - two)) / n)
    return _z_power(abs(one - two), under_null, error, alpha)


def proportions_cases(one: float, two: float, alpha: float = 0.05, wanted: float = 0.8) -> int | None:
    """The fewest cases on each side with the wanted power; None if the proportions are equal."""
    if one == two:
        return None
    return fewest(lambda n: proportions_power(one, two, n, alpha) >= wanted)


def _connor(won: float, lost: float, n: int, alpha: float) -> float:
    """Connor's normal approximation of the power of McNemar's test."""
    difference, discordance = abs(won - lost), won + lost
    error = math.sqrt(max(discordance - difference**2, 0.0) / n)
    return _z_power(difference, math.sqrt(discordance / n), error, alpha)


def _z_power(difference: float, under_null: float, error: float, alpha: float) -> float:
    """The power of a two-sided z test with different standard errors under null and alternative."""
    from scipy.special import ndtr

    critical = normal.quantile(1 - alpha / 2) * under_null
    if error == 0:
        return float(difference > critical)
    return float(ndtr((difference - critical) / error) + ndtr((-difference - critical) / error))


def _exact(won: float, lost: float, n: int, alpha: float) -> float:
    """The exact power of McNemar's test, averaged over the number of discordant cases."""
    from scipy.stats import binom

    discordance = won + lost
    if discordance == 0:
        return 0.0
    chances = binom.pmf(np.arange(n + 1), n, discordance)
    return float(chances @ beyond(_critical(n, alpha), n, won / discordance, "two-sided"))


@lru_cache(maxsize=256)
def _critical(n: int, alpha: float) -> float:
    """The critical score of McNemar's exact test with n cases."""
    low, high = 0.0, 40.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if largest_p(middle, n, "two-sided") <= alpha else (middle, high)
    return high


def _check_matched(won: float, lost: float, alpha: float) -> None:
    """Raise ValueError unless the probabilities and alpha are possible."""
    if min(won, lost) < 0 or won + lost > 1 or not 0 < alpha < 1:
        raise ValueError(f"need chances that sum to at most 1 and 0 < alpha < 1, not {won}, {lost}, {alpha}")
