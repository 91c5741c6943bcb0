"""Sources of rows: files, folders, Parquet files, Hugging Face data sets, lists; all read row by row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from peira.core.files import check_source
from peira.core.ids import Json
from peira.errors import Invalid
from peira.spec.data_files import DataRow, Problems, read_rows
from peira.spec.documents import locate
from peira.spec.query import Query

BATCH = 1024
"""Number of Parquet rows read at a time."""


def parquet_rows(path: Path) -> Iterator[DataRow]:
    """The rows of a Parquet file; raises `Invalid` without pyarrow or for an unreadable file."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise Invalid(f"{path.name}: Parquet needs pyarrow: pip install 'peira[data]'") from None
    check_source(path)
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=BATCH):
                for value in batch.to_pylist():
                    number += 1
                    yield DataRow(path.name, number, value)
    except (arrow.ArrowException, OSError) as error:
        raise Invalid(f"cannot read {path}: {' '.join(str(error).split())}") from None


COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_rows(query: Query, origin: dict[str, Json]) -> Iterator[DataRow]:
    """The rows of a split of a Hugging Face data set; the revision is resolved to its commit first.

    Raises `Invalid` if the data set cannot be loaded.
    """
    try:
        datasets, hub = import_module("datasets"), import_module("huggingface_hub")
    except ImportError:
        raise Invalid(f"{query.dataset}: needs the package datasets; {instead(query)}") from None
    name, config = query.dataset, query.config or None
    try:
        revision = _commit(hub, name, query.revision)
        loaded = datasets.load_dataset(name, config, split=query.split, revision=revision)
    except Exception as error:  # whatever the hub, the network or the package says
        message = " ".join(str(error).split())[:300]
        raise Invalid(
            f"{name}: cannot be had ({type(error).__name__}: {message}); {instead(query)}"
        ) from None
    origin |= {"dataset": name, "config": query.config, "split": query.split, "revision": revision}
    return (DataRow(name, number, value) for number, value in enumerate(loaded, 1))


def _commit(hub: Any, name: str, revision: str) -> str:
    """The commit of a revision."""
    if COMMIT.fullmatch(revision):
        return revision
    return str(hub.HfApi().dataset_info(name, revision=revision or None).sha)


def instead(query: Query) -> str:
    """What to do if the data set cannot be loaded, as text."""
    where = f"https://huggingface.co/datasets/{query.dataset}"
    part = f"split {query.split}" + (f" of {query.config}" if query.config else "")
    return (
        f"pip install 'peira[hub]' and be online, or get a copy of {part} from {where} and give it "
        "as a file or folder (--data PATH)"
    )


def rows_of(
    query: Query, folders: Sequence[Path], problems: Problems, origin: dict[str, Json]
) -> Iterator[DataRow]:
    """The rows of a query's source, in order; a description of the source is added to `origin`."""
    if query.rows is not None:
        origin["rows"] = len(query.rows)
        return (DataRow("rows", number, value) for number, value in enumerate(query.rows, 1))
    if query.file:
        paths = [locate(name, folders) for name in query.file]
        origin["files"] = [path.name for path in paths]
        return _file_rows(paths, problems, _columns(query))
    if query.folder:
        origin["folder"] = Path(query.folder).name
        return _folder_rows(locate(query.folder, folders), query.pattern, problems)
    return hub_rows(query, origin)


def _columns(query: Query) -> Collection[str]:
    """The columns that a table must have; fields used by templates are checked later."""
    if not query.mapping:
        return ("input",)
    return [text for text in query.mapping.values() if text.isidentifier()]


def _file_rows(paths: Sequence[Path], problems: Problems, needs: Collection[str]) -> Iterator[DataRow]:
    """The rows of the files, one file after another."""
    for path in paths:
        if path.is_dir():
            raise Invalid(f"{path} is a folder; write folder = ... for the files in it")
        yield from parquet_rows(path) if path.suffix == ".parquet" else read_rows(path, problems, needs)


def _folder_rows(folder: Path, pattern: str, problems: Problems) -> Iterator[DataRow]:
    """One row for each file: its `path` in the folder, its `name` and its `text`."""
    if not folder.is_dir():
        raise Invalid(f"{folder} is no folder")
    found = sorted(path for path in folder.glob(pattern) if path.is_file() and _shown(path, folder))
    if not found:
        raise Invalid(f"no file in {folder} is like {pattern!r}")
    for path in found:
        place = path.relative_to(folder).as_posix()
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            problems.add(place, 1, f"is not UTF-8 (at byte {error.start})")
        else:
            yield DataRow(place, 1, {"path": place, "name": path.name, "text": text})


def _shown(path: Path, folder: Path) -> bool:
    """Whether no part of the path is hidden."""
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)
