"""Confidence intervals of a mean, cluster-robust standard errors, and bounds for missing scores.

Where the standard error cannot be estimated, the interval is the whole range (proportions) or unknown (bounds
of None), never a single point. The unit of evidence is the cluster: repeats of one case add information about
that case and little about other cases.

For missing scores, `bounds` reports the complete-case estimate beside two worst-case imputations: all missing
scores at the worst possible value and all at the best. The mean over all cases lies between these, whatever
the missingness mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Codes, Floats, coded, flat, is_binary, is_rounding, sizes, totals, upper
from peira.stats.intervals.bounded import BoundedSample, bounded_mean
from peira.stats.intervals.proportions import Clusters, exact, wilson
from peira.stats.student import Spread, around
from peira.stats.values import FEW, FULLY_EVIDENT, Estimate, remark_of

# Cluster-robust standard errors


def spread(data: Floats, codes: Codes) -> Spread:
    """The cluster-robust standard error of the mean and its Satterthwaite degrees of freedom.

    The variance is bias-reduced (each cluster's squared residual sum is divided by one minus the cluster's
    share of the values), hence unbiased under homoscedastic clusters. The degrees of freedom assume an
    exchangeable intra-cluster correlation estimated from the data; they are G - 1 for G clusters of equal
    size and fewer for unequal sizes. Needs at least two clusters.
    """
    n, each = data.size, sizes(codes)
    residuals = totals(codes, data - data.mean())
    leverage = 1 / (1 - each / n)
    error = math.sqrt(float(residuals**2 @ leverage)) / n
    return Spread(error, _satterthwaite(each, leverage, _correlation(data, codes, each)))


def skewed_spread(data: Floats, codes: Codes, noticed: float) -> Spread:
    """`spread` with the skewness of the mean, for measures without limits; see `skewness_of`."""
    return replace(spread(data, codes), skewness=skewness_of(shape_of(data, codes), noticed=noticed))


class Shape(NamedTuple):
    """The shape of a mean of clusters: its variance, the skewness of clusters, and how many there are.

    `effective` counts clusters by their weights; `scale` is the largest contribution of one to the mean.
    """

    variance: float
    skewness: float
    clusters: int
    effective: float
    scale: float


def shape_of(data: Floats, codes: Codes) -> Shape:
    """The shape of a mean; clusters of any size are taken to be equally skewed."""
    each = sizes(codes)
    if each.size == data.size:
        moved, units = (data - data.mean()) / data.size, data
    else:
        moved, units = totals(codes, data - data.mean()) / data.size, totals(codes, data) / each
    scale = float(np.abs(moved).max())
    relative = moved / scale if scale else moved
    return Shape(float(relative @ relative), _skewness(units), each.size, _effective(each), scale)


def _skewness(units: Floats) -> float:
    """The skewness of values; 0 if they do not vary."""
    centred = units - units.mean()
    most = float(np.abs(centred).max())
    if is_rounding(most, units):
        return 0.0
    scaled = centred / most
    skewness: float = float((scaled**3).mean()) / float((scaled**2).mean()) ** 1.5
    return skewness


def _effective(weights: Floats) -> float:
    """The number of units of equal weight whose mean is as skewed as that of units with these weights."""
    return float((weights**2).sum()) ** 3 / float((weights**3).sum()) ** 2


NOTICED, EVIDENT = 0.5, 2.0
"""Skewness of a mean, and of a difference, is adjusted for beyond this many of its standard errors in normal
samples. Measures without limits are mostly skewed, their differences mostly not; but few units rarely show
that they are skewed: the fewer they are, from `FULLY_EVIDENT` down to `UNSHAPED`, the less clearly they need
to show it, in proportion, but as clearly as the first number says."""
UNSHAPED = 8
"""So few units say next to nothing about their shape."""
CAUTION = 5.0
"""Skewness is multiplied by 1 + this / n: samples of long-tailed values show too little of it."""


CAUTION_WITHIN, ENOUGH = 20.0, 12
"""The same for means of clusters, in which the errors of the single values hide the tail of the clusters;
for differences only if there are as many clusters as the second number: fewer gain little by it."""


def skewness_of(
    one: Shape, two: Shape | None = None, *, noticed: float, caution: float = CAUTION, lenient: bool = True
) -> float:
    """The skewness of a mean, or of the difference of two independent ones.

    0 if it does not exceed `noticed` times its standard error in normal samples, which may be infinite; if
    `lenient`, few units need show it less clearly.

    That of a mean of n values is their skewness over the root of n. Estimated without bias for normal values
    (Fisher's G1) and then increased by `CAUTION`, a number found by simulation ("Means" in
    docs/calibration.md): with 10 log-normal values coverage is 0.91 without and 0.94 with it.
    """
    sides = [(one, 1)] if two is None else [(one, 1), (two, -1)]
    scale, fewest = max(side.scale for side, _ in sides), min(side.clusters for side, _ in sides)
    if scale == 0 or fewest < 3 or math.isinf(noticed):
        return 0.0
    few = (fewest - UNSHAPED) / (FULLY_EVIDENT - UNSHAPED) if lenient else 1.0
    least = min(noticed, max(NOTICED, noticed * few))
    third = chance = variance = 0.0
    for side, sign in sides:
        n, share = side.clusters, side.variance * (side.scale / scale) ** 2
        part = (1 + caution / n) * math.sqrt(n * (n - 1)) / (n - 2) * share**1.5 / math.sqrt(side.effective)
        third += sign * part * side.skewness
        chance += part**2 * 6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3))
        variance += share
    return third / variance**1.5 if abs(third) > least * math.sqrt(chance) else 0.0


CAUTION_ONE_SIDED = (20.0, 60.0)
"""The same for one-sided bounds, which are the outermost with these: with a few units the larger skewness
does not reach furthest ("Gates" in docs/calibration.md)."""
CAUTION_HIDDEN = 40.0
"""The same where it is asked what a tail that few units do not show could do (see `hidden_skewness`)."""


def hidden_skewness(one: Shape, two: Shape | None = None) -> float | None:
    """The skewness of a difference of few units counted in full, whether or not it is evident.

    Few units whose tail is missing look as if they had none: what stays clear with this skewness does not
    rest on its absence. None if there are enough units to show a tail (`FULLY_EVIDENT`).
    """
    if min(side.clusters for side in (one, two) if side is not None) >= FULLY_EVIDENT:
        return None
    return skewness_of(one, two, noticed=0.0, caution=CAUTION_HIDDEN)


def mean_skewness(by_unit: Floats, clustered: bool) -> float:
    """The skewness of a mean of units that is to be allowed for; `clustered` units have several values."""
    shape = shape_of(by_unit, np.arange(by_unit.size))
    if clustered:
        return skewness_of(shape, noticed=0.0, caution=CAUTION_WITHIN)
    return skewness_of(shape, noticed=NOTICED)


AGREEING = 2.0
"""Values of a unit agree if their design effect exceeds this, as by chance in one normal study of twenty."""


def contrast_skewness(signed: Floats, codes: Codes, by_unit: Floats) -> float:
    """The skewness of a contrast in a linear model that is to be allowed for.

    `signed` are the residuals of single values with the signs of their weights in the contrast, each of the
    unit that `codes` says; `by_unit` are the contributions of the units, whose skewness it is. Few units look
    skewed by chance: their skewness counts fully only if it is evident in the single values, which are many,
    or if the values of a unit agree, so that a tail can show in the units alone. Otherwise it has to be as
    evident as in many units, and does not count below `FEW`.
    """
    units, single = shape_of(by_unit, np.arange(by_unit.size)), shape_of(signed, np.arange(signed.size))
    evident = skewness_of(single, noticed=EVIDENT, lenient=False)
    if evident or design_effect(signed, codes) > AGREEING:
        caution = CAUTION_WITHIN if units.clusters >= ENOUGH else CAUTION
        return skewness_of(units, noticed=EVIDENT, caution=caution)
    return skewness_of(units, noticed=EVIDENT, lenient=False) if units.clusters >= FEW else 0.0


def _satterthwaite(each: Floats, weights: Floats, correlation: float) -> float:
    """Degrees of freedom (E Q)^2 / (Var Q / 2) of the cluster-robust variance.

    Q is the weighted sum of squared cluster sums of residuals.

    The cluster sums of residuals have covariance diag(v) + a b' + b a' + s a a', in the names used below, so
    that both moments are computed without forming the matrix.
    """
    n = float(each.sum())
    v = each * (1 + (each - 1) * correlation)
    a, b, s = each, -v / n, float(v.sum()) / n**2
    rest = 2 * a * b + s * a * a
    aa, ab, bb = (float(weights @ (x * y)) for x, y in ((a, a), (a, b), (b, b)))
    low_rank = 2 * aa * bb + 2 * ab**2 + 4 * s * aa * ab + s**2 * aa**2
    squares = float(weights**2 @ (v * v + 2 * v * rest)) + low_rank
    return float(weights @ (v + rest)) ** 2 / squares


def _correlation(data: Floats, codes: Codes, each: Floats) -> float:
    """The intra-cluster correlation by one-way analysis of variance, clipped to [0, 1]."""
    n, groups = data.size, each.size
    if n == groups:
        return 0.0
    means = totals(codes, data) / each
    within = float(((data - means[codes]) ** 2).sum()) / (n - groups)
    between = float(each @ (means - data.mean()) ** 2) / (groups - 1)
    typical = (n - float(each @ each) / n) / (groups - 1)
    variance = max(0.0, (between - within) / typical)
    return variance / (variance + within) if variance > 0 else 0.0


def design_effect(data: Floats, codes: Codes) -> float:
    """The variance of the mean over that of independent values, by the correlation of values within units."""
    each = sizes(codes)
    return float((1 + (each - 1) * _correlation(data, codes, each)) @ each) / data.size


def two_way(
    values: ArrayLike, one: Iterable[Hashable], two: Iterable[Hashable], level: float = 0.95
) -> Estimate:
    """The mean with two-way clustered standard errors (Cameron, Gelbach and Miller).

    For values that are correlated in two ways, such as within cases and within judges: the variance clustered
    by `one`, plus that clustered by `two`, minus that clustered by both. Each has its factor G/(G-1), and the
    t quantile uses the smaller number of clusters minus 1. The variance is never taken below either one-way
    variance, since the difference can be too small or negative. Unknown with fewer than two clusters in
    either way, or without variation.
    """
    data = flat(values)
    upper(level)
    (rows, n_rows), (columns, n_columns) = coded(one, data.size), coded(two, data.size)
    mean, fewest = float(data.mean()), min(n_rows, n_columns)
    if fewest < 2:
        return Estimate(mean, None, None, data.size, "unknown")
    either = [_variance(data, codes, n) for codes, n in ((rows, n_rows), (columns, n_columns))]
    both = rows * n_columns + columns
    _, cells = np.unique(both, return_inverse=True)
    variance = sum(either) - _variance(data, cells, int(cells.max()) + 1)
    error = math.sqrt(max(variance, *either))
    if is_rounding(error, data):
        return Estimate(mean, None, None, data.size, "unknown")
    bounds = around(mean, Spread(error, fewest - 1), level)
    return Estimate(mean, *bounds, data.size, "two-way clustered")


def _variance(data: Floats, codes: Codes, groups: int) -> float:
    """The one-way cluster-robust variance of the mean, with the factor G/(G-1)."""
    residuals = totals(codes, data - data.mean())
    return groups / (groups - 1) * float(residuals @ residuals) / data.size**2


# Intervals

SKEWED, VERY_SKEWED = 50, 10
"""Values are marked as skewed if they are fewer than this many times their squared skewness: Student's t is
too narrow then, the second also if it is adjusted."""

__all__ = ["Estimate", "clustered", "estimate", "mean_t", "wilson"]


def mean_t(values: ArrayLike, level: float = 0.95) -> Estimate:
    """Student's t interval of the mean of independent values.

    Bounds are unknown (None) for a single value and for constant values, whose standard error cannot be
    estimated. The method is "t (skewed)" if the values are so skewed for their number that coverage falls
    below the nominal level, and "t (few)" if there are too few to assess skewness.
    """
    data = flat(values)
    found = _from_spread(data, data.size, level, "t")
    return _with_skewness_remark(found, data, np.ones(data.size))


def clustered(values: ArrayLike, clusters: Iterable[Hashable], level: float = 0.95) -> Estimate:
    """The mean of values that come in clusters, such as repeats of a case.

    One cluster: the whole range for 0/1 values, else unknown. 0/1 values: Wilson's score interval averaged
    over the intra-cluster correlations compatible with the data ("wilson on clusters"). Other values: a t
    interval with the bias-reduced cluster-robust standard error and Satterthwaite degrees of freedom. If that
    standard error is zero because all cluster sums of residuals vanish, each cluster counts as one value ("t
    on clusters"); the bounds are unknown if the single values do not vary either.
    """
    data = flat(values)
    codes, groups = coded(clusters, data.size)
    return _clustered(data, codes, groups, level)


Limits = tuple[float, float]
"""The least and the greatest possible value of a score."""
MUCH_WIDER = 2.0
"""Student's t is not used for bounded scores if the interval without assumptions is wider by this factor."""


def estimate(
    values: ArrayLike, clusters: Iterable[Hashable], level: float = 0.95, limits: Limits | None = None
) -> Estimate:
    """The mean with the interval method chosen by the kind of data.

    - one cluster (hence also one value): the whole range [0, 1] for 0/1 values, else unknown;
    - one value per cluster: exact (Blaker) for 0/1 values, else see `fitted`;
    - several values in some cluster: see `clustered`, and `fitted` for values other than 0 and 1.

    Values count as a proportion if all are 0 or 1. `limits` are those of the score, if it has any. Known
    bounds satisfy `low <= mean <= high` and `low < high`. Raises ValueError for no values, values that are
    not finite or outside the limits, and unequal lengths.
    """
    data = flat(values)
    codes, groups = coded(clusters, data.size)
    if is_binary(data) and limits in (None, (0.0, 1.0)):
        if groups == data.size > 1:
            return exact(int(data.sum()), data.size, level)
        return _clustered(data, codes, groups, level)
    upper(level)
    return fitted(data, codes, groups, level, limits)


def fitted(data: Floats, codes: Codes, groups: int, level: float, limits: Limits | None) -> Estimate:
    """The interval of a mean that is not a proportion: Student's t, or without assumptions within limits.

    Arguments are those of `graded`. Without `limits` t is adjusted for skewness (`unbounded`), with them
    it is used only where it suffices (`t_suffices`). Unknown with a single cluster.
    """
    if limits is None:
        return unbounded(data, codes, groups, level)
    if groups < 2 or t_suffices(data, codes, groups, limits):
        return graded(data, codes, groups, level)
    return bounded_mean(data, codes.tolist() if groups < data.size else None, limits, level)


def t_suffices(data: Floats, codes: Codes, groups: int, limits: Limits) -> bool:
    """Whether Student's t can be trusted with values within these limits.

    It cannot if the values are few or skewed (its own remark), or if the interval that makes no assumption
    about their shape is much wider: then values that were not seen, as far from the others as the limits
    permit, could move the mean by more than t allows for. Few units are enough if each has several values
    that differ, and so show what values there are (`_is_seen_in_units`). Judged at the level 0.95 whatever
    the level asked for, so that intervals are nested.
    """
    student = graded(data, codes, groups, 0.95)
    if student.low is None or student.high is None:
        return False
    if (remark := remark_of(student.method)) or groups < data.size:
        if "skewed" not in remark and _is_seen_in_units(data, codes, groups, limits):
            return True
        if remark:
            return False
    return not _is_much_wider(data, codes if groups < data.size else None, limits, student)


LEAST_UNITS = 5
"""With fewer units their values say too little about other units."""
LEAST_EFFECTIVE, FEW_VALUES = 1.5, 12
"""Units have several values that differ if each is worth more independent values than the first, and values
that differ from the most common one are worth at least the second. Found by simulation ("Studies of several
conditions" in docs/calibration.md)."""


def _is_seen_in_units(data: Floats, codes: Codes, groups: int, limits: Limits) -> bool:
    """Whether the values within units, counted by what they are worth, show that t can be trusted.

    Answers to a case under several other conditions are worth more than one answer, and fewer than they are:
    each unit of m values counts as m / (1 + (m - 1) r) of them, where r is their correlation within units.
    """
    if groups < LEAST_UNITS or groups == data.size:
        return False
    worth = 1 / design_effect(data, codes)
    few = _remark(data, np.ones(data.size), SKEWED, worth, FEW_VALUES)
    if few or worth * data.size < LEAST_EFFECTIVE * groups:
        return False
    return not _is_much_wider(data, None, limits, mean_t(data))


def _is_much_wider(data: Floats, codes: Codes | None, limits: Limits, student: Estimate) -> bool:
    """Whether the interval without assumptions is much wider than Student's, both at the level 0.95.

    Mostly two probabilities say so: the ends need not be found.
    """
    if student.low is None or student.high is None:
        return True
    sample, tail = BoundedSample.of(data, None if codes is None else codes.tolist(), limits), 0.025
    half = MUCH_WIDER * (student.high - student.low) / 2
    beyond = [sample.p_greater(sample.mean - half) > tail, sample.p_less(sample.mean + half) > tail]
    if all(beyond) or not any(beyond):
        return all(beyond)
    return sample.high(tail) - sample.low(tail) > 2 * half


def graded(data: Floats, codes: Codes, groups: int, level: float) -> Estimate:
    """The t interval of a mean, clustered if needed; 0/1 values are not treated as a proportion.

    `codes` are the cluster codes of `data` and `groups` their number. Unknown with a single cluster.
    """
    if groups == data.size:
        return mean_t(data, level)
    if groups == 1:
        return _unknown(data)
    found, mean = spread(data, codes), float(data.mean())
    if is_rounding(found.error, data):
        return _from_spread(data, groups, level, "t on clusters")
    bounds = around(mean, found, level)
    each = sizes(codes)
    return _with_skewness_remark(
        Estimate(mean, *bounds, data.size, "clustered"), totals(codes, data) / each, each
    )


ADJUSTED_FOR_SKEWNESS = ", adjusted for skewness"
"""What is appended to the name of a method that uses the skewness of its `Spread`."""


def unbounded(data: Floats, codes: Codes, groups: int, level: float, noticed: float = NOTICED) -> Estimate:
    """The t interval of a measure without limits (time, cost, counts), adjusted for skewness.

    The first arguments are those of `graded`, whose interval it contains; `noticed` that of `skewness_of`.
    """
    plain = graded(data, codes, groups, level)
    if plain.low is None or plain.method.startswith("t on clusters"):
        return plain
    if noticed == NOTICED and groups < data.size:  # a mean: see `CAUTION_WITHIN`
        skewness = skewness_of(shape_of(data, codes), noticed=0.0, caution=CAUTION_WITHIN)
    else:
        skewness = skewness_of(shape_of(data, codes), noticed=noticed)
    if not skewness:
        return plain
    found, each = replace(spread(data, codes), skewness=skewness), sizes(codes)
    method = plain.method.partition(" (")[0] + ADJUSTED_FOR_SKEWNESS
    adjusted = Estimate(plain.mean, *around(plain.mean, found, level), plain.n, method)
    return _with_skewness_remark(adjusted, totals(codes, data) / each, each, VERY_SKEWED)


def one_sided(values: ArrayLike, clusters: Iterable[Hashable], level: float) -> tuple[float, float]:
    """The lower and the upper one-sided bound of the mean of a measure without limits, each at this level.

    Its skewness counts in full, whether or not it is evident (see `CAUTION_ONE_SIDED`): a limit on the side
    of a tail would be passed by the samples that lack it. Both are the mean without variation.
    """
    data = flat(values)
    codes, groups = coded(clusters, data.size)
    mean = float(data.mean())
    found = spread(data, codes) if groups > 1 else None
    if found is None or is_rounding(found.error, data):
        return mean, mean
    shape = shape_of(data, codes)
    every = [skewness_of(shape, noticed=0.0, caution=caution) for caution in CAUTION_ONE_SIDED]
    ends = [around(mean, replace(found, skewness=skewness), 2 * level - 1) for skewness in every]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _clustered(data: Floats, codes: Codes, groups: int, level: float) -> Estimate:
    """`clustered` for prepared arrays: the proportion interval for 0/1 values, else the t interval."""
    upper(level)
    if not is_binary(data):
        return graded(data, codes, groups, level)
    mean = float(data.mean())
    if groups == 1:
        return Estimate(mean, 0.0, 1.0, data.size, "whole range")
    bounds = Clusters(totals(codes, data), sizes(codes)).bounds(level)
    return Estimate(mean, *bounds, data.size, "wilson on clusters")


def _from_spread(data: Floats, units: int, level: float, method: str) -> Estimate:
    """A t interval from the standard deviation of single values, with `units` as the sample size."""
    upper(level)
    deviation = float(data.std(ddof=1)) if units > 1 else 0.0
    if is_rounding(deviation, data):
        return _unknown(data)
    mean, found = float(data.mean()), Spread(deviation / math.sqrt(units), units - 1.0)
    return Estimate(mean, *around(mean, found, level), data.size, method)


def _with_skewness_remark(found: Estimate, units: Floats, weights: Floats, rule: int = SKEWED) -> Estimate:
    """Append "skewed" or "few" to the method if a t interval of the weighted mean may undercover.

    The threshold is `rule` times the squared skewness (twice Cochran's for Student's t), compared with the
    effective number of units under unequal weights; skewness within two of its standard errors is ignored.
    With fewer than `FEW` units that differ from the most common value, skewness cannot be assessed.
    """
    if found.low is None or is_rounding(float(np.abs(units - units.mean()).max()), units):
        return found
    remark = _remark(units, weights, rule)
    return replace(found, method=f"{found.method} ({remark})") if remark else found


def _remark(units: Floats, weights: Floats, rule: int, worth: float = 1.0, few: int = FEW) -> str:
    """ "skewed", "few" or neither; each unit counts as this `worth` of an independent one."""
    n = units.size
    if n < 3:
        return "few"
    skewness = abs(_skewness(units))
    chance = math.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))
    if worth * _effective(weights) < rule * skewness**2 and skewness > 2 * chance:
        return "skewed"
    differing = n - int(np.unique(units, return_counts=True)[1].max())
    return "few" if worth * differing < few else ""


