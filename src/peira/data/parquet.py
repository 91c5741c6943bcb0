"""Parquet files, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from peira.errors import Invalid
from peira.spec.rows import Row

BATCH = 1024


def parquet_rows(path: Path) -> Iterator[Row]:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise Invalid(f"{path.name}: Parquet needs pyarrow: pip install 'peira[data]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=BATCH):
                for value in batch.to_pylist():
                    number += 1
                    yield Row(path.name, number, value)
    except (arrow.ArrowException, OSError) as error:
        raise Invalid(f"cannot read {path}: {' '.join(str(error).split())}") from None
