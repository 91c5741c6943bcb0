"""Multiple imputation of lost values, for trials that are missing at random.

A lost value is drawn from what its case scored otherwise, and from what its condition scored on other cases:
a linear model with a mean for each condition and random effects of cases and of cases under a condition. Its
parameters are estimated anew for each imputation, from units of evidence drawn with replacement, so that the
imputations differ by as much as the parameters are uncertain. Each completed table is analysed as any other,
and the results are pooled by Rubin's rules with Barnard and Rubin's degrees of freedom.

This is right if, given these other values, being lost does not depend on the lost value itself. Drawn values
may lie beyond the limits of a score: rounding them would bias its mean (Horton, Lipsitz and Parzen 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

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
    """The known values with codes of case, condition and unit, and the lost ones by place."""

    values: Floats
    cases: Codes
    conditions: Codes
    units: Codes
    lost: tuple[int, ...]
    lost_cases: Codes
    lost_conditions: Codes

    @classmethod
    def of(cls, measured: Measured) -> _Table:
        """Code a measure; of what was lost, those under conditions that have values."""
        context, seen = Contexts(), measured.observations
        cases, _ = coded([one.trial.case_id for one in seen], len(seen))
        conditions, _ = coded([context.of(one.trial) for one in seen], len(seen))
        units, _ = coded([one.trial.unit for one in seen], len(seen))
        known = np.array([one.value is not None for one in seen], dtype=bool)
        values = np.array([one.value for one in seen if one.value is not None], dtype=np.float64)
        scored = set(conditions[known].tolist())
        lost = [at for at in np.flatnonzero(~known).tolist() if int(conditions[at]) in scored]
        return cls(values, cases[known], conditions[known], units[known], tuple(lost),
                   cases[lost], conditions[lost])  # fmt: skip

    def drawn(self, rng: np.random.Generator) -> Floats:
        """One draw of every lost value."""
        _, units = np.unique(self.units, return_inverse=True)
        groups = int(units.max()) + 1
        times = np.bincount(rng.integers(0, groups, groups), minlength=groups).astype(np.float64)
        means, parts = self._parameters(times[units])
        residuals = self.values - means[self.conditions]
        found = np.empty(len(self.lost))
        for case in np.unique(self.lost_cases):
            own, gone = self.cases == case, self.lost_cases == case
            conditions = np.concatenate([self.conditions[own], self.lost_conditions[gone]])
            found[gone] = means[self.lost_conditions[gone]] + _conditional(
                residuals[own], conditions, parts, rng
            )
        return found

    def _parameters(self, weights: Floats) -> tuple[Floats, _Components]:
        """The mean of each condition and the variances, each value counted as often as it was drawn.

        A condition of which no value was drawn has its own mean of all values.
        """
        size = int(self.conditions.max()) + 1
        counts = np.bincount(self.conditions, weights, size)
        plain = np.bincount(self.conditions, minlength=size)
        own = np.bincount(self.conditions, self.values, size) / np.maximum(plain, 1)
        sums = np.bincount(self.conditions, weights * self.values, size)
        means = np.where(counts > 0, sums / np.maximum(counts, 1e-300), own)
        return means, self._components(self.values - means[self.conditions], weights)

    def _components(self, residuals: Floats, weights: Floats) -> _Components:
        """The variances by moments: mean products of two residuals of one cell, and of one case.

        Weights are those of whole cases, which are drawn together.
        """
        _, cases = np.unique(self.cases, return_inverse=True)
        _, cells = np.unique(
            self.cases * (int(self.conditions.max()) + 1) + self.conditions, return_inverse=True
        )
        case_of_cell = np.zeros(int(cells.max()) + 1, dtype=np.intp)
        case_of_cell[cells] = cases
        each = np.zeros(int(cases.max()) + 1)
        each[cases] = weights
        squares = totals(cells, residuals**2)
        sums, sizes = totals(cells, residuals), np.bincount(cells).astype(np.float64)
        by_cell = each[case_of_cell]
        together = float(by_cell @ (sums**2 - squares)), float(by_cell @ (sizes**2 - sizes))
        case_sums, case_sizes = totals(cases, residuals), np.bincount(cases).astype(np.float64)
        apart = (
            float(each @ (case_sums**2 - totals(case_of_cell, sums**2))),
            float(each @ (case_sizes**2 - totals(case_of_cell, sizes**2))),
        )
        total = float(weights.sum())
        conditions = len(np.unique(self.conditions[weights > 0]))
        whole = float(weights @ residuals**2) / max(1.0, total - conditions)
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


def _conditional(known: Floats, conditions: Codes, parts: _Components, rng: np.random.Generator) -> Floats:
    """A draw of the residuals of lost trials of a case, given those of its other trials, which come first."""
    n = len(known)
    every = parts.covariance(conditions)
    among, cross, own = every[:n, :n], every[:n, n:], every[n:, n:]
    slope = np.linalg.lstsq(among, cross, rcond=None)[0].T if n else np.zeros((len(own), 0))
    rest = own - slope @ cross
    values, vectors = np.linalg.eigh((rest + rest.T) / 2)
    noise = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(len(own)))
    found: Floats = slope @ known + noise
    return found


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
