"""Rows of a design from a study or a file, each with the place it stands at, to say where a problem is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from peira.core.ids import Json
from peira.design.dimensions import require
from peira.errors import Invalid
from peira.spec.files import read_document, read_text


class Row(NamedTuple):
    """The values of a row by column; `written` if they are texts that stand for values, as in a CSV file."""

    where: str
    values: dict[str, Json]
    written: bool = False


def read(path: Path) -> list[Row]:
    """The rows of a CSV file with a header, or of a JSON list of tables; Invalid with all that is wrong."""
    if path.suffix.lower() == ".csv":
        return _csv(read_text(path), path.name)
    if path.suffix.lower() == ".json":
        return listed(read_document(path), path.name)
    raise Invalid(f"file: {path.name} is neither .csv nor .json")


def listed(rows: object, name: str = "rows") -> list[Row]:
    """Rows given as a list of tables."""
    if not isinstance(rows, (list, tuple)) or not rows:
        raise Invalid(f"{name}: must be a list of at least one table of values by factor")
    require(
        f"{name}[{nth}]: must be a table of values by factor, not {row!r}"
        for nth, row in enumerate(rows)
        if not isinstance(row, Mapping)
    )
    return [Row(f"{name}[{nth}]", dict(row)) for nth, row in enumerate(rows)]


def _csv(text: str, name: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        lines = [(f"{name}:{reader.line_num}", cells) for cells in reader if any(cells)]
    except csv.Error as error:
        raise Invalid(f"{name}:{reader.line_num}: {error}") from None
    if len(lines) < 2:
        raise Invalid(f"{name}: needs a line with the names of the factors, and at least one line of values")
    header = [column.strip() for column in lines[0][1]]
    require(_twice(header, lines[0][0]), _ragged(lines[1:], len(header)))
    return [Row(where, dict(zip(header, cells, strict=True)), True) for where, cells in lines[1:]]


def _twice(header: list[str], where: str) -> Iterator[str]:
    for column in sorted({column for column in header if header.count(column) > 1}):
        yield f"{where}: the column {column!r} is there twice"


def _ragged(lines: Iterable[tuple[str, list[str]]], width: int) -> Iterator[str]:
    for where, cells in lines:
        if len(cells) != width:
            yield f"{where}: has {len(cells)} values for {width} columns"
