"""Ratios of two totals over the same cases, such as cost per success.

Fieller's interval is the default elsewhere: it asks which ratios the data do not contradict, and so says when
the denominator is too uncertain to bound the ratio at all. The delta method is its approximation for
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
from peira.stats.robust import spread
from peira.stats.values import Interval


@dataclass(frozen=True)
class _Moments:
    """Two means and the covariance of their errors, each in units of its largest value; `unit` is what a
    ratio of 1 stands for."""

    top: float
    bottom: float
    var_top: float
    var_bottom: float
    cov: float
    df: float
    unit: float
    n: int

    def interval(self, bounds: tuple[float, float] | None, method: str) -> Interval:
        value = self.unit * self.top / self.bottom if self.bottom != 0 else None
        low, high = (self.unit * bounds[0], self.unit * bounds[1]) if bounds else (None, None)
        return Interval(value, low, high, self.n, method)


def fieller(
    top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """The mean of `top` over the mean of `bottom`, case by case, by Fieller's theorem.

    Where the denominator does not differ from 0 at this level the ratio is unbounded: both bounds are None.
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
    """The same by the delta method: symmetric, and too sure of itself when the denominator is uncertain."""
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
        # Values are at most 1 here: an error this small is rounding and not evidence.
        return found if abs(found) > 2.0**-96 else 0.0

    means = float(first.mean()), float(second.mean())
    moments = covariance(one, one), covariance(two, two), covariance(one, two)
    df = min(spread(data, codes).df for data in (first, second))
    return _Moments(*means, *moments, df, scales[0] / scales[1], n)
