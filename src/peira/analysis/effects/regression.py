"""Least squares on case means by condition: sum-to-zero coding and cluster-robust errors.

A term whose columns are linear combinations of those before it is aliased: it is left out and named.
Lower-order terms come first, so that the higher-order term is the one left out.

If every factor varies within cases, each case is its own control: only differences within cases count. For a
full table this is the paired analysis of each contrast with Student's t on the cases; with missing cells it
stays unbiased. Otherwise cases contribute between-case variation, which the errors include.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from peira.analysis.compare.sides import Contexts, unique
from peira.analysis.table.groups import key_of, label_of
from peira.analysis.table.measures import Measured
from peira.core.text.grid import cell
from peira.results.trials import TrialResult
from peira.stats.inputs import Codes, Floats, coded, is_rounding, sizes, totals
from peira.stats.student import Spread

# Terms

_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class CodedFactor:
    """A factor with its levels in order of appearance and the level code of each value."""

    name: str
    levels: tuple[str, ...]
    codes: Codes

    @property
    def coding(self) -> Floats:
        """The sum-to-zero coding: one row per level."""
        k = len(self.levels)
        return np.vstack([np.eye(k - 1), -np.ones(k - 1)])


@dataclass(frozen=True, eq=False)
class EffectTerm:
    """A main effect (one factor) or an interaction (several factors)."""

    factors: tuple[CodedFactor, ...]

    @property
    def name(self) -> str:
        """The names of its factors, joined by " x "."""
        return " x ".join(factor.name for factor in self.factors)

    @property
    def columns(self) -> Floats:
        """The columns of the model matrix, one row per value."""
        return _products([factor.coding[factor.codes] for factor in self.factors])

    @property
    def contrasts(self) -> list[tuple[str, Floats]]:
        """The labelled contrasts to report, as weights of the columns.

        For two-level factors the second level minus the first (for an interaction, the difference of
        differences); otherwise the deviation of each cell from the mean.
        """
        if all(len(factor.levels) == 2 for factor in self.factors):
            names = [f"{factor.levels[1]} - {factor.levels[0]}" for factor in self.factors]
            label = names[0] if len(names) == 1 else " x ".join(f"({name})" for name in names)
            return [(label, np.array([float((-2) ** len(names))]))]
        places = product(*(range(len(factor.levels)) for factor in self.factors))
        return [(self._label(place), self._weights(place)) for place in places]

    @property
    def reach(self) -> float:
        """The largest possible contrast of scores between 0 and 1."""
        sizes = [len(factor.levels) for factor in self.factors]
        each = [1.0 if set(sizes) == {2} else (size - 1) / size for size in sizes]
        return float(2.0 ** (len(each) - 1) * np.prod(each))

    @property
    def cells(self) -> Floats:
        """The coding of each combination of levels, one row each."""
        found = self.factors[0].coding
        for factor in self.factors[1:]:
            found = np.asarray(np.kron(found, factor.coding), dtype=np.float64)
        return found

    def _label(self, place: tuple[int, ...]) -> str:
        """The levels of one cell."""
        return ", ".join(factor.levels[i] for factor, i in zip(self.factors, place, strict=True))

    def _weights(self, place: tuple[int, ...]) -> Floats:
        """The weights of one cell's deviation from the mean."""
        rows = [factor.coding[[i]] for factor, i in zip(self.factors, place, strict=True)]
        found: Floats = _products(rows)[0]
        return found


def _products(parts: Sequence[Floats]) -> Floats:
    """The row-wise Kronecker product of the parts."""
    found = parts[0]
    for part in parts[1:]:
        found = (found[:, :, None] * part[:, None, :]).reshape(len(found), -1)
    return found


def factors_of(trials: Sequence[TrialResult], names: Iterable[str]) -> list[CodedFactor]:
    """The factors among these names that vary, in the order of the names."""
    found = []
    for name in names:
        seen: dict[str | bytes, int] = {}
        labels: list[str] = []
        codes = np.empty(len(trials), dtype=np.intp)
        for row, trial in enumerate(trials):
            label = label_of(trial, name)
            code = seen.setdefault(key_of(label), len(seen))
            codes[row] = code
            if code == len(labels):
                labels.append(cell(label))
        if len(labels) > 1:
            found.append(CodedFactor(name, tuple(unique(labels)), codes))
    return found


def terms_of(factors: Sequence[CodedFactor], order: int) -> list[EffectTerm]:
    """All main effects, then all two-factor interactions, and so on up to `order`."""
    return [EffectTerm(group) for size in range(1, order + 1) for group in combinations(factors, size)]


@dataclass(frozen=True)
class EstimableTerms:
    """The terms that are estimable, their columns, where each term's are, and the aliased ones."""

    terms: tuple[EffectTerm, ...]
    matrix: Floats
    places: tuple[slice, ...]
    aliased: tuple[str, ...]


