"""A cache of the tables of large runs, in files beside the store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import peira.app as app
from peira.app.session import Session, SessionLike
from peira.core.contracts import RunQuery
from peira.core.ids import digest

if TYPE_CHECKING:
    from peira.analysis.table.value import TableQuery, TableWithDrift

FEWEST = 20_000
"""Runs with fewer trials are not cached: they are read quickly, and no files are left behind."""
ALL = 2**31


class RunTableCache:
    """The cached tables of one run."""

    def __init__(self, store: SessionLike, run: str) -> None:
        self._session, self._run = Session.find(store), run

    def table(self, asked: TableQuery, make: Callable[[], TableWithDrift]) -> TableWithDrift:
        """The cached table, or a new one from `make`, which is then cached.

        A cached table is valid only if nothing was committed to the store and no code changed since; a table
        is not cached if something was committed while it was made.
        """
        mark, folder = self._mark()
        if folder is None:
            return make()
        file = folder / digest([self._run, repr(asked)])
        found = app.read_cached_table(file)
        if found and (found.mark, found.run, found.asked) == (mark, self._run, asked):
            return found.tabled
        made = make()
        if self._mark() == (mark, folder):  # nothing was committed meanwhile
            app.write_cached_table(file, app.CachedTable(mark, asked, self._run, made))
        return made

    def _mark(self) -> tuple[str, Path | None]:
        """A digest of everything committed and of the code, and the folder of the cache."""
        with self._session.reading() as store:
            runs, folder = store.runs(RunQuery(limit=ALL)), store.folder("tables")
        return digest([_code(), [[run.id, run.next_seq] for run in runs]]), folder


def table_cache_of(store: SessionLike, run: str, trials: int) -> RunTableCache | None:
    """A cache for a large run in a store that has a place for files; None otherwise."""
    session = Session.find(store)
    placed = isinstance(session.store, (Path, str)) or session.store.folder("tables") is not None
    return RunTableCache(session, run) if trials >= FEWEST and placed else None


@cache
def _code() -> str:
    """A digest of the code that makes tables: the installed files of peira, numpy and scipy."""
    root = Path(__file__).parents[2]
    files = [*sorted(root.rglob("*.py")), *_origins("numpy", "scipy")]
    known = [[file.name, file.stat().st_size, str(file.stat().st_mtime_ns)] for file in files]
    return digest([sys.version, known])


def _origins(*names: str) -> Iterator[Path]:
    """The files of these modules."""
    for name in names:
        found = find_spec(name)
        if found and found.origin:
            yield Path(found.origin)
