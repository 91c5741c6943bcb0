"""Reads the store for all pages: one open store for short reads, another for long ones, and a few caches.

Handlers run on the server's event loop; everything that reads is called in a thread (`short`, `long`), so
that one slow page delays no other. What was computed of a run is kept as long as nothing was added to it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from peira.analysis.results import Results
from peira.analysis.table.value import Table
from peira.app.session import Session
from peira.app.store.results import manifest_of, results_of
from peira.app.store.runs import UNDER_WAY, find_run, with_current_status
from peira.core.contracts import ChangeCounter, RunQuery
from peira.core.log.events import Status
from peira.core.log.state import Run
from peira.core.text.grid import cell
from peira.errors import Unknown
from peira.plan.manifest import Manifest, layout_of
from peira.plan.trials import Layout
from peira.results.snapshot import as_of
from peira.web._stream_monitor import StreamMonitor
from peira.web.monitor import RunMonitor

P = ParamSpec("P")
T = TypeVar("T")
SHORT, LONG = 4, 2
"""Threads for short and for long reads."""
FRESH, PATIENCE = 2.0, 10.0
"""A table of a run under way is computed again after `FRESH` seconds, or `PATIENCE` times what it took."""
MOST_TABLES, MOST_LAYOUTS, MOST_MONITORS = 256, 8, 32
MOST_VALUES = 64
MOST_NUMBERED = 20_000
"""Trials of a plan whose places are kept by their ids."""
MOST_HISTORIES, MOST_STATES = 32, 200
"""Runs whose intervals are kept as they tighten, and of how many tables."""
History = list[tuple[int, dict[str, tuple[float, float, float]]]]
"""Of tables of a run under way: trials in it, and mean, low and high of each condition."""


class RecentCache(OrderedDict[Hashable, Any]):
    """A cache that forgets what was used longest ago."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, made if it is not there."""
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
            while len(self) > self._most:
                self.popitem(last=False)
        found: T = self[key]
        return found


@dataclass(frozen=True)
class ComputedTable:
    """A table, the number of the run's events that it rests on, when it was made and how long that took."""

    table: Table
    events: int
    made: float
    took: float


@dataclass(frozen=True)
class PlannedRun:
    """A run with its manifest and the layout of its trials."""

    run: Run
    manifest: Manifest
    layout: Layout


