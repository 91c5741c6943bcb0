"""Where rows come from: files, folders of files, Hugging Face data sets, lists. All are read one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from peira.core.ids import Json
from peira.data.hub import hub_rows
from peira.data.parquet import parquet_rows
from peira.errors import Invalid
from peira.spec.files import locate
from peira.spec.query import Query
from peira.spec.rows import Problems, Row, read_rows


def rows_of(
    query: Query, folders: Sequence[Path], problems: Problems, origin: dict[str, Json]
) -> Iterator[Row]:
    """The rows of a query's source, in their order. What is known of the source goes to `origin`."""
    if query.rows is not None:
        origin["rows"] = len(query.rows)
        return (Row("rows", number, value) for number, value in enumerate(query.rows, 1))
    if query.file:
        paths = [locate(name, folders) for name in query.file]
        origin["files"] = [path.name for path in paths]
        return _file_rows(paths, problems, _columns(query))
    if query.folder:
        origin["folder"] = Path(query.folder).name
        return _folder_rows(locate(query.folder, folders), query.pattern, problems)
    return hub_rows(query, origin)


def _columns(query: Query) -> Collection[str]:
    """The columns a table cannot do without; a template shows what it lacks when it is filled in."""
    if not query.mapping:
        return ("input",)
    return [text for text in query.mapping.values() if text.isidentifier()]


def _file_rows(paths: Sequence[Path], problems: Problems, needs: Collection[str]) -> Iterator[Row]:
    for path in paths:
        if path.is_dir():
            raise Invalid(f"{path} is a folder; write folder = ... for the files in it")
        yield from parquet_rows(path) if path.suffix == ".parquet" else read_rows(path, problems, needs)


def _folder_rows(folder: Path, pattern: str, problems: Problems) -> Iterator[Row]:
    """Each file is a row: its `path` in the folder, its `name` and its `text`."""
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
            yield Row(place, 1, {"path": place, "name": path.name, "text": text})


def _shown(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)
