"""Response surfaces: a second-order fit over numeric factors, its optimum and lack of fit.

Factors are coded to [-1, 1] over the range that was run, and the optimum is searched within that range. With
more cases than coefficients, cases are the sampling unit (cluster-robust errors, valid for other cases); with
fewer they are blocks; with a single case, its repeats are the sampling unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peira.analysis.compare.sides import Contexts
from peira.analysis.effects.regression import (
    CodedFactor,
    EffectTerm,
    cluster_covariance,
    factors_of,
    names_of,
    table_of,
)
from peira.analysis.table.groups import check_names, label_of
from peira.analysis.table.measures import Measured, measure
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import student
from peira.stats.inputs import Codes, Floats, coded, is_rounding, sizes, totals, upper
from peira.stats.models import surface as shapes
from peira.stats.models.surface import Solution, solve
from peira.stats.student import Spread
from peira.stats.values import Estimate, Interval

# Results


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of the surface, such as temperature² or temperature x length, in coded units."""

    term: str
    estimate: Estimate
    p: float | None


@dataclass(frozen=True)
class Setting:
    """The optimal value of one factor.

    `low` and `high` bound the optimum at the confidence level, `edge` is the probability that it lies at an
    end of the range. `turns` is the factor's coordinate of the stationary point.
    """

    factor: str
    best: float
    low: float | None
    high: float | None
    edge: float | None
    turns: Interval | None


@dataclass(frozen=True)
class Direction:
    """The curvature along one canonical direction, given as weights of the coded factors."""

    weights: tuple[float, ...]
    curvature: Interval


@dataclass(frozen=True)
class Fits:
    """The test of lack of fit against replicates."""

    f: float | None
    df: int
    df_error: int
    p: float | None


@dataclass(frozen=True)
class Surface(ResultValue):
    """A fitted response surface with its optimum.

    `kind` is the kind of the stationary point (maximum, minimum, saddle point; empty if there is none).
    `share` is the share of the variation between points that the surface explains.
    """

    score: str
    level: float
    goal: str
    coefficients: tuple[Coefficient, ...] = ()
    settings: tuple[Setting, ...] = ()
    value: Estimate | None = None
    kind: str = ""
    inside: bool = False
    directions: tuple[Direction, ...] = ()
    fits: Fits | None = None
    share: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Where the score is best and how high it is there."""
        if self.value is None:
            return self.notes[0]
        shown = layout.interval(self.value.mean, self.value.low, self.value.high)
        where = ", ".join(_where(one) for one in self.settings)
        return f"{self.score} is {self.goal} at {where}: {shown}."

    def _remarks(self) -> Iterator[str]:
        """Remarks on the stationary point, the lack of fit, and optima at an end."""
        if self.kind:
            place = "within" if self.inside else "outside"
            yield f"The surface turns {place} the region that was run, at a {self.kind}{self._ridge()}."
        if self.fits is not None and self.fits.p is not None:
            good = self.fits.p > 1 - self.level
            said = "A second-order surface fits" if good else "A second-order surface does NOT fit"
            yield f"{said} (lack of fit: p = {self.fits.p:.3g})."
        at_edge = [one.factor for one in self.settings if one.edge is not None and one.edge > 0.5]
        if at_edge:
            yield f"The best value of {', '.join(at_edge)} lies at an end of its range: look beyond it."

    def _ridge(self) -> str:
        """A remark if a curvature may be 0."""
        flat = [d for d in self.directions if _crosses(d.curvature)]
        return "; one of its curvatures may be 0: a ridge" if flat and self.directions else ""

    def grids(self) -> list[TextGrid]:
        """The table of coefficients and the table of optimal settings, if they are not empty."""
        return [grid for grid in (self._terms(), self._best()) if grid.rows]

    def _terms(self) -> TextGrid:
        """The table of coefficients."""
        rows = [
            [
                c.term,
                layout.interval(c.estimate.mean, c.estimate.low, c.estimate.high),
                layout.probability(c.p),
            ]
            for c in self.coefficients
        ]
        return TextGrid(
            ["term", f"change in {self.score}, coded [{100 * self.level:g}% interval]", "p"], rows
        )

    def _best(self) -> TextGrid:
        """The table of optimal settings."""
        rows = [
            [
                one.factor,
                layout.interval(one.best, one.low, one.high),
                layout.number(one.edge, ".2f"),
                _turns(one),
            ]
            for one in self.settings
        ]
        level = f"{100 * self.level:g}%"
        header = ["factor", f"best [{level} range]", "P(at an end)", f"turns at [{level} interval]"]
        return TextGrid(header, rows)

    @property
    def remarks(self) -> list[str]:
        """The remarks on the fit, and the notes."""
        return [*self._remarks(), *(note for note in self.notes if note != self.sentence)]

    def document(self) -> dict[str, Any]:
        """The fields, the sentence, and the remarks as notes."""
        return {**super().document(), "notes": self.remarks}


def _where(one: Setting) -> str:
    """A factor's optimal value with its range, as text."""
    shown = layout.interval(one.best, one.low, one.high) if one.low is not None else f"{one.best:.4g}"
    return f"{one.factor} {shown}"


