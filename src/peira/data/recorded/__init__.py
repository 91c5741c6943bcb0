"""Outputs that were made elsewhere, out of tables, logs of Inspect and sample files of the LM harness.

All are read one by one, so that a file of any size can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.registry import nearest
from peira.data.parquet import parquet_rows
from peira.data.recorded import inspect_log, lm_eval, tables
from peira.data.recorded.value import Recorded as Recorded
from peira.errors import Invalid
from peira.spec.query import DATA_FILES
from peira.spec.rows import Problems, Row, read_rows

Source = str | Path | Iterable[Mapping[str, Any]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def outputs_of(
    source: Source,
    problems: Problems,
    *,
    fields: Mapping[str, str] = NOTHING,
    factors: Sequence[str] | None = None,
) -> Iterator[Recorded]:
    """The outputs of a file (or of rows), in their order. What cannot be read goes to the problems.

    `fields` say where in a row of a table a column is to be found; `factors` name what an output was made
    under, where that is not all that is known of it."""
    if not isinstance(source, str | Path):
        own = (Row("rows", number, value) for number, value in enumerate(source, 1))
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
    """Which of the formats a file has, by its name."""
    if path.suffix == ".eval":
        return "inspect"
    if lm_eval.is_samples(path):
        return "lm_eval"
    if not path.name.lower().endswith(DATA_FILES):
        raise Invalid(f"{path}: outputs are read from .eval, {', '.join(DATA_FILES)}")
    return "rows"


def _under(one: Recorded, factors: Sequence[str], problems: Problems) -> Recorded:
    """The output with these of its facts, and no others, as its condition."""
    for name in factors:
        if name not in one.facts:
            problems.add(one.file, one.number, f"there is no {name!r}{nearest(name, one.facts)}")
    condition = {name: one.facts[name] for name in factors if name in one.facts}
    return msgspec.structs.replace(one, condition=condition, facts={})