def keep(terms: Sequence[EffectTerm], start: Floats, view: Callable[[Floats], Floats]) -> EstimableTerms:
    """The terms that are estimable given the columns of `start`.

    `view` transforms a term's columns.
    """
    matrix, kept, places, aliased = start, list[EffectTerm](), list[slice](), list[str]()
    for term in terms:
        columns = view(term.columns)
        if _adds(matrix, columns):
            places.append(slice(matrix.shape[1], matrix.shape[1] + columns.shape[1]))
            matrix = np.hstack([matrix, columns])
            kept.append(term)
        else:
            aliased.append(_alias(term, columns, matrix, kept, places))
    return EstimableTerms(tuple(kept), matrix, tuple(places), tuple(aliased))


def _adds(matrix: Floats, columns: Floats) -> bool:
    """Whether all columns are linearly independent of each other and of the matrix."""
    if not len(columns):
        return False
    basis = np.linalg.qr(matrix)[0] if matrix.shape[1] else matrix
    rest = columns - basis @ (basis.T @ columns)
    return bool(np.linalg.svd(rest, compute_uv=False).min() > _ROUNDING * np.sqrt(len(columns)))


def _alias(
    term: EffectTerm, columns: Floats, matrix: Floats, kept: Sequence[EffectTerm], places: Sequence[slice]
) -> str:
    """Which terms an aliased term is confounded with, as text."""
    weights = np.linalg.lstsq(matrix, columns, rcond=None)[0] if matrix.shape[1] else matrix
    of = [
        other.name
        for other, place in zip(kept, places, strict=True)
        if bool((np.abs(weights[place]) > _ROUNDING).any())
    ]
    return f"{term.name} cannot be told apart from {', '.join(of) or 'the cases'}"


# Case means and fit

_RELATIVE_ROUNDING = 1e-10


@dataclass(frozen=True)
class CaseMeans:
    """The mean over repeats of each case under each condition."""

    values: Floats
    trials: tuple[TrialResult, ...]
    cases: Codes
    units: Codes

    @property
    def groups(self) -> int:
        """The number of units of evidence."""
        return int(self.units.max()) + 1 if self.units.size else 0

    def within(self, data: Floats) -> Floats:
        """The data with case means subtracted."""
        each = sizes(self.cases)
        flat = data.reshape(len(data), -1)
        means = np.stack([totals(self.cases, column) / each for column in flat.T], axis=1)
        found: Floats = (flat - means[self.cases]).reshape(data.shape)
        return found


def table_of(measured: Measured) -> CaseMeans:
    """The case means of a measure; lost values are left out."""
    context = Contexts()
    by_cell: dict[tuple[str, bytes], list[float]] = {}
    first: dict[tuple[str, bytes], TrialResult] = {}
    for one in measured.observations:
        if one.value is not None:
            key = (one.trial.case_id, context.of(one.trial))
            by_cell.setdefault(key, []).append(one.value)
            first.setdefault(key, one.trial)
    trials = tuple(first.values())
    values = np.array([sum(each) / len(each) for each in by_cell.values()], dtype=np.float64)
    cases, _ = coded([trial.case_id for trial in trials], len(trials))
    units, _ = coded([trial.unit for trial in trials], len(trials))
    return CaseMeans(values, trials, cases, units)


def names_of(trials: Sequence[TrialResult]) -> list[str]:
    """The factors of these trials; "agent" is one if there are several agents."""
    names = dict.fromkeys(name for trial in trials for name in trial.condition)
    return list({"agent": None, **names} if len({trial.agent for trial in trials}) > 1 else names)


@dataclass(frozen=True)
class Fit:
    """A least-squares fit; `paired` says that each case was its own control.

    `influence` has one row per unit: how far its residuals move each coefficient. Its cross product is the
    cluster-robust covariance; keeping it unsquared lets a zero variance be detected at the scale of the
    values. None if the residuals are only rounding error.
    """

    table: CaseMeans
    factors: tuple[CodedFactor, ...]
    kept: EstimableTerms
    response: Floats
    beta: Floats
    bread: Floats
    reduced: Floats
    influence: Floats | None
    paired: bool

    @property
    def df(self) -> int:
        """The number of units minus 1."""
        return self.table.groups - 1

    @property
    def rounding(self) -> float:
        """Errors up to this size are rounding error, given the values."""
        return float(np.abs(self.table.values).max()) * 2.0**-40

    def spread(self, place: slice, weights: Floats) -> Spread | None:
        """The standard error of a weighted sum of the coefficients at `place`; None if it is 0.

        The degrees of freedom are Satterthwaite's (Bell and McCaffrey) under independent errors within units:
        the number of units minus 1 for a full table, fewer for unbalanced ones.
        """
        if self.influence is None:
            return None
        error = float(np.linalg.norm(self.influence[:, place] @ weights))
        if error <= self.rounding:
            return None
        every = np.zeros(len(self.beta))
        every[place] = weights
        return Spread(error, self._satterthwaite(every))

    def _satterthwaite(self, weights: Floats) -> float:
        """Bell and McCaffrey's degrees of freedom of a weighted sum of all coefficients."""
        units = self.table.units
        if self.table.groups >= MANY:
            return float(self.df)
        own = self.reduced @ (self.bread @ weights)
        sums = np.stack([totals(units, column * own) for column in self.kept.matrix.T], axis=1)
        products = np.diag(totals(units, own**2)) - sums @ self.bread @ sums.T
        return float(np.trace(products) ** 2 / (products**2).sum())


