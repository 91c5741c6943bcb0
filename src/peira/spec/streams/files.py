"""Streams in files: those a Python file defines, or the tables `[streams.NAME]` of a TOML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peira.errors import Invalid
from peira.spec.documents import read_document
from peira.spec.modules import load_file
from peira.spec.streams.stream import Stream, assemble, chain_problems

TABLE = "streams"


def read_streams(path: Path) -> tuple[Stream, ...]:
    """The streams of a file, in its order; Invalid with every problem, also of what is between them."""
    if path.suffix == ".py":
        streams = tuple(_defined(vars(load_file(path))))
        problems = [] if streams else [f"{path}: it defines no stream; write @stream above a function"]
    else:
        streams, problems = _written(path)
    if found := [*problems, *chain_problems(streams)]:
        raise Invalid(found)
    return streams


def _defined(names: dict[str, Any]) -> Iterator[Stream]:
    """The streams among the values of a module, each once."""
    seen: list[Stream] = []
    for value in names.values():
        if isinstance(value, Stream) and not any(value is one for one in seen):
            seen.append(value)
            yield value


def _written(path: Path) -> tuple[tuple[Stream, ...], list[str]]:
    """The streams of a document, and its problems."""
    document = read_document(path)
    tables = document.get(TABLE) if isinstance(document, dict) else None
    if not isinstance(tables, dict) or not tables:
        return (), [f"{path}: it has no table [{TABLE}.NAME]"]
    streams, problems = list[Stream](), list[str]()
    for name, table in tables.items():
        if not isinstance(table, dict):
            problems.append(f"{TABLE}.{name}: must be a table")
            continue
        try:
            streams.append(assemble({"name": name, **table}, [path.parent, Path()]))
        except Invalid as error:
            problems += [f"{TABLE}.{name}.{problem}" for problem in error.problems]
    return tuple(streams), problems
