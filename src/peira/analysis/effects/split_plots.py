"""Split-plot analysis: whole-plot factors are tested against plots, the others within plots.

A whole plot is set up once for all of its trials, so that it is a single observation of its whole-plot
factors, however many trials it has. Each term is tested against the error of its stratum: between plots if it
is constant within them, else within plots. If every plot has all cases, cases are a random effect as well:
the case-by-term interaction is added to the error (quasi-F with Satterthwaite's degrees of freedom).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from peira.analysis.compare.sides import Contexts
from peira.analysis.effects.regression import EffectTerm, factors_of, keep, names_of, terms_of
from peira.analysis.table.groups import check_names
from peira.analysis.table.measures import Measured, Observation, measure
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.inputs import Codes, Floats, coded, is_rounding, sizes, totals

# Results

ALPHA = 0.05
"""The significance level of the sentences."""


@dataclass(frozen=True)
class StratumRow:
    """A term in its stratum.

    `df_error` may be fractional. F and p are None if there is no error term.
    """

    stratum: str
    term: str
    df: int
    squares: float
    f: float | None = None
    df_error: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class StratumError:
    """The residual of a stratum: the error of its terms."""

    stratum: str
    df: int
    squares: float


@dataclass(frozen=True)
class Strata(ResultValue):
    """The split-plot analysis of variance by stratum."""

    score: str
    lines: tuple[StratumRow, ...] = ()
    errors: tuple[StratumError, ...] = ()
    notes: tuple[str, ...] = ()

    def line(self, term: str) -> StratumRow:
        """The row of a term."""
        return next(one for one in self.lines if one.term == term)

    @property
    def sentence(self) -> str:
        """One sentence per term."""
        return "\n".join(_row_sentence(one, self.score) for one in self.lines) or self.notes[0]

    def grids(self) -> list[TextGrid]:
        """The rows and the error of each stratum."""
        header = ["stratum", "source", "df", "sum of squares", "F", "df of error", "p"]
        rows = []
        for error in self.errors:
            own = [one for one in self.lines if one.stratum == error.stratum]
            rows += [
                [
                    error.stratum,
                    one.term,
                    str(one.df),
                    f"{one.squares:.6g}",
                    *(layout.number(value, ".4g") for value in (one.f, one.df_error)),
                    layout.probability(one.p),
                ]
                for one in own
            ]
            rows.append([error.stratum, "error", str(error.df), f"{error.squares:.6g}", "-", "-", "-"])
        return [TextGrid(header, rows)] if self.lines else []

    @property
    def remarks(self) -> list[str]:
        """The notes, without the one that serves as the sentence."""
        return [note for note in self.notes if note != self.sentence]


def _row_sentence(one: StratumRow, score: str) -> str:
    """Whether a term makes a difference, as one sentence."""
    if one.p is None:
        return f"Nothing can be said about {one.term}: there is no error to test it against."
    clear = "makes a difference" if one.p <= ALPHA else "makes no clear difference"
    how = "against whole plots" if one.stratum == "whole plots" else "within plots"
    return f"{one.term} {clear} in {score}: p = {one.p:.3g}, tested {how}."


# Computation

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class PlotRuns:
    """The values by run (rows) and case (columns), with the plot and block of each run.

    Only cases that have all runs are included; `left_out` counts the others.
    """

    values: Floats
    trials: tuple[TrialResult, ...]
    plots: Codes
    blocks: Codes
    cases: int
    left_out: int

    @property
    def mean(self) -> Floats:
        """The mean over cases of each run."""
        found: Floats = self.values.mean(axis=1)
        return found


def strata(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    order: int = 2,
    notes: Sequence[str] = (),
) -> Strata:
    """Test every main effect and interaction up to `order` in its stratum.

    Without `names`, all factors are used. Results without whole plots, or without a case in every plot, get a
    note and no tests. Raises Invalid for an order below 1.
    """
    if order < 1:
        raise Invalid(f"order: must be at least 1, not {order!r}")
    measured = measure(trials, score)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    known = measured.known
    runs = _runs(known)
    if reason := _impossible(known, runs):
        return Strata(measured.name, notes=(reason, *_lost(measured), *notes))
    lines, errors, remarks = _lines(runs, names or every, order)
    return Strata(measured.name, tuple(lines), tuple(errors), (*remarks, *_lost(measured), *notes))


def _impossible(known: Sequence[Observation], runs: PlotRuns) -> str:
    """Why the analysis is impossible; empty if it is possible."""
    if not known:
        return "No trial has a score: nothing can be said."
    if not any(one.trial.plot for one in known):
        return "The design has no whole plots: `effects` and `anova` say what its factors do."
    if not runs.cases:
        return "No case was run in every whole plot: the strata cannot be told apart."
    if is_rounding(float(np.ptp(runs.values)), runs.values):
        return "All scores are equal: nothing can be tested."
    return ""


def _lost(measured: Measured) -> Iterator[str]:
    """The note about lost trials."""
    yield from measured.remarks("table", tested=False)


def _runs(known: Sequence[Observation]) -> PlotRuns:
    """The mean over repeats of each case in each run; cases that lack a run are left out."""
    context, cells = Contexts(), dict[tuple[object, ...], dict[str, list[float]]]()
    first: dict[tuple[object, ...], TrialResult] = {}
    for one in known:
        row = (one.trial.block, one.trial.plot, context.of(one.trial))
        cells.setdefault(row, {}).setdefault(one.trial.case_id, []).append(one.value or 0.0)
        first.setdefault(row, one.trial)
    every = dict.fromkeys(one.trial.case_id for one in known)
    whole = [case for case in every if all(case in row for row in cells.values())]
    table = [[sum(row[case]) / len(row[case]) for case in whole] for row in cells.values()]
    values = np.array(table, dtype=np.float64).reshape(len(cells), len(whole))
    plots, _ = coded([row[:2] for row in cells], len(cells))
    blocks, _ = coded([row[0] for row in cells], len(cells))
    return PlotRuns(values, tuple(first.values()), plots, blocks, len(whole), len(every) - len(whole))


def _lines(
    runs: PlotRuns, names: Sequence[str], order: int
) -> tuple[list[StratumRow], list[StratumError], list[str]]:
    """The rows and errors of both strata, and notes."""
    factors = factors_of(runs.trials, names)
    terms = terms_of(factors, min(order, len(factors)))
    outer = [term for term in terms if _constant(term, runs.plots)]
    inner = [term for term in terms if not _constant(term, runs.plots)]
    blocks = np.eye(int(runs.blocks.max()) + 1)[runs.blocks]
    kept = keep(terms, _basis(blocks), lambda columns: columns)
    lines, errors = list[StratumRow](), list[StratumError]()
    for stratum, view, own in (
        ("whole plots", lambda data: _between(runs.plots, data), outer),
        ("within plots", lambda data: data - _between(runs.plots, data), inner),
    ):
        estimable = [term for term in own if term in kept.terms]
        found, error = _stratum(runs, stratum, view, estimable, blocks)
        lines += found
        errors.append(error)
    return lines, errors, [*_error_text(runs, errors), *kept.aliased]


def _constant(term: EffectTerm, plots: Codes) -> bool:
    """Whether a term is constant within each plot."""
    columns = term.columns
    return bool(np.allclose(columns, _between(plots, columns)))


def _between(plots: Codes, data: Floats) -> Floats:
    """The plot mean of every row."""
    flat = data.reshape(len(data), -1)
    each = sizes(plots)
    means = np.stack([totals(plots, column) / each for column in flat.T], axis=1)
    found: Floats = means[plots].reshape(data.shape)
    return found


def _basis(columns: Floats) -> Floats:
    """An orthonormal basis of the column space."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    found: Floats = left[:, singular > _ROUNDING * max(1.0, float(singular.max(initial=0.0)))]
    return found


