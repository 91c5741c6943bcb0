"""Means of slices with partial pooling: means of small slices are shrunk towards the overall mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from peira.analysis.compare.sides import LabelKey, unique
from peira.analysis.table.groups import Unit, check_names, groupable, key_of, label_of
from peira.analysis.table.measures import Observation, measure
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.results.trials import TrialResult
from peira.stats.inputs import coded
from peira.stats.intervals.means import Limits, estimate, spread
from peira.stats.models.random_effects import Pooled, Pooling, pool, steady_errors


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
    seen = measured.known
    check_names([by], groupable(one.trial for one in measured.observations), ())
    groups: dict[LabelKey, list[Observation]] = {}
    for one in seen:
        groups.setdefault(key_of(label_of(one.trial, by)), []).append(one)
    if not groups:
        return Slices(by, measured.name, level, (), notes=tuple(notes))
    labels = unique(layout.cell(label_of(group[0].trial, by)) for group in groups.values())
    samples = {label: _Sample.of(group) for label, group in zip(labels, groups.values(), strict=True)}
    found = _pooled(list(samples.values()), level, measured.ends)
    rows = [
        Slice(label, sample.mean, pooled, len(sample.values), sample.units)
        for (label, sample), pooled in zip(samples.items(), found.slices, strict=True)
    ]
    rows.sort(key=lambda one: -one.pooled.mean)
    few = ("fewer than three slices: nothing is pooled",) if len(rows) < 3 else ()
    if found.deviation is not None:
        few = (f"slices differ by an estimated standard deviation of {found.deviation:.2g}",)
    return Slices(by, measured.name, level, tuple(rows), found.overall, found.deviation, (*few, *notes))


def declared_slices(
    trials: Iterable[TrialResult],
    names: Sequence[str],
    score: str | None = None,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Slices:
    """The means of slices that a study declares, and of all trials; each by itself, because they overlap.

    Membership is in the metadata of the trials. After them come the slices that cases themselves name.
    """
    measured = measure(trials, score)
    seen = measured.known
    groups = {name: [one for one in seen if one.trial.metadata.get(name) is True] for name in names}
    for one in seen:
        if one.trial.slice is not None:
            groups.setdefault(one.trial.slice, []).append(one)
    rows = [_alone(name, group, level, measured.ends) for name, group in groups.items() if group]
    rows += [_alone("(all)", seen, level, measured.ends)] if seen else []
    empty = [name for name, group in groups.items() if not group]
    none = (f"without a score: {', '.join(empty)}",) if empty else ()
    overlap = ("slices may overlap: nothing is pooled",)
    return Slices("slice", measured.name, level, tuple(rows), notes=(*overlap, *none, *notes))


def _alone(label: str, group: Sequence[Observation], level: float, limits: Limits | None) -> Slice:
    """The row of a slice with its own mean and interval."""
    sample = _Sample.of(group)
    own = estimate(sample.values, sample.labels, level, limits)
    return Slice(
        label, sample.mean, Pooled(own.mean, own.low, own.high, 1.0), len(sample.values), sample.units
    )


@dataclass(frozen=True)
class _Sample:
    """The values of one slice with their units, and the variance of a single unit (0 if unknown)."""

    values: tuple[float, ...]
    labels: tuple[Unit, ...]
    mean: float
    variance: float
    units: int

    @classmethod
    def of(cls, group: Sequence[Observation]) -> _Sample:
        """The sample of the scored observations of a slice."""
        values = tuple(one.value for one in group if one.value is not None)
        labels = tuple(one.trial.unit for one in group if one.value is not None)
        data = np.array(values, dtype=np.float64)
        codes, units = coded(labels, len(labels))
        variance = units * spread(data, codes).error ** 2 if units > 1 else 0.0
        return cls(values, labels, float(data.mean()), variance, units)


def _pooled(samples: Sequence[_Sample], level: float, limits: Limits | None) -> Pooling:
    """Shrink the means of at least three slices that vary; else each has its own interval."""
    errors = steady_errors([one.variance for one in samples], [one.units for one in samples])
    means = [one.mean for one in samples]
    if len(samples) < 3 or not any(errors):
        own = [estimate(one.values, one.labels, level, limits) for one in samples]
        alone = tuple(Pooled(one.mean, one.low, one.high, 1.0) for one in own)
        return Pooling(alone, float(np.mean(means)), None)
    # A slice's variance rests on its own units and on the other slices.
    found = pool(means, errors, level, [one.units + len(samples) - 2 for one in samples])
    return (
        found if limits is None else replace(found, slices=tuple(_clipped(s, limits) for s in found.slices))
    )


def _clipped(one: Pooled, limits: Limits) -> Pooled:
    """The slice with its interval within the limits of the score."""
    low = None if one.low is None else max(one.low, limits[0])
    high = None if one.high is None else min(one.high, limits[1])
    return replace(one, low=low, high=high)
