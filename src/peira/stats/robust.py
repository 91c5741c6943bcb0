"""Standard errors of a mean whose values share causes: clusters, or two ways of clustering at once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Codes, Floats, coded, flat, is_rounding, sizes, totals, upper
from peira.stats.student import Spread, around
from peira.stats.values import Estimate


def spread(data: Floats, codes: Codes) -> Spread:
    """The cluster-robust standard error of the mean, and Satterthwaite's degrees of freedom of its square.

    Bias-reduced (each cluster's square over one minus its share of the values), so unbiased when clusters do
    not differ in kind. The degrees of freedom are those under an exchangeable correlation estimated from the
    data; G - 1 for clusters of equal size, fewer the more unequal they are. Needs at least two clusters.
    """
    n, each = data.size, sizes(codes)
    residuals = totals(codes, data - data.mean())
    leverage = 1 / (1 - each / n)
    error = math.sqrt(float(residuals**2 @ leverage)) / n
    return Spread(error, _satterthwaite(each, leverage, _correlation(data, codes, each)))


def _satterthwaite(each: Floats, weights: Floats, correlation: float) -> float:
    """(E Q)^2 / (Var Q / 2) for Q, the weighted squares of cluster sums of residuals from the common mean.

    The sums of residuals have covariance diag(v) + a b' + b a' + s a a' with the names below, so that neither
    moment needs the matrix.
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
    """The share of variance between clusters, by analysis of variance, within [0, 1]."""
    n, groups = data.size, each.size
    if n == groups:
        return 0.0
    means = totals(codes, data) / each
    within = float(((data - means[codes]) ** 2).sum()) / (n - groups)
    between = float(each @ (means - data.mean()) ** 2) / (groups - 1)
    typical = (n - float(each @ each) / n) / (groups - 1)
    variance = max(0.0, (between - within) / typical)
    return variance / (variance + within) if variance > 0 else 0.0


def two_way(
    values: ArrayLike, one: Iterable[Hashable], two: Iterable[Hashable], level: float = 0.95
) -> Estimate:
    """The mean when values share causes in two ways at once (same case; same judge), by Cameron, Gelbach
    and Miller: variance by the one plus by the other minus by both together.

    Each variance has its own G/(G-1); the t quantile has the degrees of freedom of the smaller number of
    clusters. The variance is never taken to be less than by either way alone, as the difference may be.
    Unknown with fewer than two clusters either way, or without spread.
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
    residuals = totals(codes, data - data.mean())
    return groups / (groups - 1) * float(residuals @ residuals) / data.size**2
