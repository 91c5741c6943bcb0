"""A contrast in the linear model of a design, with the interval and test that suit its measure.

Student's t on the units of evidence, with the degrees of freedom of the fit; the same exceptions are made as
for differences of pairs. For measures without limits t is adjusted for skewness that is evident in the
single values. For scores within limits it is replaced by Gaffke's bound where it cannot be trusted: where the
trials are few or skewed, or so tight that values which were not seen could move the contrast by more than t
allows for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from peira.analysis.effects.regression import Fit
from peira.stats import student
from peira.stats.inputs import Codes, Floats, totals
from peira.stats.intervals.bounded import METHOD, SMALLEST_P, BoundedSample
from peira.stats.intervals.means import (
    ADJUSTED_FOR_SKEWNESS,
    EVIDENT,
    FEW_VALUES,
    Limits,
    contrast_skewness,
    hidden_skewness,
    mean_t,
    shape_of,
    t_suffices,
    unbounded,
)
from peira.stats.student import Spread
from peira.stats.values import Alternative, Estimate, TestResult, remark_of


@dataclass(frozen=True, eq=False)
class LinearContrast:
    """A weighted sum of coefficients.

    `spread` is None if it cannot be estimated. `by_unit` are values of the units with this mean and spread:
    each unit's own difference if all units have the same conditions. `sample` is there if Student's t cannot
    be trusted. Not `limited` is a measure without limits, whose skewed units are remarked upon.
    """

    mean: float
    spread: Spread | None
    by_unit: Floats
    rounding: float
    sample: BoundedSample | None = None
    limited: bool = True

    @property
    def units(self) -> int:
        """The number of units of evidence."""
        return self.by_unit.size

    @property
    def is_plain(self) -> bool:
        """Whether it has Student's t as it is."""
        return self.sample is None and (self.spread is None or not self.spread.skewness)

    def estimate(self, level: float, n: int, method: str) -> Estimate:
        """The contrast with its interval; `n` counts the values behind it."""
        if self.spread is None:
            return Estimate(round(self.mean, 12), None, None, n, "unknown")
        if self.sample is not None:
            tail = (1 - level) / 2
            return Estimate(self.mean, self.sample.low(tail), self.sample.high(tail), n, self._named(method))
        return Estimate(self.mean, *student.around(self.mean, self.spread, level), n, self._named(method))

    def test(self, n: int, method: str, alternative: Alternative = "two-sided") -> TestResult:
        """The test that the contrast is 0, in agreement with its interval."""
        if self.spread is None:
            none = abs(self.mean) <= self.rounding and self.units > 1
            return TestResult(
                1.0 if none else None, None, n, f"{method}, no differences" if none else "unknown"
            )
        if self.sample is not None:
            greater, less = self.sample.p_greater(0.0), self.sample.p_less(0.0)
            p = {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}[alternative]
            return TestResult(max(p, SMALLEST_P), None, n, self._named(method))
        p = student.p_of(self.mean, self.spread, alternative)
        return TestResult(p, self.mean / self.spread.error, n, self._named(method))

    @property
    def tailed_spread(self) -> Spread | None:
        """The spread with the skewness of few units in full; None if there are many."""
        if self.limited or self.spread is None:
            return None
        skewness = hidden_skewness(shape_of(self.by_unit, np.arange(self.units)))
        return None if skewness is None else replace(self.spread, skewness=skewness)

    @property
    def tailed(self) -> float | None:
        """The p-value if few units hide a long tail; None if they could not."""
        hidden = self.tailed_spread
        if hidden is None or self.spread is None:
            return None
        return max(student.p_of(self.mean, each, "two-sided") for each in (self.spread, hidden))

    def _named(self, method: str) -> str:
        """The method, with what is different from Student's t, and a remark on few or skewed units."""
        if self.sample is not None:
            return f"{METHOD}, {method.partition(', ')[2] or 'in the model of the design'}"
        return f"{method}{ADJUSTED_FOR_SKEWNESS if self._skewness else ''}{self._remark}"

    @property
    def _skewness(self) -> float:
        return self.spread.skewness if self.spread is not None else 0.0

    @cached_property
    def _remark(self) -> str:
        """What an interval of the units' mean says of itself; skewed units within limits have no t."""
        found = skewness_remark(self.by_unit, self._skewness)
        return found if not self.limited or found == " (few)" else ""