def _turns(one: Setting) -> str:
    """A factor's coordinate of the stationary point, as text."""
    return layout.interval(one.turns.value, one.turns.low, one.turns.high) if one.turns else "-"


def _crosses(found: Interval) -> bool:
    """Whether an interval is unknown or contains 0."""
    return found.low is None or found.high is None or found.low <= 0 <= found.high


# Data and fit

MOST_CELLS = 20_000_000
"""Above this many values times points, the lack of fit is not tested."""


@dataclass(frozen=True, eq=False)
class Axis:
    """A numeric factor: its values, and the coding to [-1, 1]."""

    name: str
    values: Floats

    @property
    def coded(self) -> Floats:
        """The values coded to [-1, 1]."""
        found: Floats = (self.values - self.middle) / self.half
        return found

    @property
    def middle(self) -> float:
        """The centre of the range."""
        return float(self.values.max() + self.values.min()) / 2

    @property
    def half(self) -> float:
        """Half the range."""
        return float(np.ptp(self.values)) / 2

    def at(self, coded: float) -> float:
        """The value at a coded coordinate."""
        return self.middle + self.half * coded


@dataclass(frozen=True, eq=False)
class SurfaceData:
    """The values to fit with their trials and units of evidence."""

    values: Floats
    trials: tuple[TrialResult, ...]
    units: Codes

    @property
    def rounding(self) -> float:
        """Errors up to this size are rounding error, given the values."""
        return float(np.abs(self.values).max()) * 2.0**-40

    @property
    def groups(self) -> int:
        """The number of units of evidence."""
        return int(self.units.max()) + 1


def rows_of(measured: Measured) -> SurfaceData:
    """The case means; single trials if there is only one case."""
    table = table_of(measured)
    if table.groups > 1 or not len(table.values):
        return SurfaceData(table.values, table.trials, table.units)
    known = measured.known
    values = np.array([one.value for one in known], dtype=np.float64)
    return SurfaceData(values, tuple(one.trial for one in known), np.zeros(len(known), dtype=np.intp))


def axes_of(
    rows: SurfaceData, names: Sequence[str], every: Sequence[str]
) -> tuple[list[Axis], list[CodedFactor]]:
    """The numeric factors that vary, and the other varying factors, which are averaged over.

    Raises Invalid if a named factor is not numeric.
    """
    found = []
    for name in names or every:
        labels = [label_of(trial, name) for trial in rows.trials]
        if all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
            axis = Axis(name, np.array(labels, dtype=np.float64))
            if axis.half > 0:
                found.append(axis)
        elif names:
            raise Invalid(f"{name}: its levels are not numbers; a surface needs numbers")
    taken = {axis.name for axis in found}
    return found, factors_of(rows.trials, [name for name in every if name not in taken])


@dataclass(frozen=True, eq=False)
class SurfaceFit:
    """Coefficients with their covariance (None if unknown); `how` describes the errors."""

    beta: Floats
    covariance: Floats | None
    df: float
    how: str
    tiny: float

    @property
    def known(self) -> Floats:
        """The covariance; zeros if it is unknown."""
        return np.zeros((len(self.beta), len(self.beta))) if self.covariance is None else self.covariance


