"""The table of means and its columns; the query and cache protocol for tables of large runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

from peira.core.ids import Json
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.stats.values import remark_of


@dataclass(frozen=True)
class TableRow:
    """One score in one group: `n` scored trials on `cases` cases (or clusters).

    `failed` counts failed trials and failed scores; `exhausted`, `cancelled` and `in_doubt` trials that ended
    so; `no_verdict` scores without a verdict; `unscored` trials that were not begun, have not ended, or were
    not given this score. Together with `n` these are all trials of the group. Bounds
    of None are unknown. `score` is None in a study without scores, where `n` counts succeeded trials.
    `no_answer` counts outputs in which the transform found no answer, `refused` trials in which a model
    refused; these are scored as any.
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
    exhausted: int = 0
    cancelled: int = 0
    in_doubt: int = 0
    refused: int = 0


@dataclass(frozen=True)
class ColumnView:
    """How a column is displayed: heading and cell text; `{level}` is the confidence level."""

    heading: str
    cell: Callable[[TableRow], str]


@dataclass(frozen=True)
class Column:
    """A statistic; `name` is the field of `TableRow` and its name in rows, JSON and exports.

    `text` is its view in text, Markdown and notebooks, `report` that in reports; None if it is not shown
    there, or is part of another column. Columns are ordered by `place` and shown only if some row `needs`
    them. Columns that are `tracked` are sent to experiment trackers.
    """

    name: str
    text: ColumnView | None = None
    report: ColumnView | None = None
    place: int = 0
    needs: Callable[[TableRow], bool] = lambda row: True
    tracked: bool = False


def _scored(row: TableRow) -> bool:
    """Whether the row has a score."""
    return row.score is not None


def _mean(row: TableRow) -> str:
    """The mean with its interval as text, marked if the interval may be too narrow."""
    return f"{layout.interval(row.mean, row.low, row.high)}{remark_of(row.method)}"


def _count(name: str, heading: str, place: int, always: bool = False) -> Column:
    """A column for a count, shown if it is positive somewhere.

    One that is `always` shown is also tracked.
    """
    count = attrgetter(name)
    views = (
        ColumnView(heading, lambda row: str(count(row))),
        ColumnView(heading, lambda row: f"{count(row):,}"),
    )
    return Column(name, *views, place, lambda row: always or count(row) > 0, always)


COLUMNS = (
    Column("score", ColumnView("score", lambda row: layout.cell(row.score)), needs=_scored),
    Column(
        "mean",
        ColumnView("mean [{level}% interval]", _mean),
        ColumnView("mean [{level}% interval]", _mean),
        place=1,
        needs=_scored,
        tracked=True,
    ),
    Column("low", tracked=True),
    Column("high", tracked=True),
    Column(
        "n",
        ColumnView("n", lambda row: layout.size(row.n, row.cases)),
        ColumnView("trials", lambda row: f"{row.n:,}"),
        place=2,
        tracked=True,
    ),
    Column("cases", report=ColumnView("cases", lambda row: f"{row.cases:,}"), place=3, tracked=True),
    _count("failed", "failed", place=5, always=True),
    Column("unscored", tracked=True),
    _count("no_answer", "no answer", place=4),
    _count("no_verdict", "no verdict", place=6),
    _count("exhausted", "exhausted", place=7),
    _count("cancelled", "cancelled", place=8),
    _count("in_doubt", "in doubt", place=9),
    _count("refused", "refused", place=10),
    Column("method"),
)
"""All columns; rows, JSON, exports and trackers derive from this list."""
STATISTICS = tuple(column.name for column in COLUMNS)
"""The names of all columns."""
TRACKED = tuple(column.name for column in COLUMNS if column.tracked)
"""The names of the columns that experiment trackers get."""


@dataclass(frozen=True)
class Table(ResultValue):
    """Rows by group and score; prints as text, and as HTML in notebooks."""

    by: tuple[str, ...]
    level: float
    body: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    case_labels: dict[str, str] = field(default_factory=dict)
    """How cases are displayed, by id, in a table by case."""

    nothing = "no trials"

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of `rows`; a factor with the name of a statistic becomes "condition.<name>"."""
        return (*(f"condition.{name}" if name in STATISTICS else name for name in self.by), *STATISTICS)

    @property
    def rows(self) -> list[dict[str, Json]]:
        """One dict per row, keyed by `columns`."""
        return [
            dict(zip(self.columns, (*row.labels, *(getattr(row, name) for name in STATISTICS)), strict=True))
            for row in self.body
        ]

    def grids(self) -> list[TextGrid]:
        """The table, if it has rows."""
        return [self.grid()] if self.body else []

    def grid(self) -> TextGrid:
        """The header and cells as displayed in text, Markdown and notebooks."""
        return self._grid([column.text for column in self._shown() if column.text])

    def report_grid(self) -> TextGrid:
        """The header and cells for a report, where trials and cases are separate columns."""
        return self._grid([column.report for column in self._shown() if column.report])

    def _shown(self) -> list[Column]:
        """The columns that some row needs, in order of `place`."""
        needed = [column for column in COLUMNS if any(map(column.needs, self.body))]
        return sorted(needed, key=attrgetter("place"))

    def _grid(self, views: list[ColumnView]) -> TextGrid:
        """The header and cells of these column views."""
        level = f"{100 * self.level:g}"
        header = [*map(layout.cell, self.by), *(view.heading.format(level=level) for view in views)]
        rows = [[*self._labels(row), *(view.cell(row) for view in views)] for row in self.body]
        return TextGrid(header, rows)

    def _labels(self, row: TableRow) -> list[str]:
        """The labels of a row as displayed."""
        named = zip(self.by, row.labels, strict=True)
        return [
            layout.cell(self.case_labels.get(str(label), label) if name == "case" else label)
            for name, label in named
        ]

    def document(self) -> dict[str, Any]:
        """The JSON document: by, level, columns, rows, notes."""
        return {name: getattr(self, name) for name in ("by", "level", "columns", "rows", "notes")}


@dataclass(frozen=True)
class TableWithDrift:
    """A table without the notes about the whole run, and the drift notes of its anchors."""

    table: Table
    drift: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableQuery:
    """The arguments that identify a table of a run."""

    by: tuple[str, ...]
    score: str | None
    level: float
    interval: str = ""
    across: str = ""


class CachedTables(Protocol):
    """The protocol of a cache of tables."""

    def table(self, asked: TableQuery, make: Callable[[], TableWithDrift]) -> TableWithDrift:
        """The cached table if its inputs cannot have changed since, else the result of `make`."""
        ...
