"""Least squares on case means by condition: sum-to-zero coding and cluster-robust errors.

A term whose columns are linear combinations of those before it is aliased: it is left out and named.
Lower-order terms come first, so that the higher-order term is the one left out.

If every factor varies within cases, each case is its own control: only differences within cases count. For a
full table this is the paired analysis of each contrast with Student's t on the cases; with missing cells it
stays unbiased. Otherwise cases contribute between-case variation, which the errors include.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product

import numpy as np

from peira.analysis.compare.sides import Contexts, unique
from peira.analysis.table.groups import key_of, label_of
from peira.analysis.table.measures import Measured
from peira.core.text.grid import cell
from peira.results.trials import TrialResult
from peira.stats.inputs import Codes, Floats, coded, hashed, is_rounding, sizes, totals
from peira.stats.student import Spread

# Terms

_ROUNDING = 1e-8
_SINGULAR = 1e-10
"""Squared lengths per value up to this are rounding error."""


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
    def width(self) -> int:
        """The number of columns."""
        return math.prod(len(factor.levels) - 1 for factor in self.factors)

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
        known: dict[int, int] = {}
        labels: list[str] = []
        codes: list[int] = []
        for trial in trials:
            # Trials share their conditions: a level is read once for each.
            code = known.get(id(trial.condition)) if name in trial.condition else None
            if code is None:
                label = label_of(trial, name)
                code = known[id(trial.condition)] = seen.setdefault(key_of(label), len(seen))
                if code == len(labels):
                    labels.append(cell(label))
            codes.append(code)
        if len(labels) > 1:
            found.append(CodedFactor(name, tuple(unique(labels)), np.array(codes, dtype=np.intp)))
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


def keep(
    terms: Sequence[EffectTerm],
    start: Floats,
    view: Callable[[Floats], Floats],
    unclear: Iterable[EffectTerm] = (),
) -> EstimableTerms:
    """The terms that are estimable given the columns of `start`, without the `unclear` ones.

    `view` transforms a term's columns.
    """
    matrix, kept, places, aliased = start, list[EffectTerm](), list[slice](), list[str]()
    dropped = list(unclear)
    for term in terms:
        if term.width >= len(start):
            aliased.append(f"{term.name} has more combinations than there are values")
            continue
        columns = view(term.columns)
        if term not in dropped and _adds(matrix, columns):
            places.append(slice(matrix.shape[1], matrix.shape[1] + columns.shape[1]))
            matrix = np.hstack([matrix, columns])
            kept.append(term)
        else:
            aliased.append(_alias(term, columns, matrix, kept, places))
    return EstimableTerms(tuple(kept), matrix, tuple(places), tuple(aliased))


def _adds(matrix: Floats, columns: Floats) -> bool:
    """Whether all columns are linearly independent of each other and of the matrix."""
    own, crossed = columns.T @ columns, matrix.T @ columns
    if matrix.shape[1]:
        own = own - crossed.T @ np.linalg.solve(matrix.T @ matrix, crossed)
    return bool(np.linalg.eigvalsh(own)[0] > _SINGULAR * len(columns))


def unclear_terms(factors: Sequence[CodedFactor], terms: Sequence[EffectTerm]) -> list[EffectTerm]:
    """The interactions that the conditions cannot tell apart from others and that blur lower terms.

    An interaction is clear if it is estimable beside all other terms. Of those that are not, one may stand
    for the effects that it is confounded with, but only if it is orthogonal to every main effect and every
    clear term: otherwise which of them is in the model would be arbitrary and would change the main effects.
    Judged by the conditions that were run, so that lost trials do not change the model.
    """
    several = [term for term in terms if len(term.factors) > 1]
    if not several:
        return []
    rows = _distinct(factors)
    if len(rows) == np.prod([float(len(factor.levels)) for factor in factors]):
        return []
    here = {one.name: CodedFactor(one.name, one.levels, rows[:, at]) for at, one in enumerate(factors)}
    small = [term for term in terms if term.width < len(rows)]
    columns = [EffectTerm(tuple(here[one.name] for one in term.factors)).columns for term in small]
    every = np.hstack([np.ones((len(rows), 1)), *columns])
    every /= np.linalg.norm(every, axis=0)
    ends = np.cumsum([1, *(each.shape[1] for each in columns)])
    places = {term.name: slice(a, b) for term, a, b in zip(small, ends[:-1], ends[1:], strict=True)}
    _, lengths, directions = np.linalg.svd(every, full_matrices=False)
    seen = (directions[lengths > _ROUNDING * lengths[0]] ** 2).sum(axis=0)
    unsure = [t for t in several if t.name not in places or bool((seen[places[t.name]] < 1 - 1e-6).any())]
    names = {term.name for term in unsure}
    firm = np.hstack([every[:, :1], *(every[:, places[t.name]] for t in small if t.name not in names)])
    return [
        term
        for term in unsure
        if term.name not in places or float(np.abs(firm.T @ every[:, places[term.name]]).max()) > _ROUNDING
    ]


def _distinct(factors: Sequence[CodedFactor]) -> Codes:
    """The combinations of level codes that occur, one row each."""
    codes = np.zeros(len(factors[0].codes), dtype=np.intp)
    for factor in factors:
        _, codes = np.unique(codes * len(factor.levels) + factor.codes, return_inverse=True)
    first = np.unique(codes, return_index=True)[1]
    return np.stack([factor.codes[first] for factor in factors], axis=1)


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
    context, places = Contexts(), dict[bytes, int]()
    seen = measured.known
    conditions = [places.setdefault(context.of(one.trial), len(places)) for one in seen]
    cases, _ = coded(hashed(one.trial.case_id for one in seen), len(seen))
    cells, n = coded(cases * max(1, len(places)) + np.array(conditions, np.intp), len(seen))
    values = np.fromiter((one.value for one in seen), np.float64, len(seen))
    first = np.unique(cells, return_index=True)[1]
    trials = tuple(seen[at].trial for at in first.tolist())
    units, _ = coded(hashed(trial.unit for trial in trials), n)
    return CaseMeans(totals(cells, values) / sizes(cells), trials, coded(cases[first], n)[0], units)


def names_of(trials: Sequence[TrialResult]) -> list[str]:
    """The factors of these trials; "agent" is one if there are several agents."""
    names = dict.fromkeys(name for trial in trials for name in trial.condition)
    return list({"agent": None, **names} if len({trial.agent for trial in trials}) > 1 else names)


@dataclass(frozen=True)
class Fit:
    """A least-squares fit; `paired` says that each case was its own control.

    `influence` has one row per unit: how far its residuals move each coefficient. Its cross product is the
    cluster-robust covariance (CR2); keeping it unsquared lets a zero variance be detected at the scale of the
    values. None if the residuals are only rounding error.
    """

    table: CaseMeans
    factors: tuple[CodedFactor, ...]
    kept: EstimableTerms
    response: Floats
    beta: Floats
    leverage: Leverage
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

        The degrees of freedom are Satterthwaite's (see `Leverage.degrees`).
        """
        if self.influence is None:
            return None
        error = float(np.linalg.norm(self.influence[:, place] @ weights))
        if error <= self.rounding:
            return None
        return Spread(error, self.leverage.degrees(self.weights(place, weights[:, None])))

    def weights(self, place: slice, own: Floats) -> Floats:
        """Weights of all coefficients, given those of the coefficients at `place` (a column for each sum)."""
        every = np.zeros((len(self.beta), own.shape[1]))
        every[place] = own
        return every


