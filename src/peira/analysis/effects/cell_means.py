"""Cell means: what the model of the design expects where some factors are held at levels.

All other factors are averaged over with equal weights, and all cases count. `GridCell` says which levels are
held, `cell_mean` is the mean there; the means at single levels are `marginals`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from peira.analysis.effects.linear_contrast import row_weights, skewness_remark
from peira.analysis.effects.regression import CaseMeans, CodedFactor, Fit
from peira.stats import student
from peira.stats.inputs import Codes, Floats, coded, sizes, totals
from peira.stats.intervals.bounded import METHOD as BOUNDED
from peira.stats.intervals.bounded import BoundedSample
from peira.stats.intervals.means import ADJUSTED_FOR_SKEWNESS, estimate, mean_skewness, t_suffices
from peira.stats.student import Spread
from peira.stats.values import Estimate, between


@dataclass(frozen=True)
class Marginal:
    """The mean at one level of a factor, averaged over the levels of the others."""

    factor: str
    level: str
    estimate: Estimate


def marginals(found: Fit, level: float, ends: tuple[float, float] | None) -> Iterator[Marginal]:
    """The marginal mean at each level of each factor, within the possible range of the score."""
    for factor in found.factors:
        for code, label in enumerate(factor.levels):
            cell = GridCell(((factor, (code,)),), label)
            yield Marginal(factor.name, label, cell_mean(found, cell, level, ends))


@dataclass(frozen=True, eq=False)
class GridCell:
    """One row of a grid: factors held at one level, or averaged over some; all others over all levels."""

    held: tuple[tuple[CodedFactor, tuple[int, ...]], ...]
    label: str

    def weights(self, found: Fit) -> Floats:
        """The weights of all coefficients of the model (its intercept included) in the cell's mean."""
        averages = {factor.name: factor.coding[list(codes)].mean(axis=0) for factor, codes in self.held}
        every = np.zeros(len(found.beta))
        if not found.paired:
            every[0] = 1.0
        for term, place in zip(found.kept.terms, found.kept.places, strict=True):
            if all(factor.name in averages for factor in term.factors):
                every[place] = _kronecker([averages[factor.name] for factor in term.factors])
        return every

    def rows(self, table: CaseMeans) -> NDArray[np.bool_]:
        """Which rows of the table are at the levels of this cell."""
        chosen = np.ones(len(table.values), dtype=bool)
        for factor, codes in self.held:
            chosen &= np.isin(factor.codes, codes)
        return chosen


def _kronecker(parts: Sequence[Floats]) -> Floats:
    """The Kronecker product of vectors."""
    found = parts[0]
    for part in parts[1:]:
        found = np.asarray(np.kron(found, part), dtype=np.float64)
    return found


def cell_mean(found: Fit, cell: GridCell, level: float, ends: tuple[float, float] | None) -> Estimate:
    """The mean of a cell, with equal weight for every case and every combination of the other factors.

    In a full table it is the mean of the values. With missing cells it is the mean that the linear model
    expects of all cases: what is missing is not left to those cases and conditions that happen to be there.
    """
    mean = _mean(found, cell, level, ends)
    return mean if ends is None else between(mean, *ends)


def _mean(found: Fit, cell: GridCell, level: float, ends: tuple[float, float] | None) -> Estimate:
    table, chosen = found.table, cell.rows(found.table)
    n = int(np.count_nonzero(chosen))
    if n and (not _is_known(found, cell) or _is_balanced(found, cell, chosen)):
        return estimate(table.values[chosen], [int(unit) for unit in table.units[chosen]], level, ends)
    own = cell.weights(found)
    expected = _case_adjusted(found, own) if found.paired else _across_cases(found, own)
    seen = chosen if n else np.ones_like(chosen)
    return replace(expected.estimate(table.values[seen], table.units[seen], level, ends), n=n)