def fit(table: CaseMeans, names: Sequence[str], order: int) -> Fit:
    """Fit the model of these factors, within cases if every factor varies within cases.

    Contains main effects and interactions up to `order`, as far as they are estimable; aliased terms are
    listed in `kept.aliased`.
    """
    factors = factors_of(table.trials, names)
    terms = terms_of(factors, min(order, len(factors)))
    paired = _within_cases(table, terms[: len(factors)]).terms == tuple(terms[: len(factors)])
    return _fit(table, factors, terms, paired)


def fit_difference(table: CaseMeans, names: Sequence[str], by: str, order: int) -> Fit:
    """Fit the model in which the levels of `by` are compared.

    Within cases if `by` varies within cases, whether or not the other factors do.
    """
    factors = factors_of(table.trials, names)
    terms = terms_of(factors, min(order, len(factors)))
    paired = any(term.name == by for term in _within_cases(table, terms[: len(factors)]).terms)
    return _fit(table, factors, terms, paired)


def _within_cases(table: CaseMeans, terms: Sequence[EffectTerm]) -> EstimableTerms:
    """The terms that are estimable within cases."""
    return keep(terms, np.zeros((len(table.values), 0)), table.within)


def _fit(table: CaseMeans, factors: Sequence[CodedFactor], terms: Sequence[EffectTerm], paired: bool) -> Fit:
    """Fit the estimable terms, within cases or between them, with cluster-robust influence."""
    if paired:
        kept, response = _within_cases(table, terms), table.within(table.values)
    else:
        start = np.ones((len(table.values), 1))
        kept, response = keep(terms, start, lambda columns: columns), table.values
    matrix = kept.matrix
    beta: Floats = np.asarray(np.linalg.lstsq(matrix, response, rcond=None)[0], dtype=np.float64)
    residuals = response - matrix @ beta
    bread: Floats = np.asarray(np.linalg.inv(matrix.T @ matrix), dtype=np.float64)
    known = table.groups > 1 and matrix.shape[1] > 0
    reduced = reduced_columns(table.units, matrix, bread) if known else matrix
    spread = known and not is_rounding(float(np.abs(residuals).max()), table.values)
    influence = _influence(table.units, reduced, residuals, bread) if spread else None
    return Fit(table, tuple(factors), kept, response, beta, bread, reduced, influence, paired)


# Cluster-robust covariance

MANY = 200
"""From this many units on, the correction for a unit's leverage is negligible."""


def cluster_covariance(units: Codes, matrix: Floats, residuals: Floats, bread: Floats) -> Floats:
    """The bias-reduced cluster-robust covariance of coefficients (CR2).

    `bread` is the inverse of X'X.
    """
    influence = _influence(units, reduced_columns(units, matrix, bread), residuals, bread)
    found: Floats = influence.T @ influence
    return found


def reduced_columns(units: Codes, matrix: Floats, bread: Floats) -> Floats:
    """The columns adjusted for leverage: each unit's rows times (I - its leverage)^(-1/2).

    With many units the common factor G/(G-1) is used instead, which is exact for a full table.
    """
    groups = int(units.max()) + 1
    if groups >= MANY:
        many: Floats = matrix * (groups / (groups - 1)) ** 0.5
        return many
    found = np.empty_like(matrix)
    for group in range(groups):
        rows = units == group
        own = matrix[rows]
        values, vectors = np.linalg.eigh(np.eye(len(own)) - own @ bread @ own.T)
        root = np.where(values > _RELATIVE_ROUNDING, np.maximum(values, _RELATIVE_ROUNDING) ** -0.5, 0.0)
        found[rows] = vectors @ (root[:, None] * (vectors.T @ own))
    return found


def _influence(units: Codes, reduced: Floats, residuals: Floats, bread: Floats) -> Floats:
    """The contribution of each unit to each coefficient."""
    scores = np.stack([totals(units, column * residuals) for column in reduced.T], axis=1)
    found: Floats = scores @ bread
    return found
