"""Slices, each pulled towards the others as far as its own evidence is weak: small slices do not shout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import msgspec
import numpy as np

from peira.analysis import layout
from peira.analysis.groups import Unit, check_names, key_of, label_of
from peira.analysis.levels import LabelKey, unique
from peira.analysis.measures import Observation, measure
from peira.analysis.trials import TrialResult
from peira.stats.inputs import coded
from peira.stats.robust import spread
from peira.stats.shrinkage import Pooled, pool


@dataclass(frozen=True)
class Slice:
    """One slice: its own mean, and what is left of it when the other slices are heard too."""

    label: str
    mean: float
    pooled: Pooled
    n: int
    units: int


@dataclass(frozen=True)
class Slices:
    """Slices by their pooled means, highest first; `overall` is what they are pulled towards."""

    by: str
    score: str
    level: float
    slices: tuple[Slice, ...]
    overall: float | None = None
    deviation: float | None = None
    notes: tuple[str, ...] = ()

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        header = [layout.cell(self.by), f"{self.score}, pooled [{100 * self.level:g}% interval]"]
        return [*header, "own mean", "own weight", "n"], [_cells(one) for one in self.slices]

    def __str__(self) -> str:
        text = layout.plain(*self._grid()) if self.slices else "No trial has a score: nothing can be said."
        return "\n".join([text, *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), *self.notes])

    def to_json(self) -> str:
        return msgspec.json.encode(asdict(self)).decode()


def _cells(one: Slice) -> list[str]:
    shown = layout.interval(one.pooled.mean, one.pooled.low, one.pooled.high)
    size = f"{one.n} ({one.units} {'case' if one.units == 1 else 'cases'})"
    return [one.label, shown, f"{one.mean:.3g}", f"{one.pooled.weight:.2f}", size]


def slices(
    trials: Iterable[TrialResult],
    by: str = "slice",
    score: str | None = None,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Slices:
    """The means of slices (or of the levels of anything else), partially pooled."""
    measured = measure(trials, score)
    seen = [one for one in measured.observations if one.value is not None]
    factors = {name for one in measured.observations for name in one.trial.condition}
    check_names([by], factors, ())
    groups: dict[LabelKey, list[Observation]] = {}
    for one in seen:
        groups.setdefault(key_of(label_of(one.trial, by)), []).append(one)
    if not groups:
        return Slices(by, measured.name, level, (), notes=tuple(notes))
    labels = unique(layout.cell(label_of(group[0].trial, by)) for group in groups.values())
    told = {label: _sample(group) for label, group in zip(labels, groups.values(), strict=True)}
    found = pool(
        [mean for mean, _, _, _ in told.values()], [error for _, error, _, _ in told.values()], level
    )
    made = [
        Slice(label, mean, pooled, n, units)
        for (label, (mean, _, n, units)), pooled in zip(told.items(), found.slices, strict=True)
    ]
    made.sort(key=lambda one: -one.pooled.mean)
    few = ("fewer than three slices: nothing is pooled",) if len(made) < 3 else ()
    return Slices(by, measured.name, level, tuple(made), found.overall, found.deviation, (*few, *notes))


def _sample(group: Sequence[Observation]) -> tuple[float, float, int, int]:
    """Mean, standard error (0 if unknown), values and units."""
    data = np.array([one.value for one in group], dtype=np.float64)
    labels: list[Unit] = [one.trial.unit for one in group]
    codes, units = coded(labels, len(labels))
    error = spread(data, codes).error if units > 1 else 0.0
    return float(data.mean()), error, len(group), units
