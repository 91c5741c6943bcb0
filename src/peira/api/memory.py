"""Tables of large runs, remembered beside the store, so that looking again is quick.

A million trials take most of a minute to read, and their table is a few hundred bytes. It is kept with a
mark of all that it depends on: how far the log of every run in the store has come (any run may retry a trial
or a score of another, or discard an answer), and which code made it. If the mark is another one now, it is
made again. The folder may be deleted at any time; where it cannot be written, nothing is remembered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import peira.api as rooms
from peira.api.stores import AnyStore, beside, reading
from peira.core.contracts import RunQuery
from peira.core.ids import digest
from peira.spec.project import Project
from peira.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from peira.analysis.remembering import Asked, Tabled

FEWEST = 20_000
"""Runs with fewer trials are read at once; nothing is left beside their store."""
ALL = 2**31


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
        found = rooms.read_kept(file)
        if found and (found.mark, found.run, found.asked) == (mark, self._run, asked):
            return found.tabled
        made = make()
        if self._mark() == mark:  # nothing was committed while it was made
            rooms.write_kept(file, rooms.Kept(mark, asked, self._run, made))
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
