"""Reads the cases of a data query, in one pass over its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from peira.core.expressions import Expression
from peira.core.ids import Json
from peira.data.fields import RowNames, field, reader
from peira.data.sampling import content, named, sampled, shuffled
from peira.data.sources import rows_of
from peira.errors import ExpressionError, Invalid
from peira.spec.case import Case, gathered
from peira.spec.data_files import DataRow, Problems, cases_of
from peira.spec.query import Loaded, Query


def load(source: Any = None, /, **query: Any) -> tuple[Case, ...]:
    """The cases of a file, folder or list of rows: `load("x.jsonl", input="question", sample=100)`.

    Takes the options of a data query (see `peira.spec.query.Query`) and returns the cases that a study with
    that query has. Raises `Invalid` with every problem.
    """
    if source is not None:
        query[_kind(source)] = source
    return tuple(read(Query(**query), [Path()]).cases)


def _kind(source: Any) -> str:
    """The query option for a source of this type."""
    if isinstance(source, str | Path):
        return "folder" if Path(source).is_dir() else "file"
    return "rows"


def read(query: Query, folders: Sequence[Path]) -> Loaded:
    """The cases of a query and their origin; raises `Invalid` with every problem."""
    problems, origin = Problems(), dict[str, Json]()
    rows = rows_of(query, folders, problems, origin)
    rows = _admitted(_items(rows, query.each, problems) if query.each else rows, query.where, problems)
    chosen = _chosen(rows, query, problems)
    cases = gathered(cases_of(_each(reader(query), chosen, problems), problems))
    problems.refuse()
    if query.where:
        origin["where"] = query.where
    return Loaded(cases=cases, origin={**origin, "cases": len(cases), "digest": content(cases)})


def _items(rows: Iterable[DataRow], name: str, problems: Problems) -> Iterator[DataRow]:
    """One row for every item of the list in a field."""
    for row in rows:
        items = row.value.get(name) if isinstance(row.value, dict) else None
        if not isinstance(items, list):
            problems.add(row.file, row.number, f"each: there is no list {name!r}")
            continue
        for nth, item in enumerate(items):
            yield row._replace(value={**row.value, "item": item, "nth": nth})


def _admitted(rows: Iterable[DataRow], where: str, problems: Problems) -> Iterator[DataRow]:
    """The rows for which the `where` expression is true."""
    if not where:
        yield from rows
        return
    expression = Expression(where)
    for row in rows:
        try:
            if expression.evaluate(RowNames(row.value)):
                yield row
        except ExpressionError as error:
            problems.add(row.file, row.number, f"where: {error.reason}")


def _chosen(rows: Iterator[DataRow], query: Query, problems: Problems) -> Iterable[DataRow]:
    """The rows selected by ids, `first`, `sample` and `shuffle`."""
    if query.ids:
        rows = named(_with_cases(rows, query), query.ids)
    if query.first is not None:
        rows = islice(rows, query.first)
    if query.sample is not None:
        rows = iter(sampled(rows, query.sample, query.seed, _stratum(query.stratify, problems)))
    return shuffled(list(rows), query.seed) if query.shuffle else rows


def _with_cases(rows: Iterable[DataRow], query: Query) -> Iterator[tuple[DataRow, Case]]:
    """Rows with their cases; rows that are not valid cases are skipped."""
    read, nowhere = reader(query), Problems()
    for row in rows:
        for case in cases_of(_each(read, [row], nowhere), nowhere):
            yield row, case


def _stratum(name: str, problems: Problems) -> Callable[[DataRow], Json] | None:
    """The function that returns the stratum of a row; None without stratification."""
    if not name:
        return None
    value = field(name)

    def of(row: DataRow) -> Json:
        try:
            return value(RowNames(row.value))
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, f"stratify: {problem}")
            return None

    return of


def _each(
    make: Callable[[DataRow], DataRow], rows: Iterable[DataRow], problems: Problems
) -> Iterator[DataRow]:
    """Apply `make` to every row; problems are collected."""
    for row in rows:
        try:
            yield make(row)
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, problem)