@dataclass(frozen=True, eq=False)
class _Expected:
    """A mean that the linear model expects, with what the estimate rests on.

    `moved` says how far each unit moves it, `weights` the weight of each value of the table; `spread` is None
    if units do not differ.
    """

    mean: float
    spread: Spread | None
    moved: Floats
    weights: Floats
    table: CaseMeans
    method: str

    def estimate(
        self, seen: Floats, units: Codes, level: float, ends: tuple[float, float] | None
    ) -> Estimate:
        """The mean with the interval that a full table would have; `seen` are the values of the cell.

        Without limits Student's t is adjusted for the skewness of the units, within limits Gaffke's bound on
        the units is used unless t suffices for the values seen.
        """
        codes, groups = coded(units, seen.size)
        by_unit = self.mean + self.moved * math.sqrt(self.moved.size * max(1, self.moved.size - 1))
        if ends is not None and (self.spread is None or not t_suffices(seen, codes, groups, ends)):
            sample, tail = self._within(by_unit, ends), (1 - level) / 2
            return Estimate(self.mean, sample.low(tail), sample.high(tail), seen.size, BOUNDED)
        if self.spread is None:
            return Estimate(self.mean, None, None, seen.size, "unknown")
        skewness = 0.0 if ends is not None else mean_skewness(by_unit, groups < seen.size)
        spread = replace(self.spread, skewness=skewness)
        adjusted = ADJUSTED_FOR_SKEWNESS if skewness else ""
        method = f"{self.method}{adjusted}{skewness_remark(by_unit, skewness)}"
        return Estimate(self.mean, *student.around(self.mean, spread, level), seen.size, method)

    def _within(self, by_unit: Floats, ends: tuple[float, float]) -> BoundedSample:
        """The units within the limits that those of the values give them."""
        (least, most), units = ends, self.moved.size
        down, up = (
            units * float(totals(self.table.units, np.maximum(sign * self.weights, 0.0)).max())
            for sign in (-1, 1)
        )
        limits = least - down * (most - least), least + max(1.0, up) * (most - least)
        inside = np.clip(by_unit, *limits)
        mean = min(max(self.mean, limits[0]), limits[1])
        return BoundedSample(inside, np.ones(units), limits, mean, len(self.table.values))


def _is_known(found: Fit, cell: GridCell) -> bool:
    """Whether the model has a main effect for each factor that is held, and errors."""
    alone = {term.name for term in found.kept.terms if len(term.factors) == 1}
    return found.influence is not None and all(factor.name in alone for factor, _ in cell.held)


def _is_balanced(found: Fit, cell: GridCell, chosen: NDArray[np.bool_]) -> bool:
    """Whether the plain mean of a cell is fair: every combination is there equally often."""
    held = {factor.name for factor, _ in cell.held}
    others = [other for other in found.factors if other.name not in held]
    if found.paired:
        every = math.prod(len(factor.levels) for factor in found.factors)
        return len(found.table.values) == len(sizes(found.table.cases)) * every
    cells = np.zeros(int(np.count_nonzero(chosen)), dtype=np.intp)
    levels = [(factor, codes) for factor, codes in cell.held if len(codes) > 1]
    for factor, known in [*levels, *((other, tuple(range(len(other.levels)))) for other in others)]:
        cells = cells * len(known) + np.searchsorted(known, factor.codes[chosen])
    widths = [len(codes) for _, codes in levels] + [len(other.levels) for other in others]
    counts = np.bincount(cells, minlength=math.prod(widths))
    return bool((counts == counts[0]).all())


def _across_cases(found: Fit, weights: Floats) -> _Expected:
    """The mean at `weights` where cases are not their own controls."""
    place = slice(0, len(weights))
    assert found.influence is not None
    moved = found.influence @ weights
    rows = row_weights(found, place, weights)
    mean, spread = float(weights @ found.beta), found.spread(place, weights)
    return _Expected(mean, spread, moved, rows, found.table, "cluster-robust t")


def _case_adjusted(found: Fit, weights: Floats) -> _Expected:
    """The mean over all cases of what the model within cases expects at `weights`.

    The error has two parts, which the units share: the cases are a sample, and the coefficients that carry
    them to the level are estimated. Degrees of freedom by Satterthwaite's method from both.
    """
    table = found.table
    columns = np.hstack([term.columns for term in found.kept.terms])
    each = sizes(table.cases)[:, None]
    means = np.stack([totals(table.cases, column) for column in columns.T], axis=1) / each
    levels = totals(table.cases, table.values) / each[:, 0] + (weights - means) @ found.beta
    mean, groups = float(levels.mean()), table.groups
    first = np.zeros(len(levels), dtype=np.intp)
    first[table.cases] = table.units
    sampled = totals(first, levels - mean) / len(levels) * (groups / (groups - 1)) ** 0.5
    assert found.influence is not None
    moved = weights - means.mean(axis=0)
    carried = found.influence @ moved
    error = float(np.linalg.norm(sampled + carried))
    parts = float(sampled @ sampled), float(carried @ carried)
    df = float(found.df)
    if parts[1] > 0 and error > found.rounding:
        other = parts[0] ** 2 / df + parts[1] ** 2 / found.leverage.degrees(moved[:, None])
        df = min(df, max(1.0, sum(parts) ** 2 / other)) if other > 0 else df
    spread = Spread(error, df) if error > found.rounding else None
    rows = 1 / (len(levels) * each[table.cases, 0]) + row_weights(found, slice(0, len(moved)), moved)
    return _Expected(mean, spread, sampled + carried, rows, table, "t, adjusted for cases")
