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
    """Two means and the covariance of their errors, from cases or clusters of them."""

    top: float
    bottom: float
    var_top: float
    var_bottom: float
    cov: float
    df: float
    n: int

    @property
    def value(self) -> float | None:
        return self.top / self.bottom if self.bottom != 0 else None


def fieller(
    top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """The mean of `top` over the mean of `bottom`, case by case, by Fieller's theorem.

    Where the denominator does not differ from 0 at this level the ratio is unbounded: both bounds are None.
    """
    found, limit = _moments(top, bottom, clusters), upper(level)
    if found is None or found.value is None:
        return Interval(found.value if found else None, None, None, found.n if found else 1, "unknown")
    t2 = student.quantile(found.df, limit) ** 2
    a = found.bottom**2 - t2 * found.var_bottom
    b = found.top * found.bottom - t2 * found.cov
    c = found.top**2 - t2 * found.var_top
    if found.var_top == found.var_bottom == 0:
        return Interval(found.value, None, None, found.n, "unknown")
    if a <= 0:
        return Interval(found.value, None, None, found.n, "fieller, unbounded")
    root = math.sqrt(max(b * b - a * c, 0.0))
    return Interval(found.value, (b - root) / a, (b + root) / a, found.n, "fieller")


def delta(
    top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """The same by the delta method: symmetric, and too sure of itself when the denominator is uncertain."""
    found, limit = _moments(top, bottom, clusters), upper(level)
    if found is None or found.value is None:
        return Interval(None, None, None, found.n if found else 1, "unknown")
    ratio = found.value
    variance = (found.var_top - 2 * ratio * found.cov + ratio**2 * found.var_bottom) / found.bottom**2
    if variance <= 0:
        return Interval(ratio, None, None, found.n, "unknown")
    half = student.quantile(found.df, limit) * math.sqrt(variance)
    return Interval(ratio, ratio - half, ratio + half, found.n, "delta")


def _moments(top: ArrayLike, bottom: ArrayLike, clusters: Iterable[Hashable] | None) -> _Moments | None:
    first, second = pairs(top, bottom)
    n = first.size
    codes, groups = (np.arange(n), n) if clusters is None else coded(clusters, n)
    if groups < 2:
        return None
    leverage = 1 / (1 - sizes(codes) / n)
    one, two = (totals(codes, data - data.mean()) for data in (first, second))

    def covariance(a: Floats, b: Floats) -> float:
        return float((a * b) @ leverage) / n**2

    df = min(spread(data, codes).df for data in (first, second))
    means = float(first.mean()), float(second.mean())
    return _Moments(*means, covariance(one, one), covariance(two, two), covariance(one, two), df, n)
