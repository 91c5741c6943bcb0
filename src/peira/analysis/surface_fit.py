"""The fit of a response surface: which trials are its rows, which factors its axes, what its errors are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peira.analysis.fitting import cluster_covariance, table_of
from peira.analysis.groups import label_of
from peira.analysis.measures import Measured
from peira.analysis.sides import Contexts
from peira.analysis.surface_value import Fits
from peira.analysis.terms import Factor, factors_of
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats.inputs import Codes, Floats, coded, is_rounding, sizes, totals
from peira.stats.least_squares import Solution, solve

MOST_CELLS = 20_000_000
"""Beyond so many values by points that were run, the lack of fit is not tested."""


@dataclass(frozen=True, eq=False)
class Axis:
    """A factor as a coordinate: its values, and the ends of what was run."""

    name: str
    values: Floats

    @property
    def coded(self) -> Floats:
        found: Floats = (self.values - self.middle) / self.half
        return found

    @property
    def middle(self) -> float:
        return float(self.values.max() + self.values.min()) / 2

    @property
    def half(self) -> float:
        return float(np.ptp(self.values)) / 2

    def at(self, coded: float) -> float:
        return self.middle + self.half * coded


@dataclass(frozen=True, eq=False)
class Rows:
    """What is fitted: values with their trials, and the unit of evidence each belongs to."""

    values: Floats
    trials: tuple[TrialResult, ...]
    units: Codes

    @property
    def rounding(self) -> float:
        """Errors this small, among these values, are rounding and not evidence."""
        return float(np.abs(self.values).max()) * 2.0**-40

    @property
    def groups(self) -> int:
        return int(self.units.max()) + 1


def rows_of(measured: Measured) -> Rows:
    """Means of repeats; single trials where there is but one case."""
    table = table_of(measured)
    if table.groups > 1 or not len(table.values):
        return Rows(table.values, table.trials, table.units)
    known = [one for one in measured.observations if one.value is not None]
    values = np.array([one.value for one in known], dtype=np.float64)
    return Rows(values, tuple(one.trial for one in known), np.zeros(len(known), dtype=np.intp))


def axes_of(rows: Rows, names: Sequence[str], every: Sequence[str]) -> tuple[list[Axis], list[Factor]]:
    """The factors that are numbers, and the others that vary, over which the surface is the average."""
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
class Surfaced:
    """Coefficients with their covariance (None if unknown), and how it was come by."""

    beta: Floats
    covariance: Floats | None
    df: float
    how: str
    tiny: float

    @property
    def known(self) -> Floats:
        """The covariance; zeros where it is unknown."""
        return np.zeros((len(self.beta), len(self.beta))) if self.covariance is None else self.covariance


def errors(rows: Rows, matrix: Floats, solution: Solution, width: int) -> Surfaced:
    """Robust where there are more units than coefficients; else from what the surface leaves within units."""
    groups, columns, tiny = rows.groups, matrix.shape[1], rows.rounding
    if is_rounding(float(np.abs(solution.residuals).max()), rows.values):
        how = "the surface leaves nothing over: no error can be given"
        return Surfaced(solution.beta[:width], None, 0.0, how, tiny)
    if groups > columns:
        found = cluster_covariance(rows.units, matrix, solution.residuals, solution.bread)
        return Surfaced(
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
        return Surfaced(solution.beta[:width], None, 0.0, how, tiny)
    covariance = inner.bread * inner.squares / df
    how = "errors from repeats of one case" if groups == 1 else f"errors hold for these {groups} cases only"
    return Surfaced(inner.beta[:width], covariance[:width, :width], float(df), how, tiny)


def lack_of_fit(rows: Rows, matrix: Floats) -> tuple[Fits | None, float | None]:
    """What the surface leaves between the points that were run, against what replicates differ by; and the
    share of the differences between points that it explains."""
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


def _squares(rows: Rows, columns: Floats) -> tuple[float, int]:
    """What the columns leave beside what is common to a unit, and how many of all these count."""
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
