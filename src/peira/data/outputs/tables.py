"""Recorded outputs in rows: JSONL, CSV, JSON, YAML, or mappings passed by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peira.core.ids import Json, normalise
from peira.core.registry import nearest
from peira.data.fields import found
from peira.data.outputs.record import ABSENT, RecordedOutput, checked_repeat, metrics_of, seconds_of
from peira.errors import Invalid
from peira.spec.data_files import DataRow, Problems

FILE = "file"
LABELS = ("slice", "cluster", "agent")
TOKENS = ("input_tokens", "output_tokens")
COLUMNS = (
    *("output", "error", "case", "input", "expected", "repeat", "condition", "latency", "cost", "usage"),
    *("metrics", "metadata"),
    *LABELS,
    *TOKENS,
)
"""Column names with a meaning; others are factors."""


def outputs(
    rows: Iterable[DataRow], problems: Problems, fields: Mapping[str, str], factors: Sequence[str] | None
) -> Iterator[RecordedOutput]:
    """The outputs of rows; invalid rows are reported to `problems`.

    `fields` maps columns to where they are in a row, by dotted name.
    """
    read = _reader(fields, factors)
    for row in rows:
        try:
            yield read(row)
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, problem)


def unpivoted(
    rows: Iterable[DataRow], wide: Mapping[str, Sequence[str]], problems: Problems
) -> Iterator[DataRow]:
    """Rows with one output each, from rows with a column of outputs for each level of a factor.

    An empty cell of a CSV file, and null, are no output; a column that a row does not have is a problem.
    """
    if not wide:
        yield from rows
        return
    if len(wide) > 1:
        raise Invalid(f"columns of outputs are the levels of one factor, not of {', '.join(wide)}")
    [(factor, columns)] = wide.items()
    for row in rows:
        if not isinstance(row.value, Mapping):
            yield row
            continue
        shared = {name: value for name, value in row.value.items() if name not in columns}
        for column in columns:
            if column not in row.value:
                hint = nearest(column, map(str, row.value))
                problems.add(row.file, row.number, f"there is no column {column!r}{hint}")
            elif row.value[column] is not None and row.value[column] != "":
                yield row._replace(value={**shared, factor: column, "output": row.value[column]})


def _reader(fields: Mapping[str, str], factors: Sequence[str] | None) -> Callable[[DataRow], RecordedOutput]:
    """The function that converts a row to an output."""
    used = {text.partition(".")[0] for text in fields.values()} | set(fields.values())

    def read(row: DataRow) -> RecordedOutput:
        if not isinstance(row.value, Mapping):
            raise Invalid(f"must be a table of names and values, not {row.value!r}")
        table = {name: value for name, value in row.value.items() if name not in used or name in fields}
        table |= {name: found(row.value, text) for name, text in fields.items()}
        return _recorded(row, table, factors, written=row.file.lower().endswith(".csv"))

    return read


def _recorded(
    row: DataRow, table: dict[str, Any], factors: Sequence[str] | None, written: bool
) -> RecordedOutput:
    """The output of one row; raises `Invalid` without an output or error, or without a case or input."""
    if written:  # an empty cell says that there is none; an output may be empty
        table = {name: value for name, value in table.items() if value != "" or name == "output"}
    error = table.get("error")
    if error is None and "output" not in table:
        raise Invalid(f"there is no output{nearest('output', table)}")
    if table.get("case") is None and "input" not in table:
        raise Invalid(f"there is neither case nor input{nearest('case', table)}")
    usage = {**_table(table, "usage"), **{name: table[name] for name in TOKENS if name in table}}
    return RecordedOutput(
        file=row.file,
        number=row.number,
        output=ABSENT if error is not None else normalise(table["output"], "output"),
        error="" if error is None else str(error) or "failed",
        case=_label("case", table.get("case")),
        input=normalise(table["input"], "input") if "input" in table else ABSENT,
        expected=normalise(table.get("expected"), "expected"),
        metadata=normalise(_table(table, "metadata"), "metadata"),
        condition=_condition({FILE: Path(row.file).stem, **table}, factors),
        repeat=_repeat(table.get("repeat")),
        took=seconds_of(table.get("latency")),
        metrics=metrics_of(_table(table, "metrics"), usage, table.get("cost")),
        written=written,
        slice=_label("slice", table.get("slice")),
        cluster=_label("cluster", table.get("cluster")),
        agent=_label("agent", table.get("agent")) or "",
    )


def _condition(table: Mapping[str, Any], factors: Sequence[str] | None) -> dict[str, Json]:
    """The condition of an output: `condition`, the given factors, or all columns without a meaning."""
    given = _table(table, "condition") if "condition" in table else table
    if factors is not None:
        if missing := [name for name in factors if name not in given]:
            raise Invalid(f"there is no {name!r}{nearest(name, map(str, given))}" for name in missing)
        given = {name: given[name] for name in factors}
    elif given is table:
        given = {name: value for name, value in table.items() if name not in (*COLUMNS, FILE)}
    return {str(name): normalise(value, str(name)) for name, value in given.items()}


def _table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A column that holds a table; empty if missing. Raises `Invalid` for anything else."""
    value = table.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Invalid(f"{name}: must be a table of names and values, not {value!r}")
    return dict(value)


def _label(name: str, value: object) -> str | None:
    """A name as text; raises `Invalid` if it is empty or not a text or integer."""
    if value is None or (isinstance(value, str) and value):
        return value
    if type(value) is int:
        return str(value)
    raise Invalid(f"{name}: must be text that is not empty, not {value!r}")


def _repeat(value: object) -> int | None:
    """The repeat number; None if missing. Raises `Invalid` if it is not a whole number."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if type(value) is not int or value < 0:
        raise Invalid(f"repeat: must be a whole number of 0 or more, not {value!r}")
    return checked_repeat(value)
