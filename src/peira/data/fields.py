"""Mapping from fields of a row to fields of a case: names, dotted names and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from peira.core.chat.templates import Template, is_template
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.data_files import DataRow
from peira.spec.query import FIELDS, Query

Field = Callable[[Mapping[str, Json]], Json]
"""Returns a value of a row."""


def field(text: str) -> Field:
    """The function for a mapping: a template over the row's fields (and `row`), or a field name."""
    if is_template(text):
        template = Template(text)
        return lambda row: template.render({"row": row, **row})
    return lambda row: found(row, text)


def found(row: Mapping[str, Json], name: str) -> Json:
    """The value of a field; a dotted name such as `answers.text.0` goes into tables and lists.

    Raises `Invalid` if there is no such field.
    """
    if name in row:
        return row[name]
    value: Json = row
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Invalid(f"there is no field {name!r}{nearest(name, map(str, row))}")
    return value


def reader(query: Query) -> Callable[[DataRow], DataRow]:
    """The function that maps a row of the source to the row of a case, with `input`, `expected` etc."""
    if query.folder and not query.mapping:
        return lambda row: row._replace(value={"input": row.value["text"], "id": row.value["path"]})
    if not query.mapping:
        return lambda row: row
    mapped = {name: field(text) for name, text in query.mapping.items()}
    return lambda row: row._replace(value=_table(row, mapped))


def _table(row: DataRow, mapped: Mapping[str, Field]) -> dict[str, Any]:
    """The mapped fields of a row; raises `Invalid` with every missing field."""
    if not isinstance(row.value, Mapping):
        raise Invalid(f"must be a table of names and values, not {row.value!r}")
    problems: list[str] = []
    table: dict[str, Any] = {name: row.value[name] for name in FIELDS if name in row.value}
    metadata: dict[str, Json] = {}
    for name, read in mapped.items():
        part, _, inner = name.partition(".")
        try:
            (metadata if inner else table)[inner or part] = read(row.value)
        except Invalid as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    if problems:
        raise Invalid(problems)
    if row.file.lower().endswith(".csv"):  # an empty cell says that there is none
        table = {name: value for name, value in table.items() if value != "" or name == "input"}
    return {**table, "metadata": metadata} if metadata else table


class RowNames(Mapping[str, Json]):
    """A row as seen by expressions: its fields, dotted names, and the fields of its metadata."""

    def __init__(self, value: Json) -> None:
        self._row = value if isinstance(value, Mapping) else _pair(value)

    def __getitem__(self, name: str) -> Json:
        try:
            return found(self._row, name)
        except Invalid:
            inner = self._row.get("metadata")
            if isinstance(inner, Mapping) and name in inner:
                return inner[name]
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)


def _pair(value: Json) -> dict[str, Json]:
    if isinstance(value, list | tuple) and len(value) == 2:
        return {"input": value[0], "expected": value[1]}
    return {"input": value}
