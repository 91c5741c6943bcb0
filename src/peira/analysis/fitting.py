"""Least squares on cases under conditions, with errors that respect that cases (and clusters) are the sample.

Where every factor varies within cases each case is its own control: only differences within it count. For a
full table this is the paired analysis, contrast by contrast, with Student's t on the cases; with cells
missing it is still unbiased. Otherwise cases differ as conditions do, and the errors say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peira.analysis.measures import Measured
from peira.analysis.sides import Contexts
from peira.analysis.terms import Factor, Kept, factors_of, keep, terms_of
from peira.analysis.trials import TrialResult
from peira.stats.inputs import Codes, Floats, coded, is_rounding, sizes, totals

_ROUNDING = 1e-10


@dataclass(frozen=True)
class Table:
    """The mean of the repeats of each case under each condition."""

    values: Floats
    trials: tuple[TrialResult, ...]
    cases: Codes
    units: Codes

    @property
    def groups(self) -> int:
        return int(self.units.max()) + 1 if self.units.size else 0

    def within(self, data: Floats) -> Floats:
        """The same without what is common to a case."""
        each = sizes(self.cases)
        flat = data.reshape(len(data), -1)
        means = np.stack([totals(self.cases, column) / each for column in flat.T], axis=1)
        found: Floats = (flat - means[self.cases]).reshape(data.shape)
        return found


def table_of(measured: Measured) -> Table:
    context = Contexts()
    gathered: dict[tuple[str, bytes], list[float]] = {}
    first: dict[tuple[str, bytes], TrialResult] = {}
    for one in measured.observations:
        if one.value is not None:
            key = (one.trial.case_id, context.of(one.trial))
            gathered.setdefault(key, []).append(one.value)
            first.setdefault(key, one.trial)
    trials = tuple(first.values())
    values = np.array([sum(each) / len(each) for each in gathered.values()], dtype=np.float64)
    cases, _ = coded([trial.case_id for trial in trials], len(trials))
    units, _ = coded([trial.unit for trial in trials], len(trials))
    return Table(values, trials, cases, units)


def names_of(trials: Sequence[TrialResult]) -> list[str]:
    """The factors of these trials; the agent is one where there are several."""
    names = dict.fromkeys(name for trial in trials for name in trial.condition)
    return list({"agent": None, **names} if len({trial.agent for trial in trials}) > 1 else names)


@dataclass(frozen=True)
class Fit:
    """Coefficients with their covariance; `paired` says that each case was its own control."""

    table: Table
    factors: tuple[Factor, ...]
    kept: Kept
    response: Floats
    beta: Floats
    covariance: Floats | None
    paired: bool

    @property
    def df(self) -> int:
        return self.table.groups - 1

    @property
    def rounding(self) -> float:
        """Errors this small, among these values, are rounding and not evidence."""
        return float(np.abs(self.table.values).max()) * 2.0**-40


def fit(table: Table, names: Sequence[str], order: int) -> Fit:
    factors = factors_of(table.trials, names)
    terms = terms_of(factors, min(order, len(factors)))
    n = len(table.values)
    paired = keep(terms[: len(factors)], np.zeros((n, 0)), table.within).terms == tuple(terms[: len(factors)])
    if paired:
        kept, response = keep(terms, np.zeros((n, 0)), table.within), table.within(table.values)
    else:
        kept, response = keep(terms, np.ones((n, 1)), lambda columns: columns), table.values
    beta: Floats = np.asarray(np.linalg.lstsq(kept.matrix, response, rcond=None)[0], dtype=np.float64)
    covariance = _covariance(table, kept.matrix, response - kept.matrix @ beta)
    return Fit(table, tuple(factors), kept, response, beta, covariance, paired)


MANY = 200
"""From so many units on, what a unit weighs in the fit no longer matters to its error."""


def _covariance(table: Table, matrix: Floats, residuals: Floats) -> Floats | None:
    """Cluster-robust and bias-reduced; None where the residuals show no spread."""
    groups = table.groups
    if groups < 2 or matrix.shape[1] == 0 or is_rounding(float(np.abs(residuals).max()), table.values):
        return None
    bread: Floats = np.asarray(np.linalg.inv(matrix.T @ matrix), dtype=np.float64)
    return cluster_covariance(table.units, matrix, residuals, bread)


def cluster_covariance(units: Codes, matrix: Floats, residuals: Floats, bread: Floats) -> Floats:
    """The covariance of coefficients whose errors go together within units; `bread` is that of X'X, inverted.

    Each unit's residuals are widened by what the unit itself drew the fit towards it (for a full table by
    G/(G-1), which is all that is done where units are many).
    """
    groups = int(units.max()) + 1
    if groups < MANY:
        scores = np.stack([_reduced(units == g, matrix, residuals, bread) for g in range(groups)])
    else:
        sums = [totals(units, column * residuals) for column in matrix.T]
        scores = np.stack(sums, axis=1) * (groups / (groups - 1)) ** 0.5
    found: Floats = bread @ (scores.T @ scores) @ bread
    return found


def _reduced(rows: np.ndarray, matrix: Floats, residuals: Floats, bread: Floats) -> Floats:
    """The score of one unit, its residuals multiplied by (1 - its leverage) to the power of -1/2."""
    own = matrix[rows]
    values, vectors = np.linalg.eigh(np.eye(len(own)) - own @ bread @ own.T)
    root = np.where(values > _ROUNDING, np.maximum(values, _ROUNDING) ** -0.5, 0.0)
    found: Floats = own.T @ (vectors @ (root * (vectors.T @ residuals[rows])))
    return found
