"""Tables of large runs, remembered beside the store, so that looking again is quick.

A million trials take most of a minute to read, and their table is a few hundred bytes. It is kept with a
mark of all that it depends on: how far the log of every run in the store has come (any run may retry a trial
or a score of another, or discard an answer), and which code made it. If the mark is another one now, it is
made again. The folder may be deleted at any time; where it cannot be written, nothing is remembered.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from peira.analysis.remembering import Asked, Tabled
from peira.api.stores import AnyStore, beside, reading
from peira.core.contracts import RunQuery
from peira.core.ids import digest, digest_bytes
from peira.spec.project import Project
from peira.stores.sqlite import SqliteStore

FEWEST = 20_000
"""Runs with fewer trials are read at once; nothing is left beside their store."""
MOST_FILES = 128
ALL = 2**31


class Kept(msgspec.Struct, frozen=True):
    mark: str
    asked: Asked
    run: str
    tabled: Tabled


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


class TableMemory:
    """The remembered tables of one run."""

    def __init__(self, where: Path | AnyStore, run: str) -> None:
        self._where, self._run = where, run

    @property
    def folder(self) -> Path:
        if isinstance(self._where, Path):
            return self._where.with_name(f"{self._where.name}.tables")
        return beside(self._where, "tables")

    def table(self, asked: Asked, make: Callable[[], Tabled]) -> Tabled:
        mark = self._mark()
        file = self.folder / digest([self._run, repr(asked)])
        found = _read(file)
        if found and (found.mark, found.run, found.asked) == (mark, self._run, asked):
            return found.tabled
        made = make()
        if self._mark() == mark:  # nothing was committed while it was made
            _write(file, Kept(mark, asked, self._run, made))
        return made

    def _mark(self) -> str:
        """Another one whenever anything was committed, or the code is other code."""
        with reading(self._where, Project()) as store:
            runs = store.runs(RunQuery(limit=ALL))
        return digest([_code(), [[run.id, run.next_seq] for run in runs]])


def memory_of(where: Path | AnyStore, run: str, trials: int) -> TableMemory | None:
    """A memory for a large run in a file."""
    kept = trials >= FEWEST and isinstance(where, (Path, SqliteStore))
    return TableMemory(where, run) if kept else None


@cache
def _code() -> str:
    """Which code makes tables: the files of peira and of what it calculates with, as they are installed."""
    root = Path(__file__).parents[1]
    files = [*sorted(root.rglob("*.py")), *_origins("numpy", "scipy")]
    known = [[file.name, file.stat().st_size, str(file.stat().st_mtime_ns)] for file in files]
    return digest([sys.version, known])


def _origins(*names: str) -> Iterator[Path]:
    for name in names:
        found = find_spec(name)
        if found and found.origin:
            yield Path(found.origin)


def _read(file: Path) -> Kept | None:
    """What is kept there; None if there is nothing, or it is not whole."""
    try:
        data = file.read_bytes()
        return _decode(data[64:]) if digest_bytes(data[64:]).encode() == data[:64] else None
    except (OSError, msgspec.DecodeError):
        return None


def _write(file: Path, kept: Kept) -> None:
    data = _encode(kept)
    try:
        file.parent.mkdir(exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".draft-", dir=file.parent)
        with os.fdopen(handle, "wb") as writing:
            writing.write(digest_bytes(data).encode() + data)
        os.replace(draft, file)
        _forget(file.parent)
    except OSError:
        return  # whoever may not write here reads again


def _forget(folder: Path) -> None:
    """Keep the newest."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in files[MOST_FILES:]:
        old.unlink(missing_ok=True)
