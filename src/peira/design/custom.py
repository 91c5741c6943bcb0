"""A design that people bring: rows in the study, or a CSV or JSON file.

A row has a value for every factor, and may say its `block`, `plot`, `period` and `replicates`. Nothing is
made up and nothing dropped: unknown and missing columns, and values that are no level and in no range,
are all told with the rows they are in. Equal rows are one run, replicated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from peira.core.ids import Json
from peira.core.registry import Registry, nearest
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import counted, is_number, key, label, require
from peira.design.membership import equal_levels, misplaced
from peira.design.tables import Row, listed, read
from peira.spec.tables import shortened

TEXTS, COUNTS = ("block", "plot"), {"period": 0, "replicates": 1}


class Custom:
    """The rows given, in their order: `rows` as a list of tables, or the `file` that has them.

    The path is taken from where the command is run. In a CSV file a value is matched with the level that
    is written so; in JSON it is the value itself.
    """

    name = "custom"

    def __init__(
        self,
        *,
        rows: Sequence[Mapping[str, Json]] | None = None,
        file: str | None = None,
        replicates: int = 1,
    ) -> None:
        require(_given(rows, file), counted("replicates", replicates, 1))
        self.rows, self.replicates = (listed(rows) if file is None else read(Path(file))), replicates

    def size(self, space: Space) -> int:
        return len(self._points(space))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        return iter(self._points(space))

    def _points(self, space: Space) -> list[Point]:
        others = tuple(name for name in (*TEXTS, *COUNTS) if name not in space.names)
        rows = [_settled(row, space) for row in self.rows]
        require(shortened([*_columns(rows, space, others), *_cells(rows, space, others)]))
        found: dict[str, Point] = {}
        for row in rows:
            point = self._point(row, space, others)
            same = key([point.factors, point.block, point.plot, point.period])
            times = point.replicates + (found[same].replicates if same in found else 0)
            found[same] = msgspec.structs.replace(point, replicates=times)
        return list(found.values())

    def _point(self, row: Row, space: Space, others: Sequence[str]) -> Point:
        said = {name: row.values[name] for name in others if name in row.values}
        times = said.pop("replicates", 1) * self.replicates
        return Point({name: row.values[name] for name in space.names}, **said, replicates=times)


def _given(rows: object, file: object) -> Iterator[str]:
    if (rows is None) == (file is None):
        yield "say one of rows and file"
    elif file is not None and not isinstance(file, str):
        yield f"file: must be a path, not {file!r}"


def _settled(row: Row, space: Space) -> Row:
    """The row with the levels that its values stand for; what stands for none is left as it is."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    values = {
        name: _level(known[name], value, row.written) if name in known else _extra(name, value, row.written)
        for name, value in row.values.items()
    }
    return row._replace(values=values)


def _level(dimension: Dimension, value: Json, written: bool) -> Json:
    number = _number(value) if written else value
    if dimension.ranged:
        return number
    found = _written_levels(dimension, value, number) if written else equal_levels(dimension, value)
    return found[0] if found else value


def _written_levels(dimension: Dimension, text: str, number: Json) -> list[Json]:
    """The levels that may be written so; the exact text first."""
    exact = [level for level in dimension.levels if text in (label(level), str(level))]
    return exact + [level for level in dimension.levels if is_number(level) and level == number]


def _extra(name: str, value: Json, written: bool) -> Json:
    return _number(value) if written and name in COUNTS else value


def _number(text: str) -> Json:
    """The number that is written; the text itself if none is."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _columns(rows: Sequence[Row], space: Space, others: Sequence[str]) -> Iterator[str]:
    """What is wrong with the names of columns, each told once."""
    unknown: dict[str, list[str]] = defaultdict(list)
    missing: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for name in row.values.keys() - {*space.names, *others}:
            unknown[name].append(row.where)
        for name in space.names:
            if name not in row.values:
                missing[name].append(row.where)
    for name, places in sorted(unknown.items()):
        yield f"{_some(places)}: no factor {name!r}{nearest(name, [*space.names, *others])}"
    for name, places in missing.items():
        yield f"{_some(places)}: there is no value for {name!r}"


def _cells(rows: Sequence[Row], space: Space, others: Sequence[str]) -> Iterator[str]:
    for row in rows:
        for dimension in space.dimensions:
            if dimension.name in row.values:
                yield from (f"{row.where}: {p}" for p in misplaced(dimension, row.values[dimension.name]))
        for name in others:
            if name in row.values:
                yield from (f"{row.where}: {p}" for p in _misfit(name, row.values[name]))


def _misfit(name: str, value: Json) -> Iterator[str]:
    if name in COUNTS:
        yield from counted(name, value, COUNTS[name])
    elif not isinstance(value, str):
        yield f"{name}: must be a text, not {value!r}"


def _some(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def register(registry: Registry) -> None:
    registry.add("design", Custom.name, Custom)
