"""What of a row is what of a case: fields by name, dotted names into nested ones, and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.templates import Template, is_template
from peira.errors import Invalid
from peira.spec.query import FIELDS, Query
from peira.spec.rows import Row

Field = Callable[[Mapping[str, Json]], Json]


def field(text: str) -> Field:
    """What a mapping names: a template over the row's fields (and the `row`, for names that are no words), or
    one of them."""
    if is_template(text):
        template = Template(text)
        return lambda row: template.render({"row": row, **row})
    return lambda row: found(row, text)


def found(row: Mapping[str, Json], name: str) -> Json:
    """The field of that name; `answers.text.0` goes into tables and lists."""
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


def reader(query: Query) -> Callable[[Row], Row]:
    """From a row of the source to the row of a case, with `input`, `expected` and the rest."""
    if query.folder and not query.mapping:
        return lambda row: row._replace(value={"input": row.value["text"], "id": row.value["path"]})
    if not query.mapping:
        return lambda row: row
    mapped = {name: field(text) for name, text in query.mapping.items()}
    return lambda row: row._replace(value=_table(row, mapped))


def _table(row: Row, mapped: Mapping[str, Field]) -> dict[str, Any]:
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


class Names(Mapping[str, Json]):
    """A row as expressions see it: its fields, dotted names, and what a case keeps under metadata."""

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