def errors(rows: SurfaceData, matrix: Floats, solution: Solution, width: int) -> SurfaceFit:
    """The coefficients with their covariance.

    Cluster-robust with more units than coefficients, else from residuals within units.
    """
    groups, columns, tiny = rows.groups, matrix.shape[1], rows.rounding
    if is_rounding(float(np.abs(solution.residuals).max()), rows.values):
        how = "the surface leaves nothing over: no error can be given"
        return SurfaceFit(solution.beta[:width], None, 0.0, how, tiny)
    if groups > columns:
        found = cluster_covariance(rows.units, matrix, solution.residuals)
        return SurfaceFit(
            solution.beta[:width],
            found[:width, :width],
            groups - 1.0,
            f"{groups:,} independent units, each its own control",
            tiny,
        )
    blocks = np.eye(groups)[rows.units][:, 1:] - np.eye(groups)[rows.units][:, :1]
    inner = solve(np.hstack([matrix, blocks]), rows.values)
    df = len(rows.values) - columns - groups + 1
    if inner is None or df < 1:
        how = "more coefficients than there are values for: no error can be given"
        return SurfaceFit(solution.beta[:width], None, 0.0, how, tiny)
    covariance = inner.bread * inner.squares / df
    how = "errors from repeats of one case" if groups == 1 else f"errors hold for these {groups} cases only"
    return SurfaceFit(inner.beta[:width], covariance[:width, :width], float(df), how, tiny)


def lack_of_fit(rows: SurfaceData, matrix: Floats) -> tuple[Fits | None, float | None]:
    """The test of lack of fit against replicates, and the explained share of variation."""
    context = Contexts()
    points, m = coded([context.of(trial) for trial in rows.trials], len(rows.trials))
    if len(points) * m > MOST_CELLS:
        return None, None
    none, model, cells = (
        _squares(rows, columns) for columns in (np.zeros((len(points), 0)), matrix[:, 1:], np.eye(m)[points])
    )
    share = 1 - (model[0] - cells[0]) / (none[0] - cells[0]) if none[0] > cells[0] * (1 + 1e-9) else None
    df, df_error = cells[1] - model[1], len(points) - cells[1]
    if df < 1 or df_error < 1 or cells[0] <= 1e-20 * max(none[0], 1e-300):
        return None, share
    from scipy.special import fdtrc

    f = max(0.0, model[0] - cells[0]) / df / (cells[0] / df_error)
    return Fits(f, df, df_error, float(fdtrc(df, df_error, f))), share


def _squares(rows: SurfaceData, columns: Floats) -> tuple[float, int]:
    """The residual sum of squares after removing unit means, and the number of parameters used."""
    each = sizes(rows.units)

    def within(data: Floats) -> Floats:
        found: Floats = data - (totals(rows.units, data) / each)[rows.units]
        return found

    response = within(rows.values)
    if not columns.shape[1]:
        return float(response @ response), rows.groups
    inner = np.stack([within(column) for column in columns.T], axis=1)
    beta, _, rank, _ = np.linalg.lstsq(inner, response, rcond=1e-10)
    residuals = response - inner @ beta
    return float(residuals @ residuals), int(rank) + rows.groups


# Optimum

DRAWS = 4000
"""The number of simulated surfaces for the range of the optimum."""


