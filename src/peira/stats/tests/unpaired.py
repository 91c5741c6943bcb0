"""Unpaired differences: the estimate, and tests of the null hypothesis of no difference.

The `clusters` of a side label values that belong together: repeats of a case, or related cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from numpy.typing import ArrayLike

from peira.stats import student
from peira.stats.inputs import Floats, coded, flat, is_binary, is_rounding, upper
from peira.stats.intervals.bounded import METHOD, SMALLEST_P, BoundedSample, bounded_mean
from peira.stats.intervals.means import (
    ADJUSTED_FOR_SKEWNESS,
    EVIDENT,
    Limits,
    Shape,
    estimate,
    hidden_skewness,
    shape_of,
    skewness_of,
    spread,
    t_suffices,
    unbounded,
)
from peira.stats.student import Spread
from peira.stats.tests.permutation import ROUNDS, shuffle
from peira.stats.tests.two_proportions import mover, newcombe
from peira.stats.values import Alternative, Estimate, TestResult, remark_of

Labels = Iterable[Hashable] | None
"""Cluster labels of one side; None if its values are independent."""


def unpaired_difference(
    one: ArrayLike,
    two: ArrayLike,
    clusters_one: Labels = None,
    clusters_two: Labels = None,
    level: float = 0.95,
    limits: Limits | None = None,
    skewed: bool = False,
) -> Estimate:
    """The difference of two independent means, with an interval that fits the data.

    0/1 values: Newcombe's hybrid of the two single intervals. Everything else: Welch's t interval, from
    cluster-robust errors where values are clustered; for scores within `limits` where t does not suffice,
    the hybrid of two intervals without assumptions. With `skewed` Welch's is adjusted for evident skewness,
    which is for measures without limits. Unknown if a side has a single cluster, or neither
    varies, and the score has no limits.
    """
    first, second = flat(one), flat(two)
    if is_binary(first) and is_binary(second) and limits in (None, (0.0, 1.0)):
        return _binary(first, second, clusters_one, clusters_two, level)
    upper(level)
    if not is_welch_enough(first, second, limits, clusters_one, clusters_two):
        assert limits is not None
        return mover(
            bounded_mean(first, clusters_one, limits, level),
            bounded_mean(second, clusters_two, limits, level),
        )
    mean, n = float(first.mean() - second.mean()), first.size + second.size
    found = difference_spread(first, second, clusters_one, clusters_two, skewed)
    if found is None:
        return Estimate(mean, None, None, n, "unknown")
    method = _method(first, second, clusters_one, clusters_two, found)
    method += _remark((first, clusters_one), (second, clusters_two)) if skewed else ""
    return Estimate(mean, *student.around(mean, found, level), n, method)


def _remark(*sides: tuple[Floats, Labels]) -> str:
    """What the intervals of the sides' own means say of themselves: that they are skewed, or few."""
    said = {
        remark_of(unbounded(data, *coded(labels, data.size), 0.95, EVIDENT).method) for data, labels in sides
    }
    return next((f" ({remark})" for remark in ("skewed", "few") if f" ({remark})" in said), "")


def is_welch_enough(
    one: ArrayLike,
    two: ArrayLike,
    limits: Limits | None,
    clusters_one: Labels = None,
    clusters_two: Labels = None,
) -> bool:
    """Whether `unpaired_difference` uses Welch's t for these values, other than 0/1 values.

    It does if Student's t suffices for both sides, or the score has no limits.
    """
    if limits is None:
        return True
    sides = ((flat(one), clusters_one), (flat(two), clusters_two))
    return all(t_suffices(data, *coded(labels, data.size), limits) for data, labels in sides)


def unpaired_bounded(
    one: ArrayLike,
    two: ArrayLike,
    limits: Limits,
    clusters_one: Labels = None,
    clusters_two: Labels = None,
    alternative: Alternative = "two-sided",
) -> TestResult:
    """The test of equal means of scores within limits, by inverting the hybrid interval."""
    first, second = flat(one), flat(two)
    labels = [None if given is None else list(given) for given in (clusters_one, clusters_two)]
    samples = [BoundedSample.of(data, own, limits) for data, own in ((first, labels[0]), (second, labels[1]))]
    gap, n = samples[0].mean - samples[1].mean, first.size + second.size
    upward = p_by_inversion(gap, lambda tail: _reach(samples[0], samples[1], tail))
    downward = p_by_inversion(-gap, lambda tail: _reach(samples[1], samples[0], tail))
    p = {"greater": upward, "less": downward, "two-sided": min(1.0, 2 * min(upward, downward))}[alternative]
    return TestResult(p, None, n, f"hybrid of {METHOD}")


def _reach(one: BoundedSample, two: BoundedSample, tail: float) -> float:
    """How far below the difference its lower bound lies, with this tail probability."""
    return math.hypot(one.mean - one.low(tail), two.high(tail) - two.mean)


def p_by_inversion(gap: float, reach: Callable[[float], float]) -> float:
    """The one-sided p-value of a gap: the tail probability at which the lower bound gap - reach is 0."""
    if gap <= 0:
        return 1.0 if gap < 0 else 0.5
    low, high = math.log(SMALLEST_P), math.log(0.5)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if reach(math.exp(middle)) < gap else (middle, high)
    return math.exp(high)


