"""Intervals and tests of the mean of scores within known limits, without an assumption about their shape.

Student's t is wrong for a few skewed scores: a judge that says 5 nineteen times in twenty shows no spread in
a small sample, and the rare 1 is missing from the standard error. Gaffke's bound (2005; Learned-Miller and
Thomas, 2019) accounts for values that were not seen: the lower bound of the mean is the alpha quantile of
the mean of the units under random weights (uniform over the simplex), with one more unit at the least
possible value. For 0/1 values it is Clopper and Pearson's bound. Its coverage at every sample size is a
conjecture that no enumeration has contradicted; `benchmarks/calibration` repeats some of them.

The random weighted mean is at most m exactly if the sum of independent exponential variables, times value
minus m, is at most 0; that probability is computed by numerical inversion of the characteristic function.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Floats, coded, flat, known, sizes, totals, upper
from peira.stats.values import ALTERNATIVES, Alternative, Estimate, TestResult

METHOD = "bounded"
"""The method name of intervals by Gaffke's bound."""
SCALES = ((0.0, 1.0), (1.0, 5.0))
"""Conventional limits of scores: shares and gradings from 0 to 1, whole grades from 1 to 5."""
SMALLEST_P = 1e-12
"""P-values are not computed more precisely than this."""

_DISTINCT = 512  # more distinct values than this are put into the cells of a grid
_FEW, _NEAR = 256, 6.0  # distinct values, and standard deviations from the mean, up to which it is exact
_STEP = 0.05  # of the trapezoidal rule on the logarithmic scale
_NODES = np.exp(np.arange(-24.0, 14.0, _STEP))


def scale_of(values: Iterable[float]) -> tuple[float, float] | None:
    """The limits of a score by its observed values.

    0 and 1 if all lie between them, 1 and 5 if all are whole numbers from 1 to 5; else, and without values,
    None.
    """
    data = np.fromiter(values, np.float64)
    if not data.size:
        return None
    least, most = float(data.min()), float(data.max())
    for low, high in SCALES:
        if low <= least and most <= high and (high == 1 or bool((data == np.round(data)).all())):
            return low, high
    return None


def bounded_mean(
    values: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    limits: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
) -> Estimate:
    """The mean of values within `limits`, with half of 1 - level on either side.

    Values of one cluster (repeats of a case) are one unit of evidence; its weight is its number of values.
    Raises ValueError for values outside the limits.
    """
    sample, tail = BoundedSample.of(values, clusters, limits), 1 - upper(level)
    return Estimate(sample.mean, sample.low(tail), sample.high(tail), sample.n, METHOD)


def bounded_test(
    values: ArrayLike,
    clusters: Iterable[Hashable] | None,
    limits: tuple[float, float],
    alternative: Alternative = "two-sided",
    null: float = 0.0,
) -> TestResult:
    """The test that the mean is `null`, in exact agreement with `bounded_mean`.

    For values within `limits`; p is at least `SMALLEST_P`.
    """
    known("the alternative", alternative, ALTERNATIVES)
    sample = BoundedSample.of(values, clusters, limits)
    greater, less = sample.p_greater(null), sample.p_less(null)
    p = {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}[alternative]
    return TestResult(max(p, SMALLEST_P), None, sample.n, METHOD)


