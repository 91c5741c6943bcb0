"""Custom designs: rows given in the study, or read from a CSV or JSON file.

A row has a value for every factor, and optionally `block`, `plot`, `period` and `replicates`. Unknown
columns, missing columns and values that are neither a level nor within the range are all reported, with the
rows they occur in. Equal rows become one run with replicates.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from peira.core.ids import Json
from peira.core.registry import Registry, nearest
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import (
    count_problems,
    equal_levels,
    is_number,
    key,
    label,
    require,
    value_problem,
)
from peira.errors import Invalid
from peira.spec.data_files import shortened
from peira.spec.documents import read_document, read_text

# Reading rows


class DesignRow(NamedTuple):
    """One row of a custom design."""

    where: str
    """The location of the row, for messages."""
    values: dict[str, Json]
    """The values by column."""
    written: bool = False
    """Whether the values are texts still to be matched to levels, as in a CSV file."""


def read(path: Path) -> list[DesignRow]:
    """Read the rows of a CSV file with a header or a JSON list of objects; raises `Invalid`."""
    if path.suffix.lower() == ".csv":
        return _csv(read_text(path), path.name)
    if path.suffix.lower() == ".json":
        return listed(read_document(path), path.name)
    raise Invalid(f"file: {path.name} is neither .csv nor .json")


def listed(rows: object, name: str = "rows") -> list[DesignRow]:
    """Rows given as a list of mappings; raises `Invalid` for anything else."""
    if not isinstance(rows, (list, tuple)) or not rows:
        raise Invalid(f"{name}: must be a list of at least one table of values by factor")
    require(
        f"{name}[{nth}]: must be a table of values by factor, not {row!r}"
        for nth, row in enumerate(rows)
        if not isinstance(row, Mapping)
    )
    return [DesignRow(f"{name}[{nth}]", dict(row)) for nth, row in enumerate(rows)]


def _csv(text: str, name: str) -> list[DesignRow]:
    """Parse CSV text with a header line; raises `Invalid` for duplicate columns and ragged lines."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        lines = [(f"{name}:{reader.line_num}", cells) for cells in reader if any(cells)]
    except csv.Error as error:
        raise Invalid(f"{name}:{reader.line_num}: {error}") from None
    if len(lines) < 2:
        raise Invalid(f"{name}: needs a line with the names of the factors, and at least one line of values")
    header = [column.strip() for column in lines[0][1]]
    require(_duplicate_columns(header, lines[0][0]), _ragged_lines(lines[1:], len(header)))
    return [DesignRow(where, dict(zip(header, cells, strict=True)), True) for where, cells in lines[1:]]


def _duplicate_columns(header: list[str], where: str) -> Iterator[str]:
    for column in sorted({column for column in header if header.count(column) > 1}):
        yield f"{where}: the column {column!r} is there twice"


def _ragged_lines(lines: Iterable[tuple[str, list[str]]], width: int) -> Iterator[str]:
    for where, cells in lines:
        if len(cells) != width:
            yield f"{where}: has {len(cells)} values for {width} columns"


# The design


TEXTS, COUNTS = ("block", "plot"), {"period": 0, "replicates": 1}


