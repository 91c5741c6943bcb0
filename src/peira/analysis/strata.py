"""Split plots: factors that are set once for a whole plot are tested against plots, all others within plots.

A whole plot is set up once and everything in it shares that: two hundred trials in one plot are one setting
of its factors, not two hundred. So each term has the error of its own stratum: between plots where it is
constant within them, else within plots. Cases are a sample as well, where every plot has all of them: how
differently they react to a term is added to its error (quasi-F, with Satterthwaite's degrees of freedom).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from peira.analysis.fitting import names_of
from peira.analysis.groups import check_names
from peira.analysis.measures import Measured, Observation, measure
from peira.analysis.sides import Contexts
from peira.analysis.strata_value import Error, Line, Strata
from peira.analysis.terms import Term, factors_of, keep, terms_of
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats.inputs import Codes, Floats, coded, is_rounding, sizes, totals

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of a design (rows), each in its plot and block, by the cases that have all of them."""

    values: Floats
    trials: tuple[TrialResult, ...]
    plots: Codes
    blocks: Codes
    cases: int
    left_out: int

    @property
    def mean(self) -> Floats:
        found: Floats = self.values.mean(axis=1)
        return found


def strata(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    order: int = 2,
    notes: Sequence[str] = (),
) -> Strata:
    """Every main effect and interaction up to `order`, in the stratum it belongs to."""
    if order < 1:
        raise Invalid(f"order: must be at least 1, not {order!r}")
    measured = measure(trials, score)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    known = [one for one in measured.observations if one.value is not None]
    runs = _runs(known)
    if reason := _impossible(known, runs):
        return Strata(measured.name, notes=(reason, *_lost(measured), *notes))
    lines, errors, said = _lines(runs, names or every, order)
    return Strata(measured.name, tuple(lines), tuple(errors), (*said, *_lost(measured), *notes))


def _impossible(known: Sequence[Observation], runs: Runs) -> str:
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
    if lost := sum(one.value is None for one in measured.observations):
        yield f"not in the table: {lost} lost {'trial' if lost == 1 else 'trials'}"


def _runs(known: Sequence[Observation]) -> Runs:
    """The mean of the repeats of each case in each run; cases that lack a run are left out."""
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
    return Runs(values, tuple(first.values()), plots, blocks, len(whole), len(every) - len(whole))


def _lines(runs: Runs, names: Sequence[str], order: int) -> tuple[list[Line], list[Error], list[str]]:
    factors = factors_of(runs.trials, names)
    terms = terms_of(factors, min(order, len(factors)))
    outer = [term for term in terms if _constant(term, runs.plots)]
    inner = [term for term in terms if not _constant(term, runs.plots)]
    blocks = np.eye(int(runs.blocks.max()) + 1)[runs.blocks]
    kept = keep(terms, _basis(blocks), lambda columns: columns)
    lines, errors = list[Line](), list[Error]()
    for stratum, view, own in (
        ("whole plots", lambda data: _between(runs.plots, data), outer),
        ("within plots", lambda data: data - _between(runs.plots, data), inner),
    ):
        told = [term for term in own if term in kept.terms]
        found, error = _stratum(runs, stratum, view, told, blocks)
        lines += found
        errors.append(error)
    return lines, errors, [*_said(runs, errors), *kept.aliased]


def _constant(term: Term, plots: Codes) -> bool:
    """Whether it has one value in each plot."""
    columns = term.columns
    return bool(np.allclose(columns, _between(plots, columns)))


def _between(plots: Codes, data: Floats) -> Floats:
    """The mean of its plot, for every row."""
    flat = data.reshape(len(data), -1)
    each = sizes(plots)
    means = np.stack([totals(plots, column) / each for column in flat.T], axis=1)
    found: Floats = means[plots].reshape(data.shape)
    return found


def _basis(columns: Floats) -> Floats:
    """Orthonormal columns that span the same."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    found: Floats = left[:, singular > _ROUNDING * max(1.0, float(singular.max(initial=0.0)))]
    return found


def _stratum(
    runs: Runs, name: str, view: object, terms: Sequence[Term], blocks: Floats
) -> tuple[list[Line], Error]:
    """Each term after those before it; what is left of the stratum is its error."""
    assert callable(view)
    taken = _basis(np.hstack([np.ones((len(blocks), 1)), blocks])) if name == "whole plots" else blocks[:, :0]
    parts = []
    for term in terms:
        part = _beyond(taken, view(term.columns))
        parts.append((term, part))
        taken = np.hstack([taken, part])
    rest = _beyond(taken, view(np.eye(len(blocks))))
    error = Error(name, rest.shape[1], _squares(runs, rest))
    crossed = _reaction(runs, rest) if rest.shape[1] else 0.0
    return [_line(runs, name, term, part, error, crossed) for term, part in parts], error


def _beyond(taken: Floats, columns: Floats) -> Floats:
    return _basis(columns - taken @ (taken.T @ columns))


def _squares(runs: Runs, part: Floats) -> float:
    """The sum of squares of these contrasts of runs."""
    return float(runs.cases * ((part.T @ runs.mean) ** 2).sum())


def _reaction(runs: Runs, part: Floats) -> float:
    """How differently cases react to these contrasts, as a mean square; 0 with one case."""
    if runs.cases < 2 or not part.shape[1]:
        return 0.0
    apart = part.T @ (runs.values - runs.mean[:, None])
    return float((apart**2).sum() / (part.shape[1] * (runs.cases - 1)))


def _line(runs: Runs, stratum: str, term: Term, part: Floats, error: Error, crossed: float) -> Line:
    q, squares = part.shape[1], _squares(runs, part)
    line = Line(stratum, term.name, q, squares)
    if not error.df or not q or error.squares <= _ROUNDING**2 * squares:
        return line
    from scipy.special import fdtrc

    plain, reaction = error.squares / error.df, _reaction(runs, part)
    # A difference of mean squares may be negative by chance: the error is never less than its largest part.
    whole = max(plain, reaction, plain + reaction - crossed)
    c = runs.cases - 1
    spread = plain**2 / error.df + (reaction**2 / (q * c) + crossed**2 / (error.df * c) if c else 0.0)
    df = whole**2 / spread
    f = squares / q / whole
    return Line(stratum, term.name, q, squares, f, df, float(fdtrc(q, df, f)))


def _said(runs: Runs, errors: Sequence[Error]) -> Iterator[str]:
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
