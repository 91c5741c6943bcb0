"""Case files: JSONL, JSON, CSV, YAML and TOML. Every bad line is named, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from peira.core.ids import Json
from peira.errors import Invalid
from peira.spec.case import Case, as_case
from peira.spec.rows import SHOWN, Problems, Row, read_rows

COLUMNS = ("input", "expected", "id", "cluster", "slice")


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file; Invalid names the lines (or items) that are not cases."""
    problems = Problems()
    cases = tuple(cases_of(read_rows(path, problems, needs=("input",)), problems))
    problems.refuse()
    return cases


def cases_of(rows: Iterable[Row], problems: Problems) -> Iterator[Case]:
    """The cases that rows are as they stand; what is wrong with the others goes to the problems."""
    for row in rows:
        try:
            yield as_case(_plain(row))
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, problem.lstrip(".: "))


def shortened(problems: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(problems) - SHOWN
    return problems if more <= 0 else [*problems[:SHOWN], f"... and {more} more like these"]


def _plain(row: Row) -> Json:
    return _cells(row.value) if row.file.lower().endswith(".csv") else row.value


def _cells(cells: dict[str, str]) -> dict[str, Any]:
    """An empty cell of a column that peira knows means that there is none; `input` may be empty."""
    known = {name: text for name, text in cells.items() if name in COLUMNS and (text or name == "input")}
    other = {name: text for name, text in cells.items() if name not in COLUMNS}
    return {**known, "metadata": other} if other else known