@dataclass(frozen=True, eq=False)
class CaseModel:
    """The linear model of a table: main effects and interactions up to `order` of the named factors.

    `also` are further interactions, each by the names of its factors. The model is fitted within cases or
    between them, each at most once.
    """

    table: CaseMeans
    names: Sequence[str]
    order: int
    also: Sequence[Sequence[str]] = ()
    _fits: dict[bool, Fit] = field(default_factory=dict)

    @cached_property
    def factors(self) -> tuple[CodedFactor, ...]:
        """The factors that vary."""
        return tuple(factors_of(self.table.trials, self.names))

    @cached_property
    def terms(self) -> list[EffectTerm]:
        """All terms, estimable or not."""
        found = terms_of(self.factors, min(self.order, len(self.factors)))
        known = {term.name for term in found}
        by_name = {factor.name: factor for factor in self.factors}
        asked = [EffectTerm(tuple(by_name[name] for name in names)) for names in self.also]
        return [*found, *(term for term in asked if term.name not in known)]

    @cached_property
    def within(self) -> tuple[str, ...]:
        """The factors whose main effects are estimable within cases."""
        main = self.terms[: len(self.factors)]
        found = keep(main, np.zeros((len(self.table.values), 0)), self.table.within)
        return tuple(term.name for term in found.terms)

    def fit(self) -> Fit:
        """The fit for all factors: within cases if every factor varies within cases."""
        return self.fitted(len(self.within) == len(self.factors))

    def fit_for(self, factor: str) -> Fit:
        """The fit in which the levels of `factor` are compared.

        Within cases if it varies within cases, whether or not the other factors do.
        """
        return self.fitted(factor in self.within)

    def fitted(self, paired: bool) -> Fit:
        """The fit within cases if `paired`, else between them."""
        if paired not in self._fits:
            self._fits[paired] = self._fit(paired)
        return self._fits[paired]

    def _fit(self, paired: bool) -> Fit:
        """Fit the estimable terms, with cluster-robust influence; aliased terms are in `kept.aliased`."""
        table, unclear = self.table, unclear_terms(self.factors, self.terms)
        if paired:
            start = np.zeros((len(table.values), 0))
            kept, response = keep(self.terms, start, table.within, unclear), table.within(table.values)
        else:
            start = np.ones((len(table.values), 1))
            kept, response = keep(self.terms, start, lambda columns: columns, unclear), table.values
        matrix = kept.matrix
        leverage = leverage_of(table.units, matrix)
        beta = leverage.solve(matrix, response)
        residuals = response - matrix @ beta
        known = table.groups > 1 and matrix.shape[1] > 0
        spread = known and not is_rounding(float(np.abs(residuals).max()), table.values)
        influence = leverage.influence(table.units, matrix, residuals) if spread else None
        return Fit(table, self.factors, kept, response, beta, leverage, influence, paired)


