"""Analysis of variance: how much of the variation each factor and interaction accounts for.

Sums of squares are of type II (each term adjusted for all terms that do not contain it) or type III (each
adjusted for all others, with sum-to-zero coding); both agree for balanced tables. Cases are blocks if all
factors vary within cases, so that the error is the residual within cases. The F test assumes homogeneous
reactions of cases to all levels, which `Results.effects` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from peira.analysis.effects.regression import CaseModel, EffectTerm, Fit, names_of, table_of
from peira.analysis.table.groups import check_names
from peira.analysis.table.measures import measure
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.inputs import Floats


@dataclass(frozen=True)
class AnovaRow:
    """One source of variation; F and p are None if there is no error term."""

    term: str
    df: int
    squares: float
    f: float | None
    p: float | None


@dataclass(frozen=True)
class Anova(ResultValue):
    """The analysis of variance table."""

    score: str
    type: int
    sources: tuple[AnovaRow, ...]
    error_df: int
    error_squares: float
    notes: tuple[str, ...] = ()

    def grids(self) -> list[TextGrid]:
        """One row per source, and the error."""
        rows = [
            [s.term, str(s.df), f"{s.squares:.6g}", layout.number(s.f, ".4g"), layout.probability(s.p)]
            for s in self.sources
        ]
        rows.append(["error", str(self.error_df), f"{self.error_squares:.6g}", "-", "-"])
        return [TextGrid(["source", "df", "sum of squares", "F", "p"], rows)]


def anova(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    type: Literal[2, 3] = 2,
    order: int = 2,
    notes: Sequence[str] = (),
) -> Anova:
    """The analysis of variance of the named factors, or without names of all.

    Interactions are included up to `order`. Raises Invalid for a type other than 2 and 3.
    """
    if type not in (2, 3):
        raise Invalid(f"type: must be 2 or 3, not {type!r}")
    measured = measure(trials, score)
    table = table_of(measured)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    if not len(table.values):
        none = ("No trial has a score: nothing can be said.", *measured.remarks("table"), *notes)
        return Anova(measured.name, type, (), 0, 0.0, none)
    found = CaseModel(table, names or every, order).fit()
    squares, df = _residual_squares(found, found.kept.terms), _error_df(found)
    sources = tuple(_source(found, term, type, squares, df) for term in found.kept.terms)
    few = () if df else ("no degrees of freedom are left for an error",)
    remarks = (*few, *found.kept.aliased, *measured.remarks("table", tested=False), *notes)
    return Anova(measured.name, type, sources, df, squares, remarks)


def _source(found: Fit, term: EffectTerm, type: int, error: float, df: int) -> AnovaRow:
    """The row of one term: its sum of squares after the other terms, F and p."""
    others = [other for other in found.kept.terms if other is not term]
    if type == 2:
        others = [other for other in others if not set(term.factors) < set(other.factors)]
    squares = max(0.0, _residual_squares(found, others) - _residual_squares(found, [*others, term]))
    place = found.kept.places[found.kept.terms.index(term)]
    width = place.stop - place.start
    if df == 0 or error <= len(found.table.values) * found.rounding**2:
        return AnovaRow(term.name, width, squares, None, None)
    from scipy.special import fdtrc

    f = squares / width / (error / df)
    return AnovaRow(term.name, width, squares, f, float(fdtrc(width, df, f)))


def _residual_squares(found: Fit, terms: Iterable[EffectTerm]) -> float:
    """The residual sum of squares of a model with these terms."""
    places = [found.kept.places[found.kept.terms.index(term)] for term in terms]
    start = [] if found.paired else [found.kept.matrix[:, :1]]
    columns = [*start, *(found.kept.matrix[:, place] for place in places)]
    residuals: Floats = found.response
    if columns:
        matrix = np.hstack(columns)
        residuals = residuals - matrix @ np.linalg.lstsq(matrix, residuals, rcond=None)[0]
    return float(residuals @ residuals)


def _error_df(found: Fit) -> int:
    """The residual degrees of freedom."""
    taken = int(found.table.cases.max()) + 1 if found.paired else 0
    return len(found.table.values) - taken - int(found.kept.matrix.shape[1])