class Custom:
    """A design that consists of the given rows, in their order, from `rows` or from a `file`.

    A relative path is resolved against the current directory. In a CSV file a value is matched to the level
    with that text; in JSON it is the value itself.
    """

    name = "custom"

    def __init__(
        self,
        *,
        rows: Sequence[Mapping[str, Json]] | None = None,
        file: str | None = None,
        replicates: int = 1,
    ) -> None:
        require(_source_problems(rows, file), count_problems("replicates", replicates, 1))
        self.rows, self.replicates = (listed(rows) if file is None else read(Path(file))), replicates

    def size(self, space: Space) -> int:
        """The number of distinct rows; raises `Invalid` with every problem of the rows for this space."""
        return len(self._points(space))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The distinct rows as points; raises `Invalid` with every problem of the rows for this space."""
        return iter(self._points(space))

    def _points(self, space: Space) -> list[Point]:
        """The distinct points; raises `Invalid` with every problem of the rows."""
        others = tuple(name for name in (*TEXTS, *COUNTS) if name not in space.names)
        rows = [_with_levels(row, space) for row in self.rows]
        require(shortened([*_column_problems(rows, space, others), *_value_problems(rows, space, others)]))
        found: dict[str, Point] = {}
        for row in rows:
            point = self._point(row, space, others)
            same = key([point.factors, point.block, point.plot, point.period])
            times = point.replicates + (found[same].replicates if same in found else 0)
            found[same] = msgspec.structs.replace(point, replicates=times)
        return list(found.values())

    def _point(self, row: DesignRow, space: Space, others: Sequence[str]) -> Point:
        given = {name: row.values[name] for name in others if name in row.values}
        times = given.pop("replicates", 1) * self.replicates
        return Point({name: row.values[name] for name in space.names}, **given, replicates=times)


def _source_problems(rows: object, file: object) -> Iterator[str]:
    """Problems with the choice of `rows` or `file`."""
    if (rows is None) == (file is None):
        yield "say one of rows and file"
    elif file is not None and not isinstance(file, str):
        yield f"file: must be a path, not {file!r}"


def _with_levels(row: DesignRow, space: Space) -> DesignRow:
    """The row with texts replaced by the levels they match; unmatched values are kept."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    values = {
        name: _level(known[name], value, row.written) if name in known else _extra(name, value, row.written)
        for name, value in row.values.items()
    }
    return row._replace(values=values)


def _level(dimension: Dimension, value: Json, written: bool) -> Json:
    """The level that a value denotes, or the value itself if there is none."""
    number = _number(value) if written else value
    if dimension.ranged:
        return number
    found = _written_levels(dimension, value, number) if written else equal_levels(dimension, value)
    return found[0] if found else value


def _written_levels(dimension: Dimension, text: str, number: Json) -> list[Json]:
    """The levels that match a text: equal text first, then equal numbers."""
    exact = [level for level in dimension.levels if text in (label(level), str(level))]
    return exact + [level for level in dimension.levels if is_number(level) and level == number]


def _extra(name: str, value: Json, written: bool) -> Json:
    return _number(value) if written and name in COUNTS else value


def _number(text: str) -> Json:
    """The number that the text denotes, or the text itself."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _column_problems(rows: Sequence[DesignRow], space: Space, others: Sequence[str]) -> Iterator[str]:
    """Problems with column names, each reported once with the rows concerned."""
    unknown: dict[str, list[str]] = defaultdict(list)
    missing: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for name in row.values.keys() - {*space.names, *others}:
            unknown[name].append(row.where)
        for name in space.names:
            if name not in row.values:
                missing[name].append(row.where)
    for name, places in sorted(unknown.items()):
        yield f"{_location(places)}: no factor {name!r}{nearest(name, [*space.names, *others])}"
    for name, places in missing.items():
        yield f"{_location(places)}: there is no value for {name!r}"


def _value_problems(rows: Sequence[DesignRow], space: Space, others: Sequence[str]) -> Iterator[str]:
    """Problems with the values of factors and of the reserved columns."""
    for row in rows:
        for dimension in space.dimensions:
            if dimension.name in row.values:
                yield from (f"{row.where}: {p}" for p in value_problem(dimension, row.values[dimension.name]))
        for name in others:
            if name in row.values:
                yield from (f"{row.where}: {p}" for p in _reserved_problems(name, row.values[name]))


def _reserved_problems(name: str, value: Json) -> Iterator[str]:
    """Problems with a value of a reserved column."""
    if name in COUNTS:
        yield from count_problems(name, value, COUNTS[name])
    elif not isinstance(value, str):
        yield f"{name}: must be a text, not {value!r}"


def _location(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def register(registry: Registry) -> None:
    """Register the design `custom`."""
    registry.add("design", Custom.name, Custom)