@dataclass(frozen=True, eq=False)
class BoundedSample:
    """Unit means within limits, with weights relative to the largest; `n` counts the values behind them."""

    units: Floats
    weights: Floats
    limits: tuple[float, float]
    mean: float
    n: int

    @classmethod
    def of(
        cls, values: ArrayLike, clusters: Iterable[Hashable] | None, limits: tuple[float, float]
    ) -> BoundedSample:
        """Average the values of each cluster; raises ValueError for values outside the limits."""
        data, (least, most) = flat(values), limits
        slack = 1e-9 * (most - least)  # means of means may exceed the limits by rounding
        if not least < most or float(data.min()) < least - slack or float(data.max()) > most + slack:
            raise ValueError(f"every value must lie within [{least:g}, {most:g}]")
        codes, groups = coded(clusters, data.size)
        each = sizes(codes) if groups < data.size else np.ones(data.size)
        units = totals(codes, data) / each if groups < data.size else data
        mean = min(max(float(data.mean()), least), most)
        return cls(np.clip(units, least, most), each / each.max(), limits, mean, data.size)

    def p_greater(self, null: float) -> float:
        """The one-sided p-value of the null hypothesis that the mean is at most `null`."""
        return self._p(self.units, self.limits[0], null)

    def p_less(self, null: float) -> float:
        """The one-sided p-value of the null hypothesis that the mean is at least `null`."""
        return self._p(-self.units, -self.limits[1], -null)

    def low(self, alpha: float) -> float:
        """The one-sided lower confidence bound of the mean."""
        return self._bound(self.units, self.limits[0], self.mean, alpha)

    def high(self, alpha: float) -> float:
        """The one-sided upper confidence bound of the mean."""
        return -self._bound(-self.units, -self.limits[1], -self.mean, alpha)

    def _tally(self, units: Floats, least: float) -> tuple[Floats, Floats, Floats]:
        """Distinct values with their weights and counts, and the unit at the least value with weight 1.

        Of more than a few hundred distinct values, those in one cell of a fine grid are replaced by their
        mean.
        """
        cells = units
        if np.unique(units).size > _DISTINCT:
            cells = np.floor((units - least) / (self.limits[1] - self.limits[0]) * _DISTINCT)
        keys = np.stack([cells, self.weights], axis=1)
        rows, codes = np.unique(keys, axis=0, return_inverse=True)
        counts = sizes(codes.reshape(-1))
        values = totals(codes.reshape(-1), units) / counts
        return np.append(values, least), np.append(rows[:, 1], 1.0), np.append(counts, 1.0)

    def _p(self, units: Floats, least: float, null: float) -> float:
        """The probability that the random weighted mean is at most `null`."""
        return _below(*self._tally(units, least), null)

    def _bound(self, units: Floats, least: float, mean: float, alpha: float) -> float:
        """The null value at which the p-value is alpha; between the least value and the mean."""
        from scipy.optimize import brentq

        tally = self._tally(units, least)
        if mean <= least or _below(*tally, mean) <= alpha:  # the latter by rounding
            return mean
        step = (mean - least) * 1e-9
        if _below(*tally, least + step) >= alpha:
            return least
        return float(brentq(lambda at: _below(*tally, at) - alpha, least + step, mean, xtol=1e-10))


def _below(values: Floats, weights: Floats, counts: Floats, null: float) -> float:
    """P(sum of gamma variables with these counts, times weight (value - null), is at most 0)."""
    scales = weights * (values - null)
    largest = float(np.abs(scales).max())
    moving = np.abs(scales) > 1e-12 * largest
    if not moving.any():
        return 1.0
    scales, counts = scales[moving] / largest, counts[moving]
    if not (scales > 0).any():
        return 1.0
    if not (scales < 0).any():
        return 0.0
    if scales.size == 2:
        return _two(scales, counts)
    size = math.sqrt(float(counts @ scales**2))
    near = abs(float(counts @ scales)) <= _NEAR * size
    return _inverted(scales, counts, size) if near and scales.size <= _FEW else _saddlepoint(scales, counts)


def _two(scales: Floats, counts: Floats) -> float:
    """Two distinct values, where it is a beta probability."""
    from scipy.special import betainc

    up, down = (0, 1) if scales[0] > 0 else (1, 0)
    ratio = -scales[down] / (scales[up] - scales[down])
    return float(betainc(counts[up], counts[down], ratio))


def _inverted(scales: Floats, counts: Floats, size: float) -> float:
    """Few distinct values: the characteristic function is inverted (Gil-Pelaez) on the logarithmic scale."""
    turned = np.outer(_NODES / size, scales)
    phase = np.arctan(turned) @ counts
    decay = np.exp(-0.5 * (np.log1p(turned**2) @ counts))
    found = 0.5 - _STEP / math.pi * float(np.sin(phase) @ decay)
    return min(1.0, max(0.0, found))


def _saddlepoint(scales: Floats, counts: Floats) -> float:
    """Many values, or a small probability: Lugannani and Rice's approximation, right within a few percent."""
    from scipy.special import ndtr

    at = _root(scales, counts)
    left = 1 - scales * at
    rate = scales / left
    second, third = float(counts @ rate**2), 2 * float(counts @ rate**3)
    signed = math.copysign(math.sqrt(max(0.0, 2 * float(counts @ np.log(left)))), at)
    steep = at * math.sqrt(second)
    if abs(signed) < 1e-3:
        return 0.5 + third / (6 * math.sqrt(2 * math.pi) * math.pow(second, 1.5))
    density = math.exp(-signed * signed / 2) / math.sqrt(2 * math.pi)
    return min(1.0, max(0.0, float(ndtr(signed)) + density * (1 / signed - 1 / steep)))


def _root(scales: Floats, counts: Floats) -> float:
    """Where the derivative of the cumulant generating function is 0: by Newton steps within a bracket."""
    low, high, at = 1 / float(scales.min()), 1 / float(scales.max()), 0.0
    for _ in range(100):
        rate = scales / (1 - scales * at)
        slope, curve = float(counts @ rate), float(counts @ rate**2)
        if abs(slope) <= 1e-11 * math.sqrt(curve):
            break
        low, high = (at, high) if slope < 0 else (low, at)
        step = at - slope / curve
        at = step if low < step < high else (low + high) / 2
    return at