# Cluster-robust covariance

MOST_ENTRIES = 20_000_000
"""The number of entries of units' cross products that are held; beyond, units are taken to be alike."""


def cluster_covariance(units: Codes, matrix: Floats, residuals: Floats) -> Floats:
    """The bias-reduced cluster-robust covariance of coefficients (CR2)."""
    influence = leverage_of(units, matrix).influence(units, matrix, residuals)
    found: Floats = influence.T @ influence
    return found


@dataclass(frozen=True, eq=False)
class Leverage:
    """How far each unit of evidence determines the fit.

    With `root` = (X'X)^(-1/2) and Z = X root, a unit's K = Z'Z is its share of the information, and
    (I - K)^(-1/2) undoes how its residuals are shrunk by its own leverage (CR2). Units with equal K are kept
    once: `codes` says which K each unit has.
    """

    root: Floats
    codes: Codes
    products: Floats
    """The different K."""
    adjustments: Floats
    """(I - K)^(-1/2) of each."""

    @cached_property
    def counts(self) -> Floats:
        """The number of units with each K."""
        return np.bincount(self.codes, minlength=len(self.products)).astype(np.float64)

    def solve(self, matrix: Floats, response: Floats) -> Floats:
        """The least-squares coefficients; the second step removes the rounding error of the first."""
        beta = self.root @ (self.root @ (matrix.T @ response))
        beta = beta + self.root @ (self.root @ (matrix.T @ (response - matrix @ beta)))
        return np.asarray(beta, dtype=np.float64)

    def influence(self, units: Codes, matrix: Floats, residuals: Floats) -> Floats:
        """The contribution of each unit to each coefficient."""
        scores = np.stack([totals(units, column * residuals) for column in matrix.T], axis=1) @ self.root
        if len(self.products) == 1:
            alike: Floats = scores @ self.adjustments[0] @ self.root
            return alike
        order = np.argsort(self.codes, kind="stable")
        ends = np.searchsorted(self.codes[order], np.arange(len(self.products) + 1))
        found = np.empty_like(scores)
        for code, adjustment in enumerate(self.adjustments):
            these = order[ends[code] : ends[code + 1]]
            found[these] = scores[these] @ adjustment
        moved: Floats = found @ self.root
        return moved

    def degrees(self, weights: Floats) -> float:
        """The degrees of freedom of the robust covariance of weighted sums of coefficients (columns).

        The number of units minus 1 if all units are alike. Otherwise fewer: those of the Wishart distribution
        with the same mean and total variance, if errors are independent (Pustejovsky and Tipton's HTZ); for a
        single sum these are Bell and McCaffrey's.
        """
        most = float(len(self.codes) - 1)
        if len(self.products) == 1:
            return most
        # The sums in the scale of the root, standardised to have the unit matrix as covariance.
        values, vectors = np.linalg.eigh(weights.T @ self.root @ self.root @ weights)
        columns = self.root @ weights @ (vectors / np.sqrt(values))
        adjusted = self.adjustments @ columns
        sums = self.products @ adjusted
        own = np.einsum("uks,ukt->ust", adjusted, sums)
        q = int(columns.shape[1])
        varies = _variation(self.counts, own, sums)
        return min(most, q * (q + 1) / varies)


