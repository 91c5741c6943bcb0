"""Caches of tables: those of large runs beside the store, those of small runs in the user's cache folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import peira.app as app
from peira.app.session import Session, SessionLike
from peira.core.contracts import RunQuery
from peira.core.ids import digest

if TYPE_CHECKING:
    from peira.analysis.table.value import CachedTables, TableQuery, TableWithDrift
    from peira.results.trials import TrialResult

FEWEST = 20_000
"""From so many trials on, the tables of a run are cached beside its store, by the state of the store."""
FEW = 1_000
"""Up to so many trials, reading them takes less time than importing what computes a table of them."""
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


class SmallTableCache(msgspec.Struct, frozen=True):
    """Cached tables by their content: the trials they are made of. Shared by all stores of a user.

    Most of the time of a small table is the import of numpy and scipy, which a cached table does not need.
    """

    trials: Callable[[], Iterable[TrialResult]]
    folder: Path

    def table(self, asked: TableQuery, make: Callable[[], TableWithDrift]) -> TableWithDrift:
        """The cached table of equal trials, or a new one from `make`, which is then cached."""
        mark = digest([_code(), repr(asked), [repr(trial) for trial in self.trials()]])
        file = self.folder / mark
        found = app.read_cached_table(file)
        if found and (found.mark, found.asked) == (mark, asked):
            return found.tabled
        made = make()
        app.write_cached_table(file, app.CachedTable(mark, asked, "", made))
        return made


def table_cache_of(
    store: SessionLike, run: str, trials: int, brief: Callable[[], Iterable[TrialResult]] | None
) -> CachedTables | None:
    """A cache for a large run in a store that has a place for files, or for a small one; None otherwise.

    `brief` reads the trials as tables need them; None if a table needs more of them.
    """
    if trials <= FEW:
        cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return SmallTableCache(brief, cache_home / "peira" / "tables") if brief else None
    session = Session.find(store)
    placed = isinstance(session.store, (Path, str)) or session.store.folder("tables") is not None
    return RunTableCache(session, run) if trials >= FEWEST and placed else None


@cache
def _code() -> str:
    """A digest of the code that makes tables: the installed files of peira, numpy and scipy."""
    root = Path(__file__).parents[2]
    modules = [found for found in map(find_spec, ("numpy", "scipy")) if found and found.origin]
    files = [*sorted(root.rglob("*.py")), *(Path(str(module.origin)) for module in modules)]
    known = [[file.name, file.stat().st_size, str(file.stat().st_mtime_ns)] for file in files]
    return digest([sys.version, known])
