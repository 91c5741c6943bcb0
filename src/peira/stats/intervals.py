"""Means with honest intervals.

No interval here is narrower than the data can support: where the spread cannot be estimated, the interval is
the whole range (a proportion) or unknown (bounds of None), and never a point. The unit of evidence is the
cluster: repeats of one case tell more about that case and little about the next.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Codes, Floats, coded, flat, is_binary, is_rounding, sizes, totals, upper
from peira.stats.overdispersed import Clusters
from peira.stats.proportions import exact, wilson
from peira.stats.robust import spread
from peira.stats.student import Spread, around
from peira.stats.values import Estimate

FEW = 19
"""Fewer units than this, beside those that are all the same, do not show whether they are skewed."""

__all__ = ["Estimate", "clustered", "estimate", "mean_t", "wilson"]


def mean_t(values: ArrayLike, level: float = 0.95) -> Estimate:
    """Student's t interval of a mean of independent values.

    Bounds are unknown for a single value, and for values that are all the same: a sample without spread says
    nothing about the spread of what was not sampled. The method is "t (skewed)" when the values lean so far
    to one side, for their number, that the interval holds the truth less often than its level says, and
    "t (few)" when there are too few of them to tell.
    """
    data = flat(values)
    found = _from_spread(data, data.size, level, "t")
    return _warned(found, data, np.ones(data.size))


def clustered(values: ArrayLike, clusters: Iterable[Hashable], level: float = 0.95) -> Estimate:
    """The mean of values that come in clusters.

    With one cluster: the whole range for 0/1 values, else unknown. 0/1 values: Wilson's interval averaged
    over the correlations within clusters that the data leave possible ("wilson on clusters"). Other values:
    a t interval with the bias-reduced cluster-robust standard error and Satterthwaite's degrees of freedom,
    which for clusters of equal size are G - 1. Where the clusters lean exactly alike that error is zero, by
    luck or for want of clusters; each cluster then counts as one value ("t on clusters"), and the bounds are
    unknown if there is no spread of single values either.
    """
    data = flat(values)
    codes, groups = coded(clusters, data.size)
    return _clustered(data, codes, groups, level)


def estimate(values: ArrayLike, clusters: Iterable[Hashable], level: float = 0.95) -> Estimate:
    """The mean with the interval that fits the data.

    - one cluster (so also one value): the whole range [0, 1] for 0/1 values, else unknown;
    - one value per cluster: exact for 0/1 values, else Student's t;
    - several values in some cluster: as `clustered` says.

    Values count as a proportion when all are 0 or 1. Known bounds satisfy `low <= mean <= high` and
    `low < high`. Raises ValueError for no values, values that are not finite, and unequal lengths.
    """
    data = flat(values)
    codes, groups = coded(clusters, data.size)
    if is_binary(data) and groups == data.size > 1:
        return exact(int(data.sum()), data.size, level)
    return _clustered(data, codes, groups, level)


def graded(data: Floats, codes: Codes, groups: int, level: float) -> Estimate:
    """The t interval that fits, whatever the values are: never taken for a proportion."""
    if groups == data.size:
        return mean_t(data, level)
    if groups == 1:
        return _unknown(data)
    found, mean = spread(data, codes), float(data.mean())
    if is_rounding(found.error, data):
        return _from_spread(data, groups, level, "t on clusters")
    bounds = around(mean, found, level)
    each = sizes(codes)
    return _warned(Estimate(mean, *bounds, data.size, "clustered"), totals(codes, data) / each, each)


def _clustered(data: Floats, codes: Codes, groups: int, level: float) -> Estimate:
    upper(level)
    if not is_binary(data):
        return graded(data, codes, groups, level)
    mean = float(data.mean())
    if groups == 1:
        return Estimate(mean, 0.0, 1.0, data.size, "whole range")
    bounds = Clusters(totals(codes, data), sizes(codes)).bounds(level)
    return Estimate(mean, *bounds, data.size, "wilson on clusters")


def _from_spread(data: Floats, units: int, level: float, method: str) -> Estimate:
    """A t interval from the spread of single values, as if the mean rested on `units` of them."""
    upper(level)
    deviation = float(data.std(ddof=1)) if units > 1 else 0.0
    if is_rounding(deviation, data):
        return _unknown(data)
    mean, found = float(data.mean()), Spread(deviation / math.sqrt(units), units - 1.0)
    return Estimate(mean, *around(mean, found, level), data.size, method)


def _warned(found: Estimate, units: Floats, weights: Floats) -> Estimate:
    """Says so in the method when the units are too skewed for a t interval of their weighted mean, or too few
    to tell.

    Twice what Cochran's rule asks for, 50 times the squared skewness, of as many units as unequal weights
    leave; a skewness within two of its standard errors is no sign of anything. Whether there is one does not
    show while fewer than `FEW` units differ from the commonest value.
    """
    n, centred = units.size, units - units.mean()
    scale = float(np.abs(centred).max())
    if found.low is None or is_rounding(scale, units):
        return found
    if n < 3:
        return _called(found, "few")
    scaled = centred / scale
    skewness = abs(float((scaled**3).mean())) / float((scaled**2).mean()) ** 1.5
    chance = math.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))
    effective = float((weights**2).sum()) ** 3 / float((weights**3).sum()) ** 2
    if effective < 50 * skewness**2 and skewness > 2 * chance:
        return _called(found, "skewed")
    differing = n - int(np.unique(units, return_counts=True)[1].max())
    return _called(found, "few") if differing < FEW else found


def _called(found: Estimate, what: str) -> Estimate:
    return Estimate(found.mean, found.low, found.high, found.n, f"{found.method} ({what})")


def _unknown(data: Floats) -> Estimate:
    return Estimate(float(data.mean()), None, None, data.size, "unknown")
