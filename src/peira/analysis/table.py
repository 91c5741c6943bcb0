"""A table of means, as a value: each with its interval, its size, and what failed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from peira.analysis import layout
from peira.core.ids import Json

STATISTICS = (
    *("score", "mean", "low", "high", "n", "cases", "failed", "unscored"),
    *("no_answer", "no_verdict", "method"),
)
COUNTED = {"no answer": "no_answer", "failed": "failed", "no verdict": "no_verdict"}
"""Columns beside the size; that of failures is always there, another where it has something to say."""


@dataclass(frozen=True)
class Row:
    """One score in one group: `n` trials scored, on `cases` cases (or clusters of them).

    `failed` counts the trials that failed and the failed scores of the others; `no_verdict` the scores that
    came to none; `unscored` the trials that did not end, or were not given this score. Together with `n`
    these are all trials of the group. Bounds of None are unknown; `score` is None in a study without scores,
    where n counts the trials that succeeded. `no_answer` counts the outputs in which the transform found
    nothing: they are scored as that.
    """

    labels: tuple[Json, ...]
    score: str | None
    mean: float | None
    low: float | None
    high: float | None
    n: int
    cases: int
    failed: int
    unscored: int
    method: str
    no_answer: int = 0
    no_verdict: int = 0


@dataclass(frozen=True)
class Table:
    """Rows by group and score. It prints as text, and shows as HTML in a notebook."""

    by: tuple[str, ...]
    level: float
    body: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in `rows`; a factor that bears the name of a statistic is "condition.<name>"."""
        return (*(f"condition.{name}" if name in STATISTICS else name for name in self.by), *STATISTICS)

    @property
    def rows(self) -> list[dict[str, Json]]:
        return [
            dict(zip(self.columns, (*row.labels, *(getattr(row, name) for name in STATISTICS)), strict=True))
            for row in self.body
        ]

    def grid(self) -> tuple[list[str], list[list[str]]]:
        """The header, and the cells of each row, as they are shown."""
        scored = any(row.score is not None for row in self.body)
        header = [*map(layout.cell, self.by)]
        header += ["score", f"mean [{100 * self.level:g}% interval]"] if scored else []
        return [*header, "n", *self.counted], [_cells(row, scored, self.counted) for row in self.body]

    @property
    def counted(self) -> list[str]:
        """The counts that stand beside the size: failures, and what else there is any of."""
        return [name for name in COUNTED if name == "failed" or any(count(row, name) for row in self.body)]

    def __str__(self) -> str:
        text = layout.plain(*self.grid()) if self.body else "no trials"
        return "\n".join([text, *self.notes])

    def markdown(self) -> str:
        return "\n".join([layout.markdown(*self.grid()), *(f"\n{note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return layout.as_html(*self.grid(), self.notes)

    def to_json(self) -> str:
        """One document: by, level, columns, rows, notes."""
        names = ("by", "level", "columns", "rows", "notes")
        return msgspec.json.encode({name: getattr(self, name) for name in names}).decode()


def count(row: Row, name: str) -> int:
    """How many of a name in `COUNTED`."""
    found: int = getattr(row, COUNTED[name])
    return found


def _cells(row: Row, scored: bool, counted: Sequence[str]) -> list[str]:
    size = f"{row.n} ({row.cases} {'case' if row.cases == 1 else 'cases'})"
    mean = [layout.cell(row.score), layout.interval(row.mean, row.low, row.high)] if scored else []
    return [*map(layout.cell, row.labels), *mean, size, *(str(count(row, name)) for name in counted)]
