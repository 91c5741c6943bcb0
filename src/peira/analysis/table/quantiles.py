"""Medians and other quantiles of a measure, by group, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peira.analysis.compare.sides import grouped
from peira.analysis.table.measures import Observation, measure
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.intervals.quantiles import clustered_quantile
from peira.stats.values import Interval

USUAL = (0.5, 0.9, 0.99)
"""The default quantiles."""


@dataclass(frozen=True)
class QuantileRow:
    """One group with an interval for each requested quantile."""

    label: str
    quantiles: tuple[Interval, ...]
    n: int
    units: int
    lost: int


@dataclass(frozen=True)
class Quantiles(ResultValue):
    """Quantiles of a measure by group."""

    score: str
    by: tuple[str, ...]
    q: tuple[float, ...]
    level: float
    rows: tuple[QuantileRow, ...]
    notes: tuple[str, ...] = ()

    nothing = "No trial has this number: nothing can be said."

    def grids(self) -> list[TextGrid]:
        """One row per group."""
        if not any(row.n for row in self.rows):
            return []
        header = [", ".join(self.by) or "group", *(f"{100 * q:g}% of {self.score}" for q in self.q), "n"]
        rows = [[row.label, *map(_shown, row.quantiles), layout.size(row.n, row.units)] for row in self.rows]
        return [TextGrid(header, rows)]

    @property
    def remarks(self) -> list[str]:
        """The method, the lost trials and the notes; without values, the notes alone."""
        return self._all_notes() if any(row.n for row in self.rows) else list(self.notes)

    def _all_notes(self) -> list[str]:
        """The method, the lost trials and the notes."""
        lines = [f"{100 * self.level:g}% intervals: order statistics; an open end is not bounded by the data"]
        lost = sum(row.lost for row in self.rows)
        lines += [f"not in the quantiles: {lost} lost {'trial' if lost == 1 else 'trials'}"] if lost else []
        return [*lines, *self.notes]

    def document(self) -> dict[str, Any]:
        """The fields with all notes."""
        return {**asdict(self), "notes": self._all_notes()}


def _shown(found: Interval) -> str:
    """A quantile with its interval, as text; "-" marks an unbounded end."""
    if found.value is None:
        return "-"
    low, high = ("-" if end is None else f"{end:.3g}" for end in (found.low, found.high))
    return f"{found.value:.3g} [{low}, {high}]"


def quantiles(
    trials: Iterable[TrialResult],
    score: str = "took",
    by: Sequence[str] = (),
    q: Sequence[float] = USUAL,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Quantiles:
    """Quantiles of a measure by factors; intervals are clustered by case.

    Raises Invalid for quantiles or levels outside (0, 1).
    """
    problems = [f"q: must lie between 0 and 1, not {one!r}" for one in q if not 0 < one < 1]
    problems += [f"level: must lie between 0 and 1, not {level!r}"] if not 0 < level < 1 else []
    if problems:
        raise Invalid(problems)
    measured = measure(trials, score)
    rows = tuple(_row(label, seen, q, level) for label, seen in grouped(measured.observations, by))
    return Quantiles(measured.name, tuple(by), tuple(q), level, rows, tuple(notes))


def _row(label: str, seen: Sequence[Observation], q: Sequence[float], level: float) -> QuantileRow:
    """The quantiles of one group."""
    known = [(one.value, one.trial.unit) for one in seen if one.value is not None]
    if not known:
        return QuantileRow(label, tuple(Interval(None, None, None, 0, "unknown") for _ in q), 0, 0, len(seen))
    values, units = [value for value, _ in known], [unit for _, unit in known]
    found = tuple(clustered_quantile(values, units, each, level) for each in q)
    return QuantileRow(label, found, len(known), len(set(units)), len(seen) - len(known))