def _unknown(data: Floats) -> Estimate:
    """The mean with unknown bounds."""
    return Estimate(float(data.mean()), None, None, data.size, "unknown")


# Bounds for missing scores


@dataclass(frozen=True)
class Bounds:
    """The mean over observed scores, and its range over all possible values of the missing ones.

    `complete` is the complete-case estimate, None if everything is missing. `low` and `high` are the means
    with every missing score at the worst and at the best value; None if the score has no such value. `lowest`
    and `highest` are the outer confidence bounds of these two, which cover sampling error and missingness
    together.
    """

    complete: Estimate | None
    low: float | None
    high: float | None
    lowest: float | None
    highest: float | None
    missing: int


def bounds(
    values: ArrayLike,
    clusters: Iterable[Hashable],
    missing: Iterable[Hashable],
    worst: float | None = 0.0,
    best: float | None = 1.0,
    level: float = 0.95,
) -> Bounds:
    """Worst-case bounds of a mean with missing scores.

    `values` and `clusters` describe the observed scores, `missing` the clusters of the missing ones. `worst`
    and `best` are the smallest and largest possible score, None for a score that is unbounded on that side.
    Raises ValueError for values outside that range.
    """
    known, labels, lost = np.asarray(values, dtype=np.float64), list(clusters), list(missing)
    if known.size != len(labels):
        raise ValueError(f"{known.size} values, but {len(labels)} cluster labels")
    if worst is not None and best is not None and not worst < best:
        raise ValueError(f"the worst value must lie below the best, not {worst} and {best}")
    if known.size and not _is_within(known, worst, best):
        raise ValueError(f"every value must lie between {worst} and {best}")
    limits = None if worst is None or best is None else (worst, best)
    complete = estimate(flat(known), labels, level, limits) if known.size else None
    ends = [_imputed(known, labels, lost, end, level, limits) for end in (worst, best)]
    low, high = (None if end is None else end.mean for end in ends)
    lowest = None if ends[0] is None else ends[0].low
    highest = None if ends[1] is None else ends[1].high
    return Bounds(complete, low, high, lowest, highest, len(lost))


def _imputed(
    known: np.ndarray,
    labels: list[Hashable],
    lost: list[Hashable],
    end: float | None,
    level: float,
    limits: Limits | None,
) -> Estimate | None:
    """The estimate with every missing score imputed as `end`.

    None if there is no such value or no data.
    """
    if (end is None and lost) or not (labels or lost):
        return None
    filled = np.concatenate([known, np.full(len(lost), end or 0.0)])
    return estimate(filled, labels + lost, level, limits)


def _is_within(known: np.ndarray, worst: float | None, best: float | None) -> bool:
    """Whether all values lie within the possible range."""
    return (worst is None or float(known.min()) >= worst) and (best is None or float(known.max()) <= best)
