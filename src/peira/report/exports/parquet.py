"""Parquet with typed columns, written one row group at a time.

A column of one type keeps it (integers beside floats become floats). Columns with nested values or several
types are JSON text, which the field's metadata marks as `peira: json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.results.rows import OLDEST, Spool, columns, flat

GROUP, GROUP_BYTES = 10_000, 32 * 2**20
"""The largest number of rows and of bytes in a row group; one group is in memory at a time."""
ALWAYS = {
    "repeat": "int",
    "attempts": "int",
    "took": "float",
    "queued": "float",
    "reused": "bool",
    "failed_scores": "json",
    "seed": "int",
    "cost": "float",
    "started": "str",
    "ended": "str",
    "observations": "json",
    "failure_cause": "str",
}
"""The types of our own columns, independent of their values."""
OWN = b"peira"


class Parquet:
    """Parquet with one row per trial."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".parquet", ".pq")

    def write(self, results: Results, path: Path) -> None:
        """Write the results, streaming the trials through a temporary file."""
        library()
        with Spool() as spool:
            spool.keep(flat(trial, results.run_id) for trial in results.stream())
            write_table(spool, columns(spool.kinds), path, ALWAYS)

    def owns(self, path: Path) -> bool:
        """Whether the file's schema has our mark and begins with the fixed columns."""
        try:
            found = library("pyarrow.parquet").read_schema(path)
        except library().ArrowInvalid:
            return False
        return OWN in (found.metadata or {}) and found.names[: len(OLDEST)] == list(OLDEST)


def library(name: str = "pyarrow") -> Any:
    """Import pyarrow, or a module of it; raises Invalid if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise Invalid("this needs pyarrow, which is not installed: pip install 'peira[data]'") from None


def write_table(spool: Spool, names: Sequence[str], path: Path, always: dict[str, str]) -> None:
    """Write these columns of the spooled rows, in order; `always` fixes the types of some.

    The other types come from the values seen in the spool. One row group is in memory at a time.
    """
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
    """The type that a column is written as, from the types seen in it."""
    if len(seen) == 1:
        return next(iter(seen))
    return "str" if not seen else "float" if seen == {"int", "float"} else "json"


def _field(arrow: Any, name: str, kind: str) -> Any:
    """The Arrow field of a column."""
    types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64()}
    return arrow.field(
        name, types.get(kind, arrow.string()), metadata={OWN: b"json"} if kind == "json" else None
    )


def _value(value: Json, kind: str) -> Json:
    """A value converted to the column's type."""
    if value is None:
        return None
    return (
        msgspec.json.encode(value).decode() if kind == "json" else float(value) if kind == "float" else value
    )


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "parquet", Parquet)
