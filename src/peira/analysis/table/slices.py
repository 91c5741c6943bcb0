"""Means of slices with partial pooling: means of small slices are shrunk towards the overall mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from peira.analysis.compare.sides import LabelKey, unique
from peira.analysis.table.groups import Unit, check_names, groupable, key_of, label_of
from peira.analysis.table.measures import Observation, measure
from peira.analysis.value import ResultValue, TextGrid
from peira.core.text import grid as layout
from peira.results.trials import TrialResult
from peira.stats.inputs import coded
from peira.stats.intervals.means import spread
from peira.stats.models.random_effects import Pooled, pool


@dataclass(frozen=True)
class Slice:
    """One slice: its own mean and its shrunken mean."""

    label: str
    mean: float
    pooled: Pooled
    n: int
    units: int


@dataclass(frozen=True)
class Slices(ResultValue):
    """Slices by their pooled means, highest first; `overall` is the mean they are shrunk towards."""

    by: str
    score: str
    level: float
    slices: tuple[Slice, ...]
    overall: float | None = None
    deviation: float | None = None
    notes: tuple[str, ...] = ()

    nothing = "No trial has a score: nothing can be said."

    def grids(self) -> list[TextGrid]:
        """One row per slice."""
        header = [layout.cell(self.by), f"{self.score}, pooled [{100 * self.level:g}% interval]"]
        header += ["own mean", "own weight", "n"]
        return [TextGrid(header, [_cells(one) for one in self.slices])] if self.slices else []


def _cells(one: Slice) -> list[str]:
    """The cells of a slice's row."""
    shown = layout.interval(one.pooled.mean, one.pooled.low, one.pooled.high)
    weight = f"{one.pooled.weight:.2f}"
    return [one.label, shown, f"{one.mean:.3g}", weight, layout.size(one.n, one.units)]


def slices(
    trials: Iterable[TrialResult],
    by: str = "slice",
    score: str | None = None,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Slices:
    """The means of slices (or of the levels of a factor or attribute) with partial pooling.

    With fewer than three slices nothing is pooled. Raises Unknown for an unknown name.
    """
    measured = measure(trials, score)
    seen = [one for one in measured.observations if one.value is not None]
    check_names([by], groupable(one.trial for one in measured.observations), ())
    groups: dict[LabelKey, list[Observation]] = {}
    for one in seen:
        groups.setdefault(key_of(label_of(one.trial, by)), []).append(one)
    if not groups:
        return Slices(by, measured.name, level, (), notes=tuple(notes))
    labels = unique(layout.cell(label_of(group[0].trial, by)) for group in groups.values())
    samples = {label: _sample(group) for label, group in zip(labels, groups.values(), strict=True)}
    found = pool(
        [mean for mean, _, _, _ in samples.values()], [error for _, error, _, _ in samples.values()], level
    )
    rows = [
        Slice(label, mean, pooled, n, units)
        for (label, (mean, _, n, units)), pooled in zip(samples.items(), found.slices, strict=True)
    ]
    rows.sort(key=lambda one: -one.pooled.mean)
    few = ("fewer than three slices: nothing is pooled",) if len(rows) < 3 else ()
    return Slices(by, measured.name, level, tuple(rows), found.overall, found.deviation, (*few, *notes))


def _sample(group: Sequence[Observation]) -> tuple[float, float, int, int]:
    """Mean, standard error (0 if unknown), number of values and number of units."""
    data = np.array([one.value for one in group], dtype=np.float64)
    labels: list[Unit] = [one.trial.unit for one in group]
    codes, units = coded(labels, len(labels))
    error = spread(data, codes).error if units > 1 else 0.0
    return float(data.mean()), error, len(group), units
