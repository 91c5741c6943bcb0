"""Multiple imputation of lost values, for trials that are missing at random.

A lost value is drawn from what its case scored otherwise, and from what its condition scored on other cases:
a linear model with a mean for each condition and random effects of cases and of cases under a condition. It
is fitted with the lost values as they are expected (expectation and maximisation): a condition that lost its
worst cases has not the mean of the others. Its parameters are estimated anew for each imputation, from units
of evidence drawn with replacement, so that the imputations differ by as much as the parameters are uncertain.
Each completed table is analysed as any other, and the results are pooled by Rubin's rules with Barnard and
Rubin's degrees of freedom.

This is right if, given these other values, being lost does not depend on the lost value itself. Drawn values
may lie beyond the limits of a score: rounding them would bias its mean (Horton, Lipsitz and Parzen 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from peira.analysis.compare.sides import Contexts
from peira.analysis.table.measures import Measured, Observation
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.stats.inputs import Codes, Floats, coded, totals
from peira.stats.student import Spread

Missing = Literal["ended", "impute", "worst"]
"""What is done about lost trials: only those that ended count, they are imputed, or they count as worst."""
MISSING: tuple[str, ...] = get_args(Missing)
DRAWS = 20
"""The number of imputations."""
SEED = 0
STEPS, CLOSE = 60, 1e-4
"""Parameters are fitted in at most so many steps, until they move by less than this share of a deviation."""


def check_missing(missing: str) -> None:
    """Raise Invalid for an unknown way to treat lost trials."""
    if missing not in MISSING:
        raise Invalid(f"missing: there is no {missing!r}{nearest(missing, MISSING)}")


def at_worst(measured: Measured, highest: bool = False) -> Measured:
    """The measure with lost values at the worst end of the score: the lowest, or the highest.

    Raises Invalid if values were lost and the score has no known worst value.
    """
    if not measured.lost:
        return measured
    if measured.ends is None:
        raise Invalid(f"missing: {measured.name} has no known worst value; use impute, or leave it out")
    end = measured.ends[1 if highest else 0]
    seen = tuple(
        one if one.value is not None else Observation(one.trial, end) for one in measured.observations
    )
    return replace(measured, observations=seen)


def imputations(measured: Measured, draws: int = DRAWS, seed: int = SEED) -> list[Measured]:
    """So many copies of a measure with every lost value drawn; seeded, so the same every time.

    Conditions without any value cannot be imputed: their trials stay lost.
    """
    table = _Table.of(measured)
    if not table.lost:
        return [measured] * draws
    rng = np.random.default_rng(seed)
    return [_completed(measured, table, table.drawn(rng)) for _ in range(draws)]


def _completed(measured: Measured, table: _Table, drawn: Floats) -> Measured:
    """The measure with the drawn values in place of the lost ones."""
    seen = list(measured.observations)
    for place, value in zip(table.lost, drawn, strict=True):
        seen[place] = Observation(seen[place].trial, float(value))
    return replace(measured, observations=tuple(seen))


@dataclass(frozen=True, eq=False)
class _Table:
    """Values with codes of case, condition and unit; those at `lost` are to be drawn.

    `places` are the observations of the rows. Lost rows under conditions without any value are left out.
    """

    values: Floats
    known: NDArray[np.bool_]
    cases: Codes
    conditions: Codes
    units: Codes
    places: Codes

    @classmethod
    def of(cls, measured: Measured) -> _Table:
        """Code a measure."""
        context, seen = Contexts(), measured.observations
        conditions, _ = coded([context.of(one.trial) for one in seen], len(seen))
        known = np.array([one.value is not None for one in seen], dtype=bool)
        rows = np.flatnonzero(np.isin(conditions, conditions[known]))
        values = np.array([seen[row].value or 0.0 for row in rows], dtype=np.float64)
        codes = [
            coded(labels, rows.size)[0]
            for labels in (
                [seen[row].trial.case_id for row in rows],
                conditions[rows].tolist(),
                [seen[row].trial.unit for row in rows],
            )
        ]
        return cls(values, known[rows], codes[0], codes[1], codes[2], rows)

    @property
    def lost(self) -> list[int]:
        """The observations whose values are drawn."""
        found: list[int] = self.places[~self.known].tolist()
        return found

    @cached_property
    def patterns(self) -> list[tuple[Codes, int]]:
        """The rows of cases with lost values, known ones first, and how many are known.

        Cases whose values are known and lost under the same conditions are together, one line each.
        """
        order = np.lexsort((self.conditions, ~self.known, self.cases))
        ends = np.append(np.flatnonzero(np.diff(self.cases[order])) + 1, order.size)
        found: dict[tuple[bytes, int], list[Codes]] = {}
        for start, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            rows = order[start:end]
            if not self.known[rows[-1]]:
                alike = self.conditions[rows].tobytes(), int(self.known[rows].sum())
                found.setdefault(alike, []).append(rows)
        return [(np.stack(each), known) for (_, known), each in found.items()]

    @cached_property
    def start(self) -> tuple[Floats, _Components]:
        """The parameters of all values."""
        weights = np.bincount(self.conditions, self.known)
        means = np.bincount(self.conditions, self.values * self.known) / weights
        whole = float(((self.values - means[self.conditions])[self.known] ** 2).mean())
        return self._fitted(np.ones(self.values.size), (means, _Components(whole / 2, 0.0, whole / 2)))

    def drawn(self, rng: np.random.Generator) -> Floats:
        """One draw of every lost value."""
        groups = int(self.units.max()) + 1
        times = np.bincount(rng.integers(0, groups, groups), minlength=groups).astype(np.float64)
        means, parts = self._fitted(times[self.units], self.start)
        residuals = self.values - means[self.conditions]
        for rows, n in self.patterns:
            slope, rest = parts.conditional(self.conditions[rows[0]], n)
            values, vectors = np.linalg.eigh((rest + rest.T) / 2)
            root = vectors * np.sqrt(np.maximum(values, 0))
            noise = rng.standard_normal((len(rows), len(rest))) @ root.T
            residuals[rows[:, n:]] = residuals[rows[:, :n]] @ slope.T + noise
        found: Floats = (residuals + means[self.conditions])[~self.known]
        return found

    def _fitted(self, weights: Floats, start: tuple[Floats, _Components]) -> tuple[Floats, _Components]:
        """The mean of each condition and the variances, each value counted as often as it was drawn.

        By expectation and maximisation: lost values count as what is expected of them, given the others of
        their case, so that a condition does not look better for having lost its worst cases. A condition of
        which no value was drawn keeps its mean.
        """
        means, parts = start
        counts = np.bincount(self.conditions, weights)
        for _ in range(STEPS):
            values, spare = self._expected(means, parts)
            sums = np.bincount(self.conditions, weights * values)
            moved = np.where(counts > 0, sums / np.maximum(counts, 1e-300), means)
            fitted = self._components(values - moved[self.conditions], weights, spare)
            scale = max(fitted.whole**0.5, 1e-300)
            done = float(np.abs(moved - means).max()) < CLOSE * scale
            done = done and abs(fitted.case - parts.case) <= CLOSE * scale**2
            means, parts = moved, fitted
            if done:
                break
        return means, parts

    def _expected(self, means: Floats, parts: _Components) -> tuple[Floats, Floats]:
        """All values, with lost ones as expected, and the variance that these have left, by case.

        Of each case the sums over its lost rows: of their variances, of their covariances with those under
        the same condition (themselves included), and with all.
        """
        residuals = self.values - means[self.conditions]
        spare = np.zeros((int(self.cases.max()) + 1, 3))
        for rows, n in self.patterns:
            conditions = self.conditions[rows[0]]
            slope, rest = parts.conditional(conditions, n)
            residuals[rows[:, n:]] = residuals[rows[:, :n]] @ slope.T
            same = conditions[n:, None] == conditions[None, n:]
            spare[self.cases[rows[:, 0]]] = float(np.trace(rest)), float(rest[same].sum()), float(rest.sum())
        return residuals + means[self.conditions], spare

    def _components(self, residuals: Floats, weights: Floats, spare: Floats) -> _Components:
        """The variances by moments: mean products of two residuals of one cell, and of one case.

        Weights are those of whole cases, which are drawn together; `spare` is that of `_expected`.
        """
        cases = self.cases
        _, cells = np.unique(cases * (int(self.conditions.max()) + 1) + self.conditions, return_inverse=True)
        case_of_cell = np.zeros(int(cells.max()) + 1, dtype=np.intp)
        case_of_cell[cells] = cases
        each = np.zeros(int(cases.max()) + 1)
        each[cases] = weights
        squares = totals(cases, residuals**2) + spare[:, 0]
        in_cells = totals(case_of_cell, totals(cells, residuals) ** 2) + spare[:, 1]
        in_cases = totals(cases, residuals) ** 2 + spare[:, 2]
        sizes, cell_sizes = np.bincount(cases).astype(np.float64), np.bincount(cells).astype(np.float64)
        alike = totals(case_of_cell, cell_sizes**2)
        together = float(each @ (in_cells - squares)), float(each @ (alike - sizes))
        apart = float(each @ (in_cases - in_cells)), float(each @ (sizes**2 - alike))
        conditions = len(np.unique(self.conditions[weights > 0]))
        whole = float(each @ squares) / max(1.0, float(weights.sum()) - conditions)
        case = max(0.0, apart[0] / apart[1]) if apart[1] > 0 else 0.0
        cell = max(0.0, together[0] / together[1] - case) if together[1] > 0 else 0.0
        case, cell = min(case, whole), min(cell, max(0.0, whole - min(case, whole)))
        return _Components(case, cell, max(0.0, whole - case - cell))


@dataclass(frozen=True)
class _Components:
    """The variances of cases, of cases under a condition, and of single trials."""

    case: float
    cell: float
    trial: float

    def covariance(self, conditions: Codes) -> Floats:
        """The covariance of trials of one case under these conditions."""
        same = conditions[:, None] == conditions[None, :]
        found: Floats = self.case + self.cell * same + self.trial * np.eye(len(conditions))
        return found

    @property
    def whole(self) -> float:
        """The variance of a value."""
        return self.case + self.cell + self.trial

    def conditional(self, conditions: Codes, n: int) -> tuple[Floats, Floats]:
        """How the trials of a case after the first n depend on these, and the covariance they have left."""
        every = self.covariance(conditions)
        among, cross, own = every[:n, :n], every[:n, n:], every[n:, n:]
        fitted = np.linalg.lstsq(among, cross, rcond=None)[0].T if n else np.zeros((len(own), 0))
        slope = np.asarray(fitted, dtype=np.float64)
        rest: Floats = own - slope @ cross
        return slope, rest


def pooled(found: Sequence[tuple[float, Spread]]) -> tuple[float, Spread]:
    """Estimates of completed tables with their errors, pooled by Rubin's rules.

    Degrees of freedom are those of Barnard and Rubin (1999), which are at most those of a complete table.
    """
    m = len(found)
    means = np.array([mean for mean, _ in found])
    within = float(np.mean([spread.error**2 for _, spread in found]))
    df = float(np.mean([spread.df for _, spread in found]))
    extra = (1 + 1 / m) * (float(means.var(ddof=1)) if m > 1 else 0.0)
    total = within + extra
    if extra <= 1e-12 * total or total == 0:
        return float(means.mean()), Spread(total**0.5, df)
    share = extra / total
    old = (m - 1) / share**2
    observed = (df + 1) / (df + 3) * df * (1 - share)
    return float(means.mean()), Spread(total**0.5, max(1.0, 1 / (1 / old + 1 / max(observed, 1e-9))))