def _variation(counts: Floats, own: Floats, sums: Floats) -> float:
    """The sum of the variances of all elements of a standardised robust covariance.

    Element (s, t) is the sum over units i of u_si u_ti, products of two linear forms of the errors. The
    covariance of u_si and u_tj is [i = j] `own`_i[s, t] - `sums`_i[:, s]' `sums`_j[:, t]; units of the same
    kind are counted.
    """
    diagonal = np.einsum("uss->us", own)
    lengths = np.einsum("uks,uks->us", sums, sums)
    inner = np.einsum("uks,ukt->ust", sums, sums)
    weighted = counts[:, None] * diagonal
    total = float((weighted.T @ diagonal).sum() - 2 * (weighted.T @ lengths).sum())
    total += float((counts[:, None, None] * (own * own - 2 * own * inner)).sum())
    for s in range(sums.shape[2]):
        for t in range(sums.shape[2]):
            crossed = (counts[:, None] * sums[:, :, s]).T @ sums[:, :, t]
            total += float((crossed**2).sum() + (crossed * crossed.T).sum())
    return total


def leverage_of(units: Codes, matrix: Floats) -> Leverage:
    """The leverage of each unit in a model matrix of full rank."""
    groups, k = int(units.max()) + 1, matrix.shape[1]
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    root = (vectors / np.sqrt(values)) @ vectors.T
    scaled = matrix @ root
    order = np.argsort(units, kind="stable")
    starts = np.searchsorted(units[order], np.arange(groups))
    codes = np.empty(groups, dtype=np.intp)
    known: dict[bytes, int] = {}
    products: list[Floats] = []
    step = max(1, MOST_ENTRIES // (4 * max(1, k * k)))
    for first in range(0, groups, step):
        last = starts[first + step] if first + step < groups else len(order)
        some = starts[first : first + step]
        found = _cross_products(scaled[order[some[0] : last]], some - some[0])
        for at, (one, key) in enumerate(zip(found, np.round(found, 9) + 0.0, strict=True)):
            code = codes[first + at] = known.setdefault(key.tobytes(), len(known))
            if code == len(products):
                products.append(one)
        if len(products) * k * k > MOST_ENTRIES:
            codes[:], products = 0, [np.eye(k) / groups]
            break
    every = np.stack(products)
    return Leverage(root, codes, every, np.stack([_inverse_root(one) for one in every]))


def _cross_products(rows: Floats, starts: Codes) -> Floats:
    """Z'Z of consecutive rows, from each start to the next."""
    k = rows.shape[1]
    found = np.empty((len(starts), k, k))
    for column in range(k):
        found[:, column, :] = np.add.reduceat(rows * rows[:, [column]], starts, axis=0)
    return found


def _inverse_root(product: Floats) -> Floats:
    """(I - K)^(-1/2), without the directions that the unit determines alone."""
    values, vectors = np.linalg.eigh(np.eye(len(product)) - product)
    root = np.where(values > _RELATIVE_ROUNDING, np.maximum(values, _RELATIVE_ROUNDING) ** -0.5, 0.0)
    found: Floats = (vectors * root) @ vectors.T
    return found
