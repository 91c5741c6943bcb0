"""Outputs recorded elsewhere: tables, and the logs and results of other tools.

Inspect (`.eval`, `.json`), the LM evaluation harness (samples), promptfoo, DeepEval, OpenAI evals and
Langfuse. Tables (those of Weights & Biases and MLflow, too, as `{"columns": ..., "data": ...}`), `.eval` logs
and samples are read one by one, so that files of any size can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.registry import nearest
from peira.data.outputs import deepeval, inspect_log, langfuse, lm_eval, openai_evals, promptfoo, tables
from peira.data.outputs.record import RecordedOutput as RecordedOutput
from peira.data.outputs.record import read_json
from peira.data.sources import parquet_rows
from peira.errors import Invalid
from peira.spec.data_files import DataRow, Problems, read_rows
from peira.spec.query import DATA_FILES

Source = str | Path | Iterable[Mapping[str, Any]]
FIRST_LINE = 1 << 20
"""Bytes of a file that are looked at to tell its format."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


def outputs_of(
    source: Source,
    problems: Problems,
    *,
    fields: Mapping[str, str] = NOTHING,
    factors: Sequence[str] | None = None,
    wide: Mapping[str, Sequence[str]] = NOTHING,
) -> Iterator[RecordedOutput]:
    """The outputs of a file or of rows, in order; unreadable ones are reported to `problems`.

    `fields` maps columns to where they are in a row of a table; `factors` names the facts that are the
    condition, if not all are. `wide` has, for a factor, the columns of a table that each hold the outputs at
    one of its levels.
    """
    if not isinstance(source, str | Path):
        own = (DataRow("rows", number, value) for number, value in enumerate(source, 1))
        yield from tables.outputs(tables.unpivoted(own, wide, problems), problems, fields, factors)
        return
    path = Path(source)
    read = _reader(path, problems)
    if read is not None:
        if fields or wide:
            names = ", ".join((*fields, *wide))
            raise Invalid(f"{path.name}: its fields have names of their own; {names} cannot be said")
        yield from read if factors is None else (_under(one, factors, problems) for one in read)
        return
    rows = (
        parquet_rows(path) if path.suffix == ".parquet" else _tracker_rows(path) or read_rows(path, problems)
    )
    yield from tables.outputs(tables.unpivoted(rows, wide, problems), problems, fields, factors)


def _reader(path: Path, problems: Problems) -> Iterator[RecordedOutput] | None:
    """The outputs of a file of another tool, by its name or its content; None if it is a table.

    Raises `Invalid` if the format is unknown.
    """
    if path.suffix == ".eval":
        return inspect_log.outputs(path, problems)
    if lm_eval.is_samples(path):
        return lm_eval.outputs(path, problems)
    if not path.name.lower().endswith(DATA_FILES):
        raise Invalid(f"{path}: outputs are read from .eval, {', '.join(DATA_FILES)}")
    if not path.is_file():
        return None  # the reader of tables says what is wrong
    try:
        if path.suffix == ".jsonl":
            with path.open("rb") as file:
                first = file.readline(FIRST_LINE)
            return openai_evals.outputs(path, problems) if openai_evals.is_log(first) else None
        if path.suffix != ".json":
            return None
        document = read_json(path.read_bytes())
    except (OSError, Invalid):
        return None  # the reader of tables says what is wrong
    if inspect_log.is_log(document):
        return inspect_log.outputs(path, problems)
    if promptfoo.is_results(document):
        return promptfoo.outputs(path, document, problems)
    if (items := langfuse.items_of(document)) is not None:
        return langfuse.outputs(path, items, problems)
    return deepeval.outputs(path, document, problems) if deepeval.is_results(document) else None


def _tracker_rows(path: Path) -> Iterator[DataRow] | None:
    """The rows of a table that a tracker saved, columns and data apart; None if the file is no such table."""
    if path.suffix != ".json":
        return None
    try:
        document = read_json(path.read_bytes())
    except (OSError, Invalid):
        return None
    columns = document.get("columns") if isinstance(document, Mapping) else None
    data = document.get("data") if isinstance(document, Mapping) else None
    if not isinstance(columns, list) or not isinstance(data, list):
        return None
    names = [str(name) for name in columns]
    return (
        DataRow(path.name, number, dict(zip(names, row, strict=False)) if isinstance(row, list) else row)
        for number, row in enumerate(data, 1)
    )


def _under(one: RecordedOutput, factors: Sequence[str], problems: Problems) -> RecordedOutput:
    """The output with only these of its facts, as its condition."""
    for name in factors:
        if name not in one.facts:
            problems.add(one.file, one.number, f"there is no {name!r}{nearest(name, one.facts)}")
    condition = {name: one.facts[name] for name in factors if name in one.facts}
    return msgspec.structs.replace(one, condition=condition, facts={})
