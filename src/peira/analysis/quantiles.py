"""Medians and other quantiles of what has a long tail, such as the seconds a trial took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.analysis.grouped import grouped
from peira.analysis.measures import Observation, measure
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats.quantiles import clustered_quantile
from peira.stats.values import Interval

USUAL = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Row:
    """One group: a quantile for each that was asked for."""

    label: str
    quantiles: tuple[Interval, ...]
    n: int
    units: int
    lost: int


@dataclass(frozen=True)
class Quantiles:
    score: str
    by: tuple[str, ...]
    q: tuple[float, ...]
    level: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        titles = [f"{100 * q:g}% of {self.score}" for q in self.q]
        return [", ".join(self.by) or "group", *titles, "n"], [
            [row.label, *map(_shown, row.quantiles), f"{row.n} ({row.units} {_cases(row.units)})"]
            for row in self.rows
        ]

    @property
    def remarks(self) -> list[str]:
        said = [f"{100 * self.level:g}% intervals: order statistics; an open end is not bounded by the data"]
        lost = sum(row.lost for row in self.rows)
        said += [f"not in the quantiles: {lost} lost {'trial' if lost == 1 else 'trials'}"] if lost else []
        return [*said, *self.notes]

    def __str__(self) -> str:
        if not any(row.n for row in self.rows):
            return "\n".join(["No trial has this number: nothing can be said.", *self.notes])
        return "\n".join([layout.plain(*self._grid()), *self.remarks])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), *self.remarks])

    def to_json(self) -> str:
        return msgspec.json.encode({**asdict(self), "notes": self.remarks}).decode()


def _cases(n: int) -> str:
    return "case" if n == 1 else "cases"


def _shown(found: Interval) -> str:
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
    """Quantiles of a number of each trial, by factors; repeats of a case are not taken for cases."""
    problems = [f"q: must lie between 0 and 1, not {one!r}" for one in q if not 0 < one < 1]
    problems += [f"level: must lie between 0 and 1, not {level!r}"] if not 0 < level < 1 else []
    if problems:
        raise Invalid(problems)
    measured = measure(trials, score)
    rows = tuple(_row(label, seen, q, level) for label, seen in grouped(measured.observations, by))
    return Quantiles(measured.name, tuple(by), tuple(q), level, rows, tuple(notes))


def _row(label: str, seen: Sequence[Observation], q: Sequence[float], level: float) -> Row:
    known = [(one.value, one.trial.unit) for one in seen if one.value is not None]
    if not known:
        return Row(label, tuple(Interval(None, None, None, 0, "unknown") for _ in q), 0, 0, len(seen))
    values, units = [value for value, _ in known], [unit for _, unit in known]
    found = tuple(clustered_quantile(values, units, each, level) for each in q)
    return Row(label, found, len(known), len(set(units)), len(seen) - len(known))