def welch(
    one: ArrayLike,
    two: ArrayLike,
    clusters_one: Labels = None,
    clusters_two: Labels = None,
    alternative: Alternative = "two-sided",
    skewed: bool = False,
) -> TestResult:
    """Welch's t test of equal means; with clusters, from cluster-robust errors.

    With `skewed` it is adjusted for evident skewness, as the interval of `unpaired_difference` is.
    Unknown if a side has a single cluster, or neither side varies.
    """
    first, second = flat(one), flat(two)
    n, found = first.size + second.size, difference_spread(first, second, clusters_one, clusters_two, skewed)
    if found is None:
        return TestResult(None, None, n, "unknown")
    mean = float(first.mean() - second.mean())
    method = _method(first, second, clusters_one, clusters_two, found)
    return TestResult(student.p_of(mean, found, alternative), mean / found.error, n, method)


def tailed_spread(
    one: ArrayLike, two: ArrayLike, clusters_one: Labels = None, clusters_two: Labels = None
) -> Spread | None:
    """The standard error of the difference of two means, with the skewness of few units in full.

    See `hidden_skewness`; None if both sides have many units, or one of them has one, or neither varies.
    """
    first, second = flat(one), flat(two)
    found = difference_spread(first, second, clusters_one, clusters_two)
    skewness = None if found is None else hidden_skewness(*_shapes(first, second, clusters_one, clusters_two))
    return None if found is None or skewness is None else replace(found, skewness=skewness)


def permutation(
    one: ArrayLike,
    two: ArrayLike,
    alternative: Alternative = "two-sided",
    seed: int = 0,
    rounds: int = ROUNDS,
) -> TestResult:
    """The permutation test of exchangeable group labels (see `shuffle`).

    Exact for few values, otherwise `rounds` random shuffles from a seeded generator; the method says which.
    """
    first, second = flat(one), flat(two)
    p, statistic, exact = shuffle(first, second, alternative, seed, rounds)
    kind = "exact" if exact else f"{rounds:,} random shuffles"
    return TestResult(p, statistic, first.size + second.size, f"permutation ({kind})")


def mann_whitney(one: ArrayLike, two: ArrayLike, alternative: Alternative = "two-sided") -> TestResult:
    """The Mann-Whitney U test: exact for few values without ties.

    If all values are equal p is 1.
    """
    from scipy.stats import mannwhitneyu

    first, second = flat(one), flat(two)
    n = first.size + second.size
    if first.min() == first.max() == second.min() == second.max():
        return TestResult(1.0, None, n, "mann-whitney, no differences")
    found = mannwhitneyu(first, second, alternative=alternative)
    return TestResult(float(found.pvalue), float(found.statistic), n, "mann-whitney")


def _binary(first: Floats, second: Floats, one: Labels, two: Labels, level: float) -> Estimate:
    """The difference of two proportions: Newcombe's, or MOVER from clustered intervals."""
    if one is None and two is None:
        return newcombe(int(first.sum()), first.size, int(second.sum()), second.size, level)
    return mover(
        *(
            estimate(data, range(data.size) if labels is None else labels, level)
            for data, labels in ((first, one), (second, two))
        )
    )


def difference_spread(
    first: Floats, second: Floats, one: Labels, two: Labels, skewed: bool = False
) -> Spread | None:
    """The standard error of a difference of means, with its skewness if it is `skewed`.

    None if a side has one cluster or neither varies.
    """
    found = [_spread(data, labels) for data, labels in ((first, one), (second, two))]
    if found[0] is None or found[1] is None:
        return None
    if found[0].error == found[1].error == 0:
        return None
    together = student.independent(found[0], found[1])
    units = _units(first, one), _units(second, two)
    df = min(together.df, _few_degrees(*units)) if _is_few(*units) else together.df
    return Spread(together.error, df, _skewness(first, second, one, two) if skewed else 0.0)


def _skewness(first: Floats, second: Floats, one: Labels, two: Labels) -> float:
    """The skewness of the difference of two means."""
    own, other = _shapes(first, second, one, two)
    return skewness_of(own, other, noticed=EVIDENT)


def _shapes(first: Floats, second: Floats, one: Labels, two: Labels) -> tuple[Shape, Shape]:
    """The shapes of the means of both sides."""
    return shape_of(first, coded(one, first.size)[0]), shape_of(second, coded(two, second.size)[0])


FEW = 10
"""With fewer units on the smaller of two sides of unequal size, Welch's degrees of freedom are limited."""


def _units(data: Floats, labels: Labels) -> int:
    """The number of independent units of a side."""
    return coded(labels, data.size)[1]


def _is_few(one: int, two: int) -> bool:
    """Whether Welch's degrees of freedom, which are estimated, would be too many."""
    return one != two and min(one, two) < FEW


def _few_degrees(one: int, two: int) -> float:
    """Welch's degrees of freedom if both sides have equal variances (those of Bell and McCaffrey).

    The estimated ones are too many whenever the few values of the smaller side happen to lie close together:
    with 5 and 20 values Welch's test rejects in 5.7%, with 3 and 30 in 7.6%.
    """
    a, b = 1 / one, 1 / two
    return (a + b) ** 2 / (a * a / (one - 1) + b * b / (two - 1))


def _method(first: Floats, second: Floats, one: Labels, two: Labels, found: Spread) -> str:
    """The name of Welch's method, with what was done about clusters, few values and skewness."""
    clustered = "" if one is None and two is None else ", clustered"
    few = ", few" if _is_few(_units(first, one), _units(second, two)) else ""
    return f"welch{clustered}{few}{ADJUSTED_FOR_SKEWNESS if found.skewness else ''}"


def _spread(data: Floats, labels: Labels) -> Spread | None:
    """The standard error of one side's mean: 0 without variation, None with a single cluster."""
    codes, groups = coded(labels, data.size)
    if groups < 2:
        return None
    found = spread(data, codes)
    return Spread(0.0, found.df) if is_rounding(found.error, data) else found
