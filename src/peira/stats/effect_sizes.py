"""Effect sizes: Cohen's d, dz and h, Hedges' g, Cliff's delta.

Intervals of standardised mean differences come from the noncentral t distribution and assume independent
normal values. d divides by the pooled standard deviation of both samples, dz by the standard deviation of the
paired differences.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from peira.stats import normal, student
from peira.stats.inputs import Floats, flat, is_rounding, pairs, share, upper
from peira.stats.values import Interval

LARGE = 1000.0
"""Above this t statistic scipy's noncentral t is inexact, and a chi-square approximation is used."""


def cohen_d(one: ArrayLike, two: ArrayLike, level: float = 0.95) -> Interval:
    """Cohen's d: the difference of two independent means over their pooled standard deviation.

    The interval is from the noncentral t distribution. Unknown with fewer than three values or without
    variation.
    """
    first, second = flat(one), flat(two)
    n, df, limit = first.size + second.size, first.size + second.size - 2, upper(level)
    if df < 1:
        return _unknown(n)
    squares = first.var() * first.size + second.var() * second.size
    pooled = math.sqrt(float(squares) / df)
    if is_rounding(pooled, np.concatenate([first, second])):
        return _unknown(n)
    root = math.sqrt(1 / first.size + 1 / second.size)
    value = float(first.mean() - second.mean()) / pooled
    low, high = _noncentralities(value / root, df, limit)
    return Interval(value, low * root, high * root, n, "cohen d")


def hedges_g(one: ArrayLike, two: ArrayLike, level: float = 0.95) -> Interval:
    """Hedges' g: Cohen's d with the correction for its upward bias in small samples.

    The exact gamma-function factor is used, for the interval as well. Unknown with fewer than four values.
    """
    found = cohen_d(one, two, level)
    if found.value is None or found.low is None or found.high is None:
        return found
    df = found.n - 2
    if df < 2:
        return _unknown(found.n)
    factor = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
    return Interval(found.value * factor, found.low * factor, found.high * factor, found.n, "hedges g")


def cohen_dz(one: ArrayLike, two: ArrayLike, level: float = 0.95) -> Interval:
    """Cohen's dz: the mean paired difference over the standard deviation of the differences.

    Equal positions form pairs. The interval is from the noncentral t distribution; unknown without variation.
    """
    first, second = pairs(one, two)
    data, limit = first - second, upper(level)
    spread = float(data.std(ddof=1)) if data.size > 1 else 0.0
    if is_rounding(spread, np.concatenate([first, second])):
        return _unknown(data.size)
    value, root = float(data.mean()) / spread, 1 / math.sqrt(data.size)
    low, high = _noncentralities(value / root, data.size - 1, limit)
    return Interval(value, low * root, high * root, data.size, "cohen dz")


def cohen_h(yes: int, n: int, other_yes: int, other_n: int, level: float = 0.95) -> Interval:
    """Cohen's h: the difference of two independent proportions after the arcsine transformation.

    On that scale the variance of a proportion is about 1/n.
    """
    angles = [2 * math.asin(math.sqrt(share(x, m))) for x, m in ((yes, n), (other_yes, other_n))]
    value = angles[0] - angles[1]
    half = normal.quantile(upper(level)) * math.sqrt(1 / n + 1 / other_n)
    return Interval(value, max(value - half, -math.pi), min(value + half, math.pi), n + other_n, "cohen h")


def cliffs_delta(one: ArrayLike, two: ArrayLike, level: float = 0.95) -> Interval:
    """Cliff's delta: P(first > second) minus P(first < second) for independently drawn values.

    The interval is Cliff's asymmetric one from the consistent variance estimate. If the samples do not
    overlap (delta is 1 or -1) that variance is 0 and not usable: the inner bound is then Wilson's for the
    size of the smaller sample.
    """
    first, second = flat(one), flat(two)
    n, limit = first.size + second.size, upper(level)
    if min(first.size, second.size) < 2:
        return Interval(float(_dominance(first, second).mean()), None, None, n, "unknown")
    rows, columns = _dominance(first, second), -_dominance(second, first)
    delta = float(rows.mean())
    if abs(delta) == 1:
        return _separated(delta, min(first.size, second.size), n, normal.quantile(limit))
    variance = _delta_variance(rows, columns, delta, first, second)
    low, high = _asymmetric(delta, variance, student.quantile(n - 2, limit))
    return Interval(delta, low, high, n, "cliff's delta")


def _dominance(one: Floats, two: Floats) -> Floats:
    """For each value of `one`, the share of `two` below it minus the share above it."""
    order = np.sort(two)
    below = np.searchsorted(order, one, side="left")
    above = two.size - np.searchsorted(order, one, side="right")
    found: Floats = (below - above) / two.size
    return found


def _delta_variance(rows: Floats, columns: Floats, delta: float, one: Floats, two: Floats) -> float:
    """Cliff's unbiased variance of delta, with a lower limit for small samples."""
    n, m = one.size, two.size
    order = np.sort(two)
    ties = int((np.searchsorted(order, one, "right") - np.searchsorted(order, one, "left")).sum())
    squares = n * m - ties - n * m * delta**2
    by_rows = float(((rows - delta) ** 2).sum()) * m**2
    by_columns = float(((columns - delta) ** 2).sum()) * n**2
    found = (by_rows + by_columns - squares) / (n * m * (n - 1) * (m - 1))
    return max(found, (1 - delta**2) / (n * m - 1))


def _asymmetric(delta: float, variance: float, t: float) -> tuple[float, float]:
    """Feng and Cliff's asymmetric bounds, which stay within [-1, 1]."""
    root = t * math.sqrt(variance * ((1 - delta**2) ** 2 + t * t * variance))
    centre, scale = delta - delta**3, 1 - delta**2 + t * t * variance
    return max(-1.0, (centre - root) / scale), min(1.0, (centre + root) / scale)


def _separated(delta: float, least: int, n: int, z: float) -> Interval:
    """The interval of Cliff's delta for samples that do not overlap."""
    inner = (least - z * z) / (least + z * z)
    low, high = (inner, 1.0) if delta > 0 else (-1.0, -inner)
    return Interval(delta, low, high, n, "cliff's delta, separated")


def _noncentralities(t: float, df: float, limit: float) -> tuple[float, float]:
    """Confidence bounds of the noncentrality of an observed t, by inverting the CDF."""
    from scipy.special import chdtri, nctdtrinc

    if t < 0:
        low, high = _noncentralities(-t, df, limit)
        return -high, -low
    if t > LARGE:  # nctdtrinc is inexact here and may not terminate; the mean's variance is negligible
        low, high = (t * math.sqrt(float(chdtri(df, p)) / df) for p in (limit, 1 - limit))
    else:
        low, high = (float(nctdtrinc(df, p, t)) for p in (limit, 1 - limit))
    return low, high


def _unknown(n: int) -> Interval:
    """The result if the effect size cannot be estimated."""
    return Interval(None, None, None, n, "unknown")
