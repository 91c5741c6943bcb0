"""Factors as numbers: sum-to-zero coding of main effects and interactions, and which cannot be told apart.

A term whose columns add nothing to those before it is aliased: its effect and theirs are one number, and it
is left out and named. Lower terms come first, so that what is left out is always the more complicated one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from peira.analysis.groups import key_of, label_of
from peira.analysis.layout import cell
from peira.analysis.levels import unique
from peira.analysis.trials import TrialResult
from peira.stats.inputs import Codes, Floats

_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor as the data have it: its levels in order, and the level of each value."""

    name: str
    levels: tuple[str, ...]
    codes: Codes

    @property
    def coding(self) -> Floats:
        """A row for each level, summing to 0 over the levels."""
        k = len(self.levels)
        return np.vstack([np.eye(k - 1), -np.ones(k - 1)])


@dataclass(frozen=True, eq=False)
class Term:
    """A main effect (one factor) or an interaction (several)."""

    factors: tuple[Factor, ...]

    @property
    def name(self) -> str:
        return " x ".join(factor.name for factor in self.factors)

    @property
    def columns(self) -> Floats:
        """One row for each value."""
        return _products([factor.coding[factor.codes] for factor in self.factors])

    @property
    def contrasts(self) -> list[tuple[str, Floats]]:
        """What to say of it, as weights of its columns: of two-level factors the second level minus the first
        (for an interaction, the difference of differences); of others each cell's departure from the rest."""
        if all(len(factor.levels) == 2 for factor in self.factors):
            names = [f"{factor.levels[1]} - {factor.levels[0]}" for factor in self.factors]
            label = names[0] if len(names) == 1 else " x ".join(f"({name})" for name in names)
            return [(label, np.array([float((-2) ** len(names))]))]
        places = product(*(range(len(factor.levels)) for factor in self.factors))
        return [(self._label(place), self._weights(place)) for place in places]

    def _label(self, place: tuple[int, ...]) -> str:
        return ", ".join(factor.levels[i] for factor, i in zip(self.factors, place, strict=True))

    def _weights(self, place: tuple[int, ...]) -> Floats:
        rows = [factor.coding[[i]] for factor, i in zip(self.factors, place, strict=True)]
        found: Floats = _products(rows)[0]
        return found


def _products(parts: Sequence[Floats]) -> Floats:
    found = parts[0]
    for part in parts[1:]:
        found = (found[:, :, None] * part[:, None, :]).reshape(len(found), -1)
    return found


def factors_of(trials: Sequence[TrialResult], names: Iterable[str]) -> list[Factor]:
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
            found.append(Factor(name, tuple(unique(labels)), codes))
    return found


def terms_of(factors: Sequence[Factor], order: int) -> list[Term]:
    """All main effects, then all interactions of two, and so on."""
    return [Term(group) for size in range(1, order + 1) for group in combinations(factors, size)]


@dataclass(frozen=True)
class Kept:
    """The terms that can be told apart, their columns, where each term's are, and what was left out."""

    terms: tuple[Term, ...]
    matrix: Floats
    places: tuple[slice, ...]
    aliased: tuple[str, ...]


def keep(terms: Sequence[Term], start: Floats, view: Callable[[Floats], Floats]) -> Kept:
    """Those terms that add to the columns of `start`; `view` is what the model sees of a term's columns."""
    matrix, kept, places, aliased = start, list[Term](), list[slice](), list[str]()
    for term in terms:
        columns = view(term.columns)
        if _adds(matrix, columns):
            places.append(slice(matrix.shape[1], matrix.shape[1] + columns.shape[1]))
            matrix = np.hstack([matrix, columns])
            kept.append(term)
        else:
            aliased.append(_alias(term, columns, matrix, kept, places))
    return Kept(tuple(kept), matrix, tuple(places), tuple(aliased))


def _adds(matrix: Floats, columns: Floats) -> bool:
    """Whether every one of the columns brings something that those before do not have."""
    if not len(columns):
        return False
    basis = np.linalg.qr(matrix)[0] if matrix.shape[1] else matrix
    rest = columns - basis @ (basis.T @ columns)
    return bool(np.linalg.svd(rest, compute_uv=False).min() > _ROUNDING * np.sqrt(len(columns)))


def _alias(term: Term, columns: Floats, matrix: Floats, kept: Sequence[Term], places: Sequence[slice]) -> str:
    weights = np.linalg.lstsq(matrix, columns, rcond=None)[0] if matrix.shape[1] else matrix
    of = [
        other.name
        for other, place in zip(kept, places, strict=True)
        if bool((np.abs(weights[place]) > _ROUNDING).any())
    ]
    return f"{term.name} cannot be told apart from {', '.join(of) or 'the cases'}"
