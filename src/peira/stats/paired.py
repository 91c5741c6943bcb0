"""Two sides measured on the same cases: the difference, case by case, and tests that there is none.

The n-th value of either side belongs to the same case; give one value per case and side (the mean over its
repeats). `clusters` names which cases belong together, where some do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Floats, coded, is_binary, is_rounding, pairs, totals, upper
from peira.stats.intervals import graded
from peira.stats.matched import tango
from peira.stats.permutation import ROUNDS, sign_flip
from peira.stats.robust import spread
from peira.stats.student import p_value
from peira.stats.values import Alternative, Estimate, Evidence


def difference(
    one: ArrayLike, two: ArrayLike, clusters: Iterable[Hashable] | None = None, level: float = 0.95
) -> Estimate:
    """The mean of `one - two` with the interval that fits.

    Yes/no values of unrelated cases: Tango's score interval. Everything else: a t interval of the
    differences, cluster-robust where cases belong together; where these show no spread, Tango's with each
    cluster as one case for yes/no values, and unknown bounds for others.
    """
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    binary = is_binary(first) and is_binary(second)
    if binary and groups == first.size:
        return tango(int((first > second).sum()), int((first < second).sum()), first.size, level)
    upper(level)
    found = graded(first - second, codes, groups, level)
    return _bounded(found, first - second, groups, level) if binary and groups > 1 else found


def paired_t(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    alternative: Alternative = "two-sided",
) -> Evidence:
    """Student's test that the mean difference is 0; cluster-robust where cases belong together."""
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    data = first - second
    method = "paired t" if groups == data.size else "paired t, clustered"
    found = spread(data, codes) if groups > 1 else None
    if found is None or is_rounding(found.error, np.concatenate([first, second])):
        return _no_spread(data, method)
    statistic = float(data.mean()) / found.error
    return Evidence(p_value(statistic, found.df, alternative), statistic, data.size, method)


def paired_permutation(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    seed: int = 0,
    rounds: int = ROUNDS,
) -> Evidence:
    """The test that either side could as well have been the other, cluster by cluster (see `sign_flip`)."""
    first, second = pairs(one, two)
    codes, groups = coded(clusters, first.size)
    p, statistic, exact = sign_flip(totals(codes, first - second), alternative, seed, rounds)
    kind = "exact" if exact else f"{rounds:,} random flips"
    of = "" if groups == first.size else ", clustered"
    return Evidence(p, statistic / first.size, first.size, f"sign-flip permutation{of} ({kind})")


def wilcoxon(one: ArrayLike, two: ArrayLike, alternative: Alternative = "two-sided") -> Evidence:
    """Wilcoxon's signed-rank test of unrelated cases; cases without a difference are left out."""
    from scipy.stats import wilcoxon as scipy_wilcoxon

    first, second = pairs(one, two)
    data = first - second
    data = data[data != 0]
    if data.size == 0:
        return Evidence(1.0, None, first.size, "wilcoxon, no differences")
    found = scipy_wilcoxon(data, alternative=alternative)
    return Evidence(float(found.pvalue), float(found.statistic), first.size, "wilcoxon signed rank")


def sign_test(one: ArrayLike, two: ArrayLike, alternative: Alternative = "two-sided") -> Evidence:
    """The exact test that either side is as often the larger; cases without a difference are left out."""
    from scipy.stats import binomtest

    first, second = pairs(one, two)
    won, lost = int((first > second).sum()), int((first < second).sum())
    if won + lost == 0:
        return Evidence(1.0, None, first.size, "sign test, no differences")
    p = float(binomtest(won, won + lost, alternative=alternative).pvalue)
    return Evidence(p, float(won), first.size, "sign test")


def _bounded(found: Estimate, data: Floats, groups: int, level: float) -> Estimate:
    """The same for differences of yes/no values: within [-1, 1], and known even without spread."""
    if found.low is not None and found.high is not None and found.method != "t on clusters":
        return Estimate(found.mean, max(found.low, -1.0), min(found.high, 1.0), found.n, found.method)
    won, lost = (round(groups * float((sign * data > 0).mean())) for sign in (1, -1))
    cautious = tango(won, lost, groups, level)
    return Estimate(found.mean, cautious.low, cautious.high, found.n, "tango on clusters")


def _no_spread(data: Floats, method: str) -> Evidence:
    """Nothing speaks against 0 when every difference is 0; a lone or constant difference says nothing."""
    if bool((data == 0).all()):
        return Evidence(1.0, None, data.size, f"{method}, no differences")
    return Evidence(None, None, data.size, "unknown")
