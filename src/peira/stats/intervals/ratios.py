"""Confidence intervals of a ratio of two means over the same cases.

Fieller's interval is the default in other modules: it inverts the test of each candidate ratio and is
unbounded if the denominator does not differ significantly from 0. The delta method is its approximation for
denominators far from 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats import student
from peira.stats.inputs import Floats, coded, pairs, sizes, totals, upper
from peira.stats.intervals.means import spread
from peira.stats.values import Interval


@dataclass(frozen=True)
class _Moments:
    """The two means and the covariance matrix of their errors, each scaled by its largest value.

    `unit` converts a scaled ratio back to the original units.
    """

    top: float
    bottom: float
    var_top: float
    var_bottom: float
    cov: float
    df: float
    unit: float
    n: int

    def interval(self, bounds: tuple[float, float] | None, method: str) -> Interval:
        """The interval for scaled bounds, converted to the original units.

        None means unknown bounds.
        """
        value = self.unit * self.top / self.bottom if self.bottom != 0 else None
        low, high = (self.unit * bounds[0], self.unit * bounds[1]) if bounds else (None, None)
        return Interval(value, low, high, self.n, method)


def fieller(
    top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """The mean of `top` over the mean of `bottom`, paired by position, by Fieller's theorem.

    If the denominator does not differ from 0 at this level, the ratio is unbounded and both bounds are None.
    """
    found, limit = _moments(top, bottom, clusters), upper(level)
    if found is None:
        return Interval(None, None, None, 1, "unknown")
    if found.bottom == 0 or found.var_top == found.var_bottom == 0:
        return found.interval(None, "unknown")
    t2 = student.quantile(found.df, limit) ** 2
    a = found.bottom**2 - t2 * found.var_bottom
    b = found.top * found.bottom - t2 * found.cov
    c = found.top**2 - t2 * found.var_top
    if a <= 0:
        return found.interval(None, "fieller, unbounded")
    root = math.sqrt(max(b * b - a * c, 0.0))
    return found.interval(((b - root) / a, (b + root) / a), "fieller")


def delta(
    top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """The same ratio by the delta method; too narrow if the denominator is uncertain.

    Symmetric around the ratio. Unknown with fewer than two clusters, a denominator of 0, or no variance.
    """
    found, limit = _moments(top, bottom, clusters), upper(level)
    if found is None:
        return Interval(None, None, None, 1, "unknown")
    if found.bottom == 0:
        return found.interval(None, "unknown")
    ratio = found.top / found.bottom
    variance = found.var_top - 2 * ratio * found.cov + ratio**2 * found.var_bottom
    if variance <= 0:
        return found.interval(None, "unknown")
    half = student.quantile(found.df, limit) * math.sqrt(variance) / abs(found.bottom)
    return found.interval((ratio - half, ratio + half), "delta")


def _moments(top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None) -> _Moments | None:
    """The means and cluster-robust covariances of both variables.

    None with fewer than two clusters.
    """
    pair = pairs(top, bottom)
    n = pair[0].size
    codes, groups = coded(clusters, n)
    if groups < 2:
        return None
    scales = [float(np.abs(data).max()) or 1.0 for data in pair]
    first, second = (data / scale for data, scale in zip(pair, scales, strict=True))
    leverage = 1 / (1 - sizes(codes) / n)
    one, two = (totals(codes, data - data.mean()) for data in (first, second))

    def covariance(a: Floats, b: Floats) -> float:
        found = float((a * b) @ leverage) / n**2
        # Values are at most 1 here: a covariance this small is floating-point rounding error.
        return found if abs(found) > 2.0**-96 else 0.0

    means = float(first.mean()), float(second.mean())
    moments = covariance(one, one), covariance(two, two), covariance(one, two)
    df = min(spread(data, codes).df for data in (first, second))
    return _Moments(*means, *moments, df, scales[0] / scales[1], n)
