"""Parquet: typed columns, written a row group at a time, for pandas, polars, DuckDB, Spark and R.

A column of one kind has its type (whole numbers beside fractions are fractions). What is nested, or of
several kinds, is JSON text, and the field says so in its metadata: `peira: json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from peira.analysis.export import FIXED, columns, flat
from peira.analysis.exporting import Makes
from peira.analysis.results import Results
from peira.analysis.spool import Spool
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid

GROUP, GROUP_BYTES = 10_000, 32 * 2**20
"""A group has so many rows, or fewer if they are long: one is in memory at a time."""
ALWAYS = {
    "repeat": "int",
    "attempts": "int",
    "took": "float",
    "reused": "bool",
    "failed_scores": "json",
}
"""What our own columns are, whatever is in them; those that are not here hold text, or what the study has."""
OWN = b"peira"


class Parquet:
    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".parquet", ".pq")

    def write(self, results: Results, path: Path) -> None:
        library()
        with Spool() as spool:
            spool.keep(flat(trial, results.run_id) for trial in results.stream())
            write_table(spool, columns(spool.kinds), path, ALWAYS)

    def owns(self, path: Path) -> bool:
        try:
            found = library("pyarrow.parquet").read_schema(path)
        except library().ArrowInvalid:
            return False
        return OWN in (found.metadata or {}) and found.names[: len(FIXED)] == list(FIXED)


def library(name: str = "pyarrow") -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise Invalid("this needs pyarrow, which is not installed: pip install 'peira[data]'") from None


def write_table(spool: Spool, names: Sequence[str], path: Path, always: dict[str, str]) -> None:
    """The columns of these names, in order; `always` says what some are, whatever is in them."""
    arrow, parquet = library(), library("pyarrow.parquet")
    kinds = {name: always.get(name) or one_kind(spool.kinds.get(name, set())) for name in names}
    schema = arrow.schema([_field(arrow, name, kind) for name, kind in kinds.items()], {OWN: b"1"})
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in spool.groups(GROUP, GROUP_BYTES):
            arrays = [
                arrow.array([_value(row.get(name), kind) for row in rows], schema.field(at).type)
                for at, (name, kind) in enumerate(kinds.items())
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def one_kind(seen: set[str]) -> str:
    """The kind that a column is written as."""
    if len(seen) == 1:
        return next(iter(seen))
    return "str" if not seen else "float" if seen == {"int", "float"} else "json"


def _field(arrow: Any, name: str, kind: str) -> Any:
    types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64()}
    return arrow.field(
        name, types.get(kind, arrow.string()), metadata={OWN: b"json"} if kind == "json" else None
    )


def _value(value: Json, kind: str) -> Json:
    if value is None:
        return None
    return (
        msgspec.json.encode(value).decode() if kind == "json" else float(value) if kind == "float" else value
    )


def register(registry: Registry) -> None:
    registry.add("export", "parquet", Parquet)