def surface(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    lowest: bool = False,
    notes: Sequence[str] = (),
) -> Surface:
    """The response surface over the named factors.

    Without names, over all numeric factors that vary.
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    measured = measure(trials, score)
    rows = rows_of(measured)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    goal, remarks = "lowest" if lowest else "highest", [*_lost(measured), *notes]
    if not len(rows.values):
        return Surface(
            measured.name, level, goal, notes=("No trial has a score: nothing can be said.", *remarks)
        )
    axes, others = axes_of(rows, names, every)
    if reason := _impossible(axes, rows):
        return Surface(measured.name, level, goal, notes=(reason, *remarks))
    return _fitted(rows, axes, others, measured.name, level, goal, remarks)


def _lost(measured: Measured) -> list[str]:
    """The note about lost trials."""
    return measured.remarks("surface", tested=False)


def _impossible(axes: Sequence[Axis], rows: SurfaceData) -> str:
    """Why there is no surface; empty if there is one."""
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
    rows: SurfaceData,
    axes: Sequence[Axis],
    others: Sequence[CodedFactor],
    score: str,
    level: float,
    goal: str,
    remarks: Sequence[str],
) -> Surface:
    """Fit the surface and summarise it."""
    k, shape = len(axes), shapes.columns(np.stack([axis.coded for axis in axes], axis=1))
    matrix = np.hstack([shape, *(EffectTerm((other,)).columns for other in others)])
    solution = solve(matrix, rows.values)
    if solution is None:
        few = f"the points that were run cannot tell its {shape.shape[1]} coefficients apart"
        return Surface(score, level, goal, notes=(f"No surface: {few}.", *remarks))
    if float(np.abs(solution.beta[1 : shape.shape[1]]).max()) <= rows.rounding:
        why = f"{score} does not change with {', '.join(axis.name for axis in axes)}: there is no best point."
        return Surface(score, level, goal, notes=(why, *remarks))
    fit = errors(rows, matrix, solution, shape.shape[1])
    signed = fit.beta if goal == "highest" else -fit.beta
    best = shapes.highest(signed[None], k)[0]
    canonical_form = shapes.canonical(fit.beta, fit.known, k)
    averaged = (f"averaged over {', '.join(other.name for other in others)}",) if others else ()
    return Surface(
        score,
        level,
        goal,
        tuple(_coefficients(axes, fit, rows, level)),
        tuple(_settings(axes, fit, best, canonical_form, goal, level)),
        _value(fit, best, rows, level),
        canonical_form.kind if canonical_form else "",
        bool(canonical_form and canonical_form.inside),
        tuple(_directions(canonical_form, fit, level)) if canonical_form else (),
        *lack_of_fit(rows, matrix),
        (fit.how, *averaged, *remarks),
    )


def _coefficients(
    axes: Sequence[Axis], fit: SurfaceFit, rows: SurfaceData, level: float
) -> Iterable[Coefficient]:
    """The coefficients with t intervals."""
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


def _spread(fit: SurfaceFit, place: int) -> Spread | None:
    """The standard error of a coefficient; None if it is unknown or 0."""
    variance = 0.0 if fit.covariance is None else float(fit.covariance[place, place])
    return Spread(variance**0.5, fit.df) if variance > fit.tiny**2 else None


def _settings(
    axes: Sequence[Axis],
    fit: SurfaceFit,
    best: Floats,
    canonical_form: shapes.Canonical | None,
    goal: str,
    level: float,
) -> Iterable[Setting]:
    """The optimum with ranges from simulated surfaces, each at its own optimum."""
    draws: Floats | None = None
    if fit.covariance is not None:
        simulated = shapes.drawn(fit.beta, fit.covariance, fit.df, DRAWS, seed=0)
        draws = shapes.highest(simulated if goal == "highest" else -simulated, len(axes))
    limit = upper(level)
    for i, axis in enumerate(axes):
        point = axis.at(float(best[i]))
        turns = _turning_points(axis, canonical_form, i, fit, level)
        if draws is None:
            yield Setting(axis.name, point, None, None, None, turns)
            continue
        low, high = (axis.at(float(end)) for end in np.quantile(draws[:, i], (1 - limit, limit)))
        edge = float((np.abs(draws[:, i]) >= 1).mean())
        yield Setting(axis.name, point, min(low, point), max(high, point), edge, turns)


def _turning_points(
    axis: Axis, canonical_form: shapes.Canonical | None, i: int, fit: SurfaceFit, level: float
) -> Interval | None:
    """The coordinate of the stationary point on an axis, with its delta-method interval."""
    if canonical_form is None:
        return None
    point = axis.at(float(canonical_form.point[i]))
    if fit.covariance is None:
        return Interval(point, None, None, 0, "unknown")
    spread = Spread(axis.half * float(canonical_form.errors[i]), fit.df)
    return Interval(point, *student.around(point, spread, level), 0, "delta")


def _directions(canonical_form: shapes.Canonical, fit: SurfaceFit, level: float) -> Iterable[Direction]:
    """The canonical directions with intervals of their curvatures."""
    for place, bend in enumerate(canonical_form.curvatures):
        weights = tuple(float(weight) for weight in canonical_form.directions[:, place])
        spread = Spread(float(canonical_form.curvature_errors[place]), fit.df)
        known = fit.covariance is not None and spread.error > fit.tiny
        low, high = student.around(float(bend), spread, level) if known else (None, None)
        yield Direction(weights, Interval(float(bend), low, high, 0, "delta"))


def _value(fit: SurfaceFit, best: Floats, rows: SurfaceData, level: float) -> Estimate:
    """The fitted value at the optimum with its interval."""
    at = shapes.columns(best[None])[0]
    mean, n = float(at @ fit.beta), len(rows.values)
    variance = 0.0 if fit.covariance is None else float(at @ fit.covariance @ at)
    if variance <= fit.tiny**2:
        return Estimate(mean, None, None, n, "unknown")
    bounds = student.around(mean, Spread(variance**0.5, fit.df), level)
    return Estimate(mean, *bounds, n, "surface, at this point")