def skewness_remark(by_unit: Floats, skewness: float) -> str:
    """The remark on few or skewed units of an estimate that is adjusted for this skewness, if for any."""
    if not skewness:
        return remark_of(mean_t(by_unit).method)
    codes = np.arange(by_unit.size)
    return remark_of(unbounded(by_unit, codes, by_unit.size, 0.95, EVIDENT).method)


def linear_contrast(fit: Fit, place: slice, weights: Floats, limits: Limits | None) -> LinearContrast:
    """The sum of the coefficients at `place` with these weights; `limits` are those of the measure."""
    mean, spread, units = float(weights @ fit.beta[place]), fit.spread(place, weights), fit.table.groups
    if spread is None or fit.influence is None:
        return LinearContrast(mean, None, np.full(units, mean), fit.rounding)
    moved = fit.influence[:, place] @ weights
    by_unit = mean + moved * (units * (units - 1)) ** 0.5
    rows = row_weights(fit, place, weights)
    if limits is None:
        skewness = contrast_skewness(*_signed(fit, rows), by_unit)
        return LinearContrast(mean, replace(spread, skewness=skewness), by_unit, fit.rounding, limited=False)
    sample = None if _is_t_enough(fit, rows, mean, limits) else _sample(fit, rows, mean, by_unit, limits)
    return LinearContrast(mean, spread, by_unit, fit.rounding, sample)


def row_weights(fit: Fit, place: slice, weights: Floats) -> Floats:
    """The weight of each value in the contrast."""
    root = fit.leverage.root
    found: Floats = fit.kept.matrix @ (root @ (root @ fit.weights(place, weights[:, None])[:, 0]))
    return found


def _moved(fit: Fit, rows: Floats) -> Floats:
    """How far the residual of each value moves the contrast, times the number of values."""
    found: Floats = rows.size * rows * (fit.response - fit.kept.matrix @ fit.beta)
    return found


def _signed(fit: Fit, rows: Floats) -> tuple[Floats, Codes]:
    """The residuals with the signs of their weights, and the unit of each; without those that have none."""
    counted = np.abs(rows) > _NO_WEIGHT * float(np.abs(rows).max())
    residuals = fit.response - fit.kept.matrix @ fit.beta
    _, codes = np.unique(fit.table.units[counted], return_inverse=True)
    return (np.sign(rows) * residuals)[counted], codes


_NO_WEIGHT = 1e-6
"""Weights below this share of the largest are none."""


def _is_t_enough(fit: Fit, rows: Floats, mean: float, limits: Limits) -> bool:
    """Whether Student's t can be trusted, by the contribution of each value (see `t_suffices`)."""
    table, n = fit.table, rows.size
    common = int(np.unique(np.round(table.values, 9), return_counts=True)[1].max())
    if n - common < FEW_VALUES:
        return False
    moved = _moved(fit, rows)
    reach = float(np.abs(rows).max()) * n * (limits[1] - limits[0])
    centred = mean + moved - float(moved.mean())
    wide = max(reach, float(np.abs(centred - mean).max()))
    return t_suffices(centred, table.units, table.groups, (mean - wide, mean + wide))


def _sample(fit: Fit, rows: Floats, mean: float, by_unit: Floats, limits: Limits) -> BoundedSample:
    """The units within the limits that their values give them: the sample of Gaffke's bound."""
    units, reach = fit.table.groups, limits[1] - limits[0]
    shares = [totals(fit.table.units, np.maximum(sign * rows, 0.0)).max() for sign in (1, -1)]
    wide = reach * max(1.0, units * float(max(shares)))
    values = np.clip(by_unit - float(by_unit.mean()) + mean, -wide, wide)
    return BoundedSample(values, np.ones(units), (-wide, wide), mean, rows.size)
