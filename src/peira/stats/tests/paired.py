"""Paired differences: the estimate, and tests of the null hypothesis of no difference.

Equal positions of both sides belong to the same case; give one value per case and side (the mean over its
repeats). `clusters` labels cases that are related.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Codes, Floats, coded, is_binary, is_rounding, pairs, totals, upper
from peira.stats.intervals.bounded import bounded_test
from peira.stats.intervals.means import (
    ADJUSTED_FOR_SKEWNESS,
    EVIDENT,
    Limits,
    fitted,
    hidden_skewness,
    shape_of,
    skewed_spread,
    spread,
    t_suffices,
    unbounded,
)
from peira.stats.student import Spread, p_of
from peira.stats.tests.mcnemar import tango
from peira.stats.tests.permutation import ROUNDS, sign_flip
from peira.stats.values import Alternative, Estimate, TestResult


def difference(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    limits: Limits | None = None,
    skewed: bool = False,
) -> Estimate:
    """The mean of `one - two` with the interval method chosen by the kind of data.

    0/1 values of unrelated cases: Tango's score interval, of one case the whole range. Everything else: a t
    interval of the differences, cluster-robust where cases are related, or one without assumptions for scores
    within `limits` (`fitted`).
    With `skewed` t is adjusted for evident skewness, which is for measures without limits.
    If the differences do not vary: Tango's with each cluster as one case for 0/1 values, unknown bounds for
    others without limits.
    """
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    binary = is_binary(first) and is_binary(second)
    if binary and groups == first.size == 1:
        upper(level)
        return Estimate(float(first[0] - second[0]), -1.0, 1.0, 1, "whole range")
    if binary and groups == first.size:
        return tango(int((first > second).sum()), int((first < second).sum()), first.size, level)
    upper(level)
    if limits is not None:
        found = fitted(first - second, codes, groups, level, _of_difference(limits))
    else:
        found = unbounded(first - second, codes, groups, level, EVIDENT if skewed else math.inf)
    return _bounded(found, first - second, groups, level) if binary and groups > 1 else found


def _of_difference(limits: Limits) -> Limits:
    """The limits of a difference of two values within limits."""
    return limits[0] - limits[1], limits[1] - limits[0]


def paired_bounded(
    one: ArrayLike,
    two: ArrayLike,
    limits: Limits,
    clusters: Iterable[Hashable] | None = None,
    alternative: Alternative = "two-sided",
) -> TestResult:
    """The test of a mean difference of 0 without assumptions, for scores within limits (Gaffke's bound)."""
    first, second = pairs(one, two)
    reach = limits[1] - limits[0]
    return bounded_test(first - second, clusters, (-reach, reach), alternative)


def is_t_enough(
    one: ArrayLike, two: ArrayLike, limits: Limits | None, clusters: Iterable[Hashable] | None = None
) -> bool:
    """Whether `difference` uses Student's t for these values, other than 0/1 values of unrelated cases."""
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    return limits is None or t_suffices(first - second, codes, groups, _of_difference(limits))


def paired_t(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    skewed: bool = False,
) -> TestResult:
    """The paired t test of a mean difference of 0; cluster-robust where cases are related.

    With `skewed` it is adjusted for evident skewness, as the interval of `difference` is.

    Without variation p is 1 if every difference is 0, else that of the sign-flip permutation test: equal
    differences are evidence, and the more the more there are.
    """
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    data = first - second
    method = "paired t" if groups == data.size else "paired t, clustered"
    found = skewed_spread(data, codes, EVIDENT if skewed else math.inf) if groups > 1 else None
    if found is None or is_rounding(found.error, np.concatenate([first, second])):
        return _no_spread(data, codes, groups, method, alternative)
    mean = float(data.mean())
    method += ADJUSTED_FOR_SKEWNESS if found.skewness else ""
    return TestResult(p_of(mean, found, alternative), mean / found.error, data.size, method)


def tailed_spread(
    one: ArrayLike, two: ArrayLike, clusters: Iterable[Hashable] | None = None
) -> Spread | None:
    """The standard error of the mean of `one - two`, with the skewness of few units in full.

    See `hidden_skewness`; None if there are many units, or they do not vary.
    """
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    data = first - second
    skewness = hidden_skewness(shape_of(data, codes)) if groups > 1 else None
    found = spread(data, codes) if skewness is not None else None
    if skewness is None or found is None or is_rounding(found.error, np.concatenate([first, second])):
        return None
    return replace(found, skewness=skewness)


def paired_permutation(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    seed: int = 0,
    rounds: int = ROUNDS,
) -> TestResult:
    """The paired permutation test: the sides are exchanged cluster by cluster (see `sign_flip`).

    Exact for few clusters, otherwise `rounds` random sign flips from a seeded generator; the method says
    which.
    """
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    p, statistic, exact = sign_flip(totals(codes, first - second), alternative, seed, rounds)
    kind = "exact" if exact else f"{rounds:,} random flips"
    of = "" if groups == first.size else ", clustered"
    return TestResult(p, statistic / first.size, first.size, f"sign-flip permutation{of} ({kind})")


def wilcoxon(one: ArrayLike, two: ArrayLike, alternative: Alternative = "two-sided") -> TestResult:
    """Wilcoxon's signed-rank test of unrelated cases; zero differences are dropped.

    Without other differences p is 1.
    """
    from scipy.stats import wilcoxon as scipy_wilcoxon

    first, second = pairs(one, two)
    data = first - second
    data = data[data != 0]
    if data.size == 0:
        return TestResult(1.0, None, first.size, "wilcoxon, no differences")
    found = scipy_wilcoxon(data, alternative=alternative)
    return TestResult(float(found.pvalue), float(found.statistic), first.size, "wilcoxon signed rank")


def sign_test(one: ArrayLike, two: ArrayLike, alternative: Alternative = "two-sided") -> TestResult:
    """The exact sign test of unrelated cases; zero differences are dropped.

    The statistic is the number of positive differences. Without other differences p is 1.
    """
    from scipy.stats import binomtest

    first, second = pairs(one, two)
    won, lost = int((first > second).sum()), int((first < second).sum())
    if won + lost == 0:
        return TestResult(1.0, None, first.size, "sign test, no differences")
    p = float(binomtest(won, won + lost, alternative=alternative).pvalue)
    return TestResult(p, float(won), first.size, "sign test")


def _bounded(found: Estimate, data: Floats, groups: int, level: float) -> Estimate:
    """Clip the interval of a difference of 0/1 values to [-1, 1].

    Without variation, Tango's on clusters.
    """
    if found.low is not None and found.high is not None and found.method != "t on clusters":
        return Estimate(found.mean, max(found.low, -1.0), min(found.high, 1.0), found.n, found.method)
    won, lost = (round(groups * float((sign * data > 0).mean())) for sign in (1, -1))
    clustered = tango(won, lost, groups, level)
    return Estimate(found.mean, clustered.low, clustered.high, found.n, "tango on clusters")


def _no_spread(data: Floats, codes: Codes, groups: int, method: str, alternative: Alternative) -> TestResult:
    """The result without variation: p is 1 if every difference is 0, else by sign flips of the clusters."""
    if bool((data == 0).all()):
        return TestResult(1.0, None, data.size, f"{method}, no differences")
    sums = totals(codes, data)
    if groups < 2 or is_rounding(abs(float(data.mean())), data):
        return TestResult(None, None, data.size, "unknown")
    if bool((sums > 0).all()) or bool((sums < 0).all()):
        one_sided = 0.5**groups
        agrees = (alternative == "greater") == bool((sums > 0).all())
        p = 2 * one_sided if alternative == "two-sided" else one_sided if agrees else 1.0
    else:
        p = sign_flip(sums, alternative, 0)[0]
    return TestResult(min(1.0, p), None, data.size, "sign-flip permutation, equal differences")
