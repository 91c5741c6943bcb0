"""Analysis of variance: how much of the variation each factor and interaction accounts for.

Sums of squares of type II (each term after all that do not contain it) or III (each after all others, with
sum-to-zero coding); for a full table both are the same. Cases are taken out first where they are their own
controls, so that the error is what is left within cases. The F test assumes that cases react to all levels
with the same spread; `Results.effects` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import msgspec
import numpy as np

from peira.analysis import layout
from peira.analysis.fitting import Fit, fit, names_of, table_of
from peira.analysis.groups import check_names
from peira.analysis.measures import measure
from peira.analysis.terms import Term
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats.inputs import Floats


@dataclass(frozen=True)
class Source:
    """A line of the table; F and p are None where there is no error to compare with."""

    term: str
    df: int
    squares: float
    f: float | None
    p: float | None


@dataclass(frozen=True)
class Anova:
    score: str
    type: int
    sources: tuple[Source, ...]
    error_df: int
    error_squares: float
    notes: tuple[str, ...] = ()

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        rows = [[s.term, str(s.df), f"{s.squares:.6g}", _shown(s.f), _shown(s.p)] for s in self.sources]
        rows.append(["error", str(self.error_df), f"{self.error_squares:.6g}", "-", "-"])
        return ["source", "df", "sum of squares", "F", "p"], rows

    def __str__(self) -> str:
        return "\n".join([layout.plain(*self._grid()), *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), *self.notes])

    def to_json(self) -> str:
        return msgspec.json.encode(asdict(self)).decode()


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def anova(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    type: Literal[2, 3] = 2,
    order: int = 2,
    notes: Sequence[str] = (),
) -> Anova:
    if type not in (2, 3):
        raise Invalid(f"type: must be 2 or 3, not {type!r}")
    measured = measure(trials, score)
    table = table_of(measured)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    if not len(table.values):
        return Anova(measured.name, type, (), 0, 0.0, ("No trial has a score: nothing can be said.", *notes))
    found = fit(table, names or every, order)
    squares, df = _left(found, found.kept.terms), _error_df(found)
    sources = tuple(_source(found, term, type, squares, df) for term in found.kept.terms)
    said = (*(() if df else ("no degrees of freedom are left for an error",)), *found.kept.aliased, *notes)
    return Anova(measured.name, type, sources, df, squares, said)


def _source(found: Fit, term: Term, type: int, error: float, df: int) -> Source:
    others = [other for other in found.kept.terms if other is not term]
    if type == 2:
        others = [other for other in others if not set(term.factors) < set(other.factors)]
    squares = max(0.0, _left(found, others) - _left(found, [*others, term]))
    place = found.kept.places[found.kept.terms.index(term)]
    width = place.stop - place.start
    if df == 0 or error <= len(found.table.values) * found.rounding**2:
        return Source(term.name, width, squares, None, None)
    from scipy.special import fdtrc

    f = squares / width / (error / df)
    return Source(term.name, width, squares, f, float(fdtrc(width, df, f)))


def _left(found: Fit, terms: Iterable[Term]) -> float:
    """The squares that these terms do not account for."""
    places = [found.kept.places[found.kept.terms.index(term)] for term in terms]
    start = [] if found.paired else [found.kept.matrix[:, :1]]
    columns = [*start, *(found.kept.matrix[:, place] for place in places)]
    residuals: Floats = found.response
    if columns:
        matrix = np.hstack(columns)
        residuals = residuals - matrix @ np.linalg.lstsq(matrix, residuals, rcond=None)[0]
    return float(residuals @ residuals)


def _error_df(found: Fit) -> int:
    taken = int(found.table.cases.max()) + 1 if found.paired else 0
    return len(found.table.values) - taken - int(found.kept.matrix.shape[1])