class SiteReader:
    """The store as all pages read it; it need not exist yet."""

    def __init__(self, session: Session, read_only: bool) -> None:
        self.session, self.read_only = session, read_only
        self._slow = Session(session.project, session.store)
        self._short = ThreadPoolExecutor(SHORT, "peira-web")
        self._long = ThreadPoolExecutor(LONG, "peira-web-long")
        self._acts = ThreadPoolExecutor(LONG, "peira-web-act")
        self._tables: OrderedDict[Hashable, ComputedTable] = OrderedDict()
        self._making: dict[Hashable, asyncio.Lock] = {}
        self._values: OrderedDict[Hashable, tuple[object, Any, float, float]] = OrderedDict()
        self._stream_monitors: RecentCache = RecentCache(MOST_MONITORS)
        self._opening = threading.RLock()
        self._ready = False
        self._layouts: RecentCache = RecentCache(MOST_LAYOUTS)
        self._rows: RecentCache = RecentCache(MOST_LAYOUTS)
        self._monitors: OrderedDict[str, RunMonitor] = OrderedDict()
        self._histories: RecentCache = RecentCache(MOST_HISTORIES)
        self._numbers: RecentCache = RecentCache(MOST_LAYOUTS)

    def __enter__(self) -> SiteReader:
        self.session.__enter__()
        self._slow.__enter__()
        self.open()
        return self

    def __exit__(self, *problem: object) -> None:
        for pool in (self._short, self._long, self._acts):
            pool.shutdown(wait=True, cancel_futures=True)
        self._slow.__exit__()
        self.session.__exit__()

    def open(self) -> bool:
        """Open the store if there is anything in it by now; says whether there is.

        A store that is just being created reads as an empty one for ever: it is opened again until it has a
        run, and only then for good.
        """
        with self._opening:
            if not self._ready and self.session.exists:
                with suppress(Unknown), Session(self.session.project, self.session.store).reading() as store:
                    frozen = RunQuery(status=Status.frozen.value, limit=1)
                    self._ready = bool(store.runs(RunQuery(limit=1)) or store.runs(frozen))
                for session in (self.session, self._slow) if self._ready else ():
                    with session.reading():  # opened here, once: later reads come from several threads
                        pass
            return self._ready

    async def short(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a short read."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._short, lambda: read(*args, **kwargs))

    async def long(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a read that may take seconds."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._long, lambda: read(*args, **kwargs))

    async def act(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of something that changes the store, or starts a process."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._acts, lambda: act(*args, **kwargs))

    @property
    def store(self) -> Any:
        """The open store, for short reads; Unknown if there is none."""
        return self._reading(self.session)

    @property
    def slow_session(self) -> Session:
        """The session for long reads."""
        return self._slow

    @property
    def slow_store(self) -> Any:
        """The same store, opened for long reads."""
        return self._reading(self._slow)

    def _reading(self, session: Session) -> Any:
        if not self.open():
            raise Unknown("there are no runs in this store yet")
        with self._opening, session.reading() as store:
            return store

    def version(self) -> object:
        """A value that differs once anything was committed."""
        if not self.open():
            return None
        store = self.store
        if isinstance(store, ChangeCounter):
            return store.changes()
        return [(run.id, run.next_seq) for run in store.runs(RunQuery(limit=50))]

    def run(self, prefix: str) -> Run:
        """The run with this name or prefix of its id, with the status to show."""
        return with_current_status(find_run(self.store, prefix), self.store)

    def planned(self, prefix: str) -> PlannedRun:
        """The run with its manifest and layout."""
        run = self.run(prefix)
        manifest, layout = self._layouts.of(run.manifest, lambda: self._layout(run))
        return PlannedRun(run, manifest, layout)

    def _layout(self, run: Run) -> tuple[Manifest, Layout]:
        manifest = manifest_of(self.store, run)
        return manifest, layout_of(manifest, self.store.get, self.store)

    def numbers(self, prefix: str) -> dict[str, int]:
        """The places of trials in the plan by their ids; empty for a plan that is too large for that."""
        planned = self.planned(prefix)
        layout = planned.layout
        if layout.size > MOST_NUMBERED:
            return {}

        def make() -> dict[str, int]:
            return {layout.trial_id(place): place.number for place in layout.places()}

        return self._numbers.of(planned.run.manifest, make)

    def rows(self, run: str) -> Any:
        """The tasks of the store as they were when a run ended."""
        return self._rows.of((run, str(self.version())), lambda: as_of(self.slow_store, run))

    def results(self, run: str) -> Results:
        """The results of a run, for long reads; a server that only shows keeps no files of tables."""
        return results_of(self._slow, self.slow_store, run, cached=not self.read_only)

    async def table(self, run: Run, by: tuple[str, ...], **options: Any) -> ComputedTable:
        """The table of a run: again only if the run went on, and not too often while it goes on."""
        key = (run.id, by, tuple(sorted(options.items())))
        async with self._making.setdefault(key, asyncio.Lock()):
            found = self._tables.get(key)
            if found is not None:
                self._tables.move_to_end(key)
                age = time.monotonic() - found.made
                recent = run.status in UNDER_WAY and age < max(FRESH, PATIENCE * found.took)
                if found.events == run.next_seq or recent:
                    return found
            made = self._tables[key] = await self.long(self._tabulate, run.id, by, options)
            if run.status in UNDER_WAY and not by and not options:
                self._remember(run.id, made.table)
            while len(self._tables) > MOST_TABLES:
                self._making.pop(self._tables.popitem(last=False)[0], None)
            return made

    async def recomputed(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that takes long: computed again only if something was committed, and not too often."""
        async with self._making.setdefault(key, asyncio.Lock()):
            version = await self.short(self.version)
            found = self._values.get(key)
            if found is not None:
                before, known, made, took = found
                if before == version or time.monotonic() - made < max(FRESH, PATIENCE * took):
                    kept: T = known
                    return kept
            began = time.monotonic()
            value = await self.long(compute)
            now = time.monotonic()
            self._values[key] = version, value, now, now - began
            while len(self._values) > MOST_VALUES:
                self._making.pop(self._values.popitem(last=False)[0], None)
            return value

    def stream_monitor(self, name: str) -> StreamMonitor:
        """What was recorded about a stream: splits, decisions, outcomes; long at the first time."""
        with self._opening:
            found = self._stream_monitors.of(name, lambda: StreamMonitor(self._slow, name))
        return found.refresh()

    def history(self, run: str) -> History:
        """How the intervals of a run tightened while somebody looked, for its first score."""
        found: History = self._histories.of(run, list)
        return found

    def _remember(self, run: str, table: Table) -> None:
        found, score = self.history(run), next((row.score for row in table.body if row.score), None)
        rows = [row for row in table.body if row.score == score and row.n]
        known = {
            ", ".join(map(cell, row.labels)) or str(score): (row.mean, row.low, row.high)
            for row in rows
            if row.mean is not None and row.low is not None and row.high is not None
        }
        trials = sum(row.n for row in rows)
        if known and (not found or found[-1][0] < trials):
            found.append((trials, known))
        if len(found) > MOST_STATES:
            del found[1::2]

    def computed(self, run: Run, by: tuple[str, ...], **options: Any) -> ComputedTable | None:
        """The table of a run if it was computed before and is still true; None otherwise."""
        found = self._tables.get((run.id, by, tuple(sorted(options.items()))))
        return found if found is not None and found.events == run.next_seq else None

    def _tabulate(self, run: str, by: tuple[str, ...], options: dict[str, Any]) -> ComputedTable:
        began, events = time.monotonic(), self.slow_store.find("run", [run])[run].next_seq
        table = self.results(run).table(*by, **options)
        now = time.monotonic()
        return ComputedTable(table, events, now, now - began)

    def monitor(self, run: Run) -> RunMonitor:
        """The progress and failures of a run, folded from its events; long at the first time."""
        if run.id not in self._monitors:
            self._monitors[run.id] = RunMonitor(self._slow, run.id)
            over = [one for one in self._monitors.values() if one.run.status not in UNDER_WAY]
            for one in over[: max(0, len(self._monitors) - MOST_MONITORS)]:
                self._monitors.pop(one.run.id, None)
        found = self._monitors[run.id]
        found.refresh()
        return found
