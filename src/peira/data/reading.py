"""From a query to its cases, in one pass: rows that are not wanted are let go as they are met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from peira.core.expressions import Expression, ExpressionError
from peira.core.ids import Json
from peira.data.fields import Names, field, reader
from peira.data.sampling import content, named, sampled, shuffled
from peira.data.sources import rows_of
from peira.errors import Invalid
from peira.spec.case import Case
from peira.spec.query import Loaded, Query
from peira.spec.rows import Problems, Row
from peira.spec.tables import cases_of


def load(source: Any = None, /, **query: Any) -> tuple[Case, ...]:
    """The cases of a file, a folder, or a list of rows: `load("x.jsonl", input="question", sample=100)`.

    Takes what a data query takes (see `peira.spec.query.Query`), and gives the cases that a study with that
    query has. Every problem is raised at once, as Invalid.
    """
    if source is not None:
        query[_kind(source)] = source
    return read(Query(**query), [Path()]).cases


def _kind(source: Any) -> str:
    if isinstance(source, str | Path):
        return "folder" if Path(source).is_dir() else "file"
    return "rows"


def read(query: Query, folders: Sequence[Path]) -> Loaded:
    """The cases that a query asks for, all of them or none, and where they came from."""
    problems, origin = Problems(), dict[str, Json]()
    rows = rows_of(query, folders, problems, origin)
    rows = _admitted(_items(rows, query.each, problems) if query.each else rows, query.where, problems)
    chosen = _chosen(rows, query, problems)
    cases = tuple(cases_of(_each(reader(query), chosen, problems), problems))
    problems.refuse()
    if query.where:
        origin["where"] = query.where
    return Loaded(cases=cases, origin={**origin, "cases": len(cases), "digest": content(cases)})


def _items(rows: Iterable[Row], name: str, problems: Problems) -> Iterator[Row]:
    """A row for every item of a list that rows hold."""
    for row in rows:
        items = row.value.get(name) if isinstance(row.value, dict) else None
        if not isinstance(items, list):
            problems.add(row.file, row.number, f"each: there is no list {name!r}")
            continue
        for nth, item in enumerate(items):
            yield row._replace(value={**row.value, "item": item, "nth": nth})


def _admitted(rows: Iterable[Row], where: str, problems: Problems) -> Iterator[Row]:
    if not where:
        yield from rows
        return
    expression = Expression(where)
    for row in rows:
        try:
            if expression.evaluate(Names(row.value)):
                yield row
        except ExpressionError as error:
            problems.add(row.file, row.number, f"where: {error.reason}")


def _chosen(rows: Iterator[Row], query: Query, problems: Problems) -> Iterable[Row]:
    if query.ids:
        rows = named(_with_cases(rows, query), query.ids)
    if query.first is not None:
        rows = islice(rows, query.first)
    if query.sample is not None:
        rows = iter(sampled(rows, query.sample, query.seed, _stratum(query.stratify, problems)))
    return shuffled(list(rows), query.seed) if query.shuffle else rows


def _with_cases(rows: Iterable[Row], query: Query) -> Iterator[tuple[Row, Case]]:
    """Rows and their cases; what is no case has no id to be asked for by."""
    read, nowhere = reader(query), Problems()
    for row in rows:
        for case in cases_of(_each(read, [row], nowhere), nowhere):
            yield row, case


def _stratum(name: str, problems: Problems) -> Callable[[Row], Json] | None:
    if not name:
        return None
    value = field(name)

    def of(row: Row) -> Json:
        try:
            return value(Names(row.value))
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, f"stratify: {problem}")
            return None

    return of


def _each(make: Callable[[Row], Row], rows: Iterable[Row], problems: Problems) -> Iterator[Row]:
    for row in rows:
        try:
            yield make(row)
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, problem)
