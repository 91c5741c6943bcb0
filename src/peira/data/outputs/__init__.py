"""Outputs recorded elsewhere: tables, Inspect logs and sample files of the LM evaluation harness.

All are read one by one, so that files of any size can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.registry import nearest
from peira.data.outputs import inspect_log, lm_eval, tables
from peira.data.outputs.record import RecordedOutput as RecordedOutput
from peira.data.sources import parquet_rows
from peira.errors import Invalid
from peira.spec.data_files import DataRow, Problems, read_rows
from peira.spec.query import DATA_FILES

Source = str | Path | Iterable[Mapping[str, Any]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def outputs_of(
    source: Source,
    problems: Problems,
    *,
    fields: Mapping[str, str] = NOTHING,
    factors: Sequence[str] | None = None,
) -> Iterator[RecordedOutput]:
    """The outputs of a file or of rows, in order; unreadable ones are reported to `problems`.

    `fields` maps columns to where they are in a row of a table; `factors` names the facts that are the
    condition, if not all are.
    """
    if not isinstance(source, str | Path):
        own = (DataRow("rows", number, value) for number, value in enumerate(source, 1))
        yield from tables.outputs(own, problems, fields, factors)
        return
    path = Path(source)
    kind = kind_of(path)
    if kind != "rows":
        if fields:
            raise Invalid(
                f"{path.name}: its fields have names of their own; {', '.join(fields)} cannot be said"
            )
        found = inspect_log.outputs(path, problems) if kind == "inspect" else lm_eval.outputs(path, problems)
        yield from found if factors is None else (_under(one, factors, problems) for one in found)
        return
    rows = parquet_rows(path) if path.suffix == ".parquet" else read_rows(path, problems)
    yield from tables.outputs(rows, problems, fields, factors)


def kind_of(path: Path) -> str:
    """The format of a file, by its name; raises `Invalid` if it is unknown."""
    if path.suffix == ".eval":
        return "inspect"
    if lm_eval.is_samples(path):
        return "lm_eval"
    if not path.name.lower().endswith(DATA_FILES):
        raise Invalid(f"{path}: outputs are read from .eval, {', '.join(DATA_FILES)}")
    return "rows"


def _under(one: RecordedOutput, factors: Sequence[str], problems: Problems) -> RecordedOutput:
    """The output with only these of its facts, as its condition."""
    for name in factors:
        if name not in one.facts:
            problems.add(one.file, one.number, f"there is no {name!r}{nearest(name, one.facts)}")
    condition = {name: one.facts[name] for name in factors if name in one.facts}
    return msgspec.structs.replace(one, condition=condition, facts={})
