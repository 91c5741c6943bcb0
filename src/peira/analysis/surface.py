"""From trials to a response surface: the score as a second-order function of factors that are numbers.

Factors are coded, -1 and 1 at the ends of what was run, and the best point is looked for between those ends.
With more cases than coefficients, cases are the sample (errors are robust, and hold for other cases); with
fewer they are blocks; with one, its repeats are the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from peira.analysis.fitting import names_of
from peira.analysis.groups import check_names
from peira.analysis.measures import Measured, measure
from peira.analysis.surface_fit import Axis, Rows, Surfaced, axes_of, errors, lack_of_fit, rows_of
from peira.analysis.surface_value import Coefficient, Direction, Setting, Surface
from peira.analysis.terms import Factor, Term
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats import student
from peira.stats import surface as shapes
from peira.stats.inputs import Floats, is_rounding, upper
from peira.stats.least_squares import solve
from peira.stats.student import Spread
from peira.stats.values import Estimate, Interval

DRAWS = 4000


def surface(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    lowest: bool = False,
    notes: Sequence[str] = (),
) -> Surface:
    """The surface over the named factors; without names, over all that are numbers and vary."""
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    measured = measure(trials, score)
    rows = rows_of(measured)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    goal, said = "lowest" if lowest else "highest", [*_lost(measured), *notes]
    if not len(rows.values):
        return Surface(
            measured.name, level, goal, notes=("No trial has a score: nothing can be said.", *said)
        )
    axes, others = axes_of(rows, names, every)
    if reason := _impossible(axes, rows):
        return Surface(measured.name, level, goal, notes=(reason, *said))
    return _fitted(rows, axes, others, measured.name, level, goal, said)


def _lost(measured: Measured) -> list[str]:
    lost = sum(one.value is None for one in measured.observations)
    return [f"not in the surface: {lost} lost {'trial' if lost == 1 else 'trials'}"] if lost else []


def _impossible(axes: Sequence[Axis], rows: Rows) -> str:
    if not axes:
        return "No factor is a number that varies: there is no surface."
    if len(axes) > shapes.MOST:
        return f"A surface over {len(axes)} factors is too much; name at most {shapes.MOST} of them."
    flat = [axis.name for axis in axes if len(np.unique(axis.values)) < 3]
    if flat:
        return f"{', '.join(flat)}: a surface curves, and needs three or more values of each factor."
    if is_rounding(float(np.ptp(rows.values)), rows.values):
        return "All scores are equal: there is no surface, and no best point."
    return ""


def _fitted(
    rows: Rows,
    axes: Sequence[Axis],
    others: Sequence[Factor],
    score: str,
    level: float,
    goal: str,
    said: Sequence[str],
) -> Surface:
    k, shape = len(axes), shapes.columns(np.stack([axis.coded for axis in axes], axis=1))
    matrix = np.hstack([shape, *(Term((other,)).columns for other in others)])
    solution = solve(matrix, rows.values)
    if solution is None:
        few = f"the points that were run cannot tell its {shape.shape[1]} coefficients apart"
        return Surface(score, level, goal, notes=(f"No surface: {few}.", *said))
    if float(np.abs(solution.beta[1 : shape.shape[1]]).max()) <= rows.rounding:
        why = f"{score} does not change with {', '.join(axis.name for axis in axes)}: there is no best point."
        return Surface(score, level, goal, notes=(why, *said))
    fit = errors(rows, matrix, solution, shape.shape[1])
    signed = fit.beta if goal == "highest" else -fit.beta
    best = shapes.highest(signed[None], k)[0]
    turned = shapes.canonical(fit.beta, fit.known, k)
    averaged = (f"averaged over {', '.join(other.name for other in others)}",) if others else ()
    return Surface(
        score,
        level,
        goal,
        tuple(_coefficients(axes, fit, rows, level)),
        tuple(_settings(axes, fit, best, turned, goal, level)),
        _value(fit, best, rows, level),
        turned.kind if turned else "",
        bool(turned and turned.inside),
        tuple(_directions(turned, fit, level)) if turned else (),
        *lack_of_fit(rows, matrix),
        (fit.how, *averaged, *said),
    )


def _coefficients(axes: Sequence[Axis], fit: Surfaced, rows: Rows, level: float) -> Iterable[Coefficient]:
    names = [axis.name for axis in axes]
    for place, term in enumerate(shapes.terms(len(axes))):
        shown = [names[i] for i in term]
        squared = len(term) == 2 and term[0] == term[1]
        title = f"{shown[0]}²" if squared else " x ".join(shown) or "(centre)"
        mean, spread = float(fit.beta[place]), _spread(fit, place)
        if spread is None:
            yield Coefficient(title, Estimate(mean, None, None, len(rows.values), "unknown"), None)
            continue
        found = Estimate(mean, *student.around(mean, spread, level), len(rows.values), "least squares")
        yield Coefficient(title, found, student.p_value(mean / spread.error, spread.df, "two-sided"))


def _spread(fit: Surfaced, place: int) -> Spread | None:
    variance = 0.0 if fit.covariance is None else float(fit.covariance[place, place])
    return Spread(variance**0.5, fit.df) if variance > fit.tiny**2 else None


def _settings(
    axes: Sequence[Axis],
    fit: Surfaced,
    best: Floats,
    turned: shapes.Canonical | None,
    goal: str,
    level: float,
) -> Iterable[Setting]:
    """Ranges from surfaces that the data leave possible, each at its best point."""
    draws: Floats | None = None
    if fit.covariance is not None:
        made = shapes.drawn(fit.beta, fit.covariance, fit.df, DRAWS, seed=0)
        draws = shapes.highest(made if goal == "highest" else -made, len(axes))
    limit = upper(level)
    for i, axis in enumerate(axes):
        point = axis.at(float(best[i]))
        turns = _turns(axis, turned, i, fit, level)
        if draws is None:
            yield Setting(axis.name, point, None, None, None, turns)
            continue
        low, high = (axis.at(float(end)) for end in np.quantile(draws[:, i], (1 - limit, limit)))
        edge = float((np.abs(draws[:, i]) >= 1).mean())
        yield Setting(axis.name, point, min(low, point), max(high, point), edge, turns)


def _turns(
    axis: Axis, turned: shapes.Canonical | None, i: int, fit: Surfaced, level: float
) -> Interval | None:
    if turned is None:
        return None
    point = axis.at(float(turned.point[i]))
    if fit.covariance is None:
        return Interval(point, None, None, 0, "unknown")
    spread = Spread(axis.half * float(turned.errors[i]), fit.df)
    return Interval(point, *student.around(point, spread, level), 0, "delta")


def _directions(turned: shapes.Canonical, fit: Surfaced, level: float) -> Iterable[Direction]:
    for place, bend in enumerate(turned.curvatures):
        weights = tuple(float(weight) for weight in turned.directions[:, place])
        spread = Spread(float(turned.curvature_errors[place]), fit.df)
        known = fit.covariance is not None and spread.error > fit.tiny
        low, high = student.around(float(bend), spread, level) if known else (None, None)
        yield Direction(weights, Interval(float(bend), low, high, 0, "delta"))


def _value(fit: Surfaced, best: Floats, rows: Rows, level: float) -> Estimate:
    at = shapes.columns(best[None])[0]
    mean, n = float(at @ fit.beta), len(rows.values)
    variance = 0.0 if fit.covariance is None else float(at @ fit.covariance @ at)
    if variance <= fit.tiny**2:
        return Estimate(mean, None, None, n, "unknown")
    bounds = student.around(mean, Spread(variance**0.5, fit.df), level)
    return Estimate(mean, *bounds, n, "surface, at this point")
