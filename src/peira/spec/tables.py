"""Case files: JSONL, JSON, CSV, YAML and TOML. Every bad line is named, all at once."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from peira.errors import Invalid
from peira.spec.case import Case, as_cases
from peira.spec.files import read_document, read_text

COLUMNS = ("input", "expected", "id", "cluster", "slice")
SHOWN = 50
_decode = msgspec.json.Decoder().decode
_Rows = list[tuple[int, Any]]


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file; Invalid names the lines (or items) that are not cases."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise Invalid(f"{path.name} is no case file; use one of {', '.join(_READERS)}")
    rows, problems = read(path)
    numbers = [number for number, _ in rows]
    cases, bad = as_cases((value for _, value in rows), lambda i: f"{path.name}:{numbers[i]}")
    problems += [_spaced(problem, path) for problem in bad]
    if problems:
        raise Invalid(shortened(sorted(problems, key=lambda p: int(p[len(path.name) + 1 :].split(":")[0]))))
    return cases


def _spaced(problem: str, path: Path) -> str:
    """`file:3.input: ...` as `file:3: input: ...`."""
    start = len(path.name) + 1
    number = problem[start:].split(".")[0].split(":")[0]
    head, rest = problem[: start + len(number)], problem[start + len(number) :]
    return f"{head}: {rest.lstrip('.: ')}"


def shortened(problems: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(problems) - SHOWN
    return problems if more <= 0 else [*problems[:SHOWN], f"... and {more} more like these"]


def _jsonl(path: Path) -> tuple[_Rows, list[str]]:
    rows: _Rows = []
    problems: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line and not line.isspace():
            try:
                rows.append((number, _decode(line)))
            except msgspec.DecodeError as error:
                problems.append(f"{path.name}:{number}: {error}")
    return rows, problems


def _csv(path: Path) -> tuple[_Rows, list[str]]:
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    lines = _lines(reader, path)
    _, header = next(lines, (1, []))
    problems = [
        f"{path.name}:1: the column {name!r} is there twice" for name in header if header.count(name) > 1
    ]
    if "input" not in header:
        problems.append(f"{path.name}:1: there is no column 'input'")
    if problems:
        raise Invalid(dict.fromkeys(problems))
    rows: _Rows = []
    for number, cells in lines:
        if cells and len(cells) != len(header):
            problems.append(f"{path.name}:{number}: {len(cells)} cells under {len(header)} columns")
        elif cells:
            rows.append((number, _row(dict(zip(header, cells, strict=True)))))
    return rows, problems


def _lines(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Invalid(f"{path.name}:{number}: {error}") from None


def _row(cells: dict[str, str]) -> dict[str, Any]:
    """An empty cell of a column that peira knows means that there is none; `input` may be empty."""
    known = {name: text for name, text in cells.items() if name in COLUMNS and (text or name == "input")}
    other = {name: text for name, text in cells.items() if name not in COLUMNS}
    return {**known, "metadata": other} if other else known


def _document(path: Path) -> tuple[_Rows, list[str]]:
    found = read_document(path)
    if isinstance(found, dict) and set(found) == {"cases"}:
        found = found["cases"]
    if not isinstance(found, list):
        raise Invalid(f"{path.name} must hold a list of cases (or only the key `cases`, with that list)")
    return list(enumerate(found, 1)), []


_READERS: dict[str, Callable[[Path], tuple[_Rows, list[str]]]] = {
    ".jsonl": _jsonl,
    ".json": _document,
    ".csv": _csv,
    ".yaml": _document,
    ".yml": _document,
    ".toml": _document,
}