def _stratum(
    runs: PlotRuns, name: str, view: object, terms: Sequence[EffectTerm], blocks: Floats
) -> tuple[list[StratumRow], StratumError]:
    """Sequential sums of squares of the terms in a stratum, and the residual as its error."""
    assert callable(view)
    taken = _basis(np.hstack([np.ones((len(blocks), 1)), blocks])) if name == "whole plots" else blocks[:, :0]
    parts = []
    for term in terms:
        part = _beyond(taken, view(term.columns))
        parts.append((term, part))
        taken = np.hstack([taken, part])
    rest = _beyond(taken, view(np.eye(len(blocks))))
    error = StratumError(name, rest.shape[1], _squares(runs, rest))
    crossed = _case_interaction(runs, rest) if rest.shape[1] else 0.0
    return [_line(runs, name, term, part, error, crossed) for term, part in parts], error


def _beyond(taken: Floats, columns: Floats) -> Floats:
    """An orthonormal basis of the columns after projecting out those already taken."""
    return _basis(columns - taken @ (taken.T @ columns))


def _squares(runs: PlotRuns, part: Floats) -> float:
    """The sum of squares of these contrasts of runs."""
    return float(runs.cases * ((part.T @ runs.mean) ** 2).sum())


def _case_interaction(runs: PlotRuns, part: Floats) -> float:
    """The mean square of the interaction of cases with these contrasts; 0 with one case."""
    if runs.cases < 2 or not part.shape[1]:
        return 0.0
    apart = part.T @ (runs.values - runs.mean[:, None])
    return float((apart**2).sum() / (part.shape[1] * (runs.cases - 1)))


def _line(
    runs: PlotRuns, stratum: str, term: EffectTerm, part: Floats, error: StratumError, crossed: float
) -> StratumRow:
    """The quasi-F test of a term."""
    q, squares = part.shape[1], _squares(runs, part)
    line = StratumRow(stratum, term.name, q, squares)
    if not error.df or not q or error.squares <= _ROUNDING**2 * squares:
        return line
    from scipy.special import fdtrc

    plain, reaction = error.squares / error.df, _case_interaction(runs, part)
    # A difference of mean squares may be negative by chance: the error is at least its largest part.
    whole = max(plain, reaction, plain + reaction - crossed)
    c = runs.cases - 1
    spread = plain**2 / error.df + (reaction**2 / (q * c) + crossed**2 / (error.df * c) if c else 0.0)
    df = whole**2 / spread
    f = squares / q / whole
    return StratumRow(stratum, term.name, q, squares, f, df, float(fdtrc(q, df, f)))


def _error_text(runs: PlotRuns, errors: Sequence[StratumError]) -> Iterator[str]:
    """Notes on the plots, the cases, and strata without an error term."""
    plots, rows = int(runs.plots.max()) + 1, len(runs.plots)
    yield (f"{plots} whole plots of {rows:,} runs on {runs.cases:,} {'case' if runs.cases == 1 else 'cases'}")
    if runs.cases == 1:
        yield "one case: what is tested holds for this case only"
    for error in errors:
        if not error.df:
            yield f"{error.stratum}: nothing is left for an error; more plots of the same setting would tell"
    if runs.left_out:
        yield f"left out: {runs.left_out} cases that lack a run"
    if len(set(sizes(runs.plots).tolist())) > 1:
        yield "plots are of unequal size: each term comes after those before it"
