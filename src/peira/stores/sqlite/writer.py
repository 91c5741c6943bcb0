"""The one writer: a thread that drains whatever is queued into one durable commit.

Callers are acknowledged after the commit's sync and not before; there is no added delay. On any error of the
disk the writer ends for good: it never retries a sync.

A writer that is busy hands its work over to a process of its own (`WriterProcess`): the thread then only
encodes ops and sends them, and the interpreter has time for the rest of the run.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import apsw

import peira.stores.sqlite.writer_process as writer_process
from peira.core.clock import Clock
from peira.core.contracts import CallWords, Op, Outcome, PlanEntry
from peira.core.failpoints import reach
from peira.core.log.events import Record
from peira.stores.commit_thread import CommitThread, WriteRequest, acknowledge, claimed, claims
from peira.stores.sqlite import reads, views
from peira.stores.sqlite.digest_filter import DigestFilter
from peira.stores.sqlite.lock import OwnerLock
from peira.stores.sqlite.table_writer import TableWriter, derive

WINDOW = 1.0
"""Seconds in which a thread that is busy uses so much CPU time that it gets a process."""
TOGETHER = 20_000
"""Entries of a plan that this thread lists in one transaction."""


class Writer(CommitThread):
    def __init__(
        self,
        path: Path,
        db: apsw.Connection,
        incarnation: int,
        check_file: Callable[[], None],
        lock: OwnerLock,
        clock: Clock,
        codec: str,
        on_commit: Callable[[list[Record]], None] | None,
        busy: float | None,
    ) -> None:
        """`check_file` raises if the store's file is no longer the one that was opened; `lock` keeps the
        number of the last event that is durable. From `busy` CPU seconds of this thread in a WINDOW on,
        there is another process (0: at once; None: never)."""
        self._path, self._incarnation, self._check_file, self._lock = path, incarnation, check_file, lock
        self._db, self._clock, self._codec, self._on_commit = db, clock, codec, on_commit
        self.recorded = {
            "task": DigestFilter.of_table(db, "task", "id"),
            "call": DigestFilter.of_table(db, "call", "key"),
        }
        """Which tasks, and which calls and steps, have rows; any thread may look."""
        self._tables: TableWriter | None = TableWriter(db, incarnation, self.recorded)
        self._busy = busy
        self._window = 0.0, 0.0
        self._process: writer_process.WriterProcess | None = None
        self._under_way: deque[list[WriteRequest]] = deque()  # sent to the process, and not answered
        self._listed: list[Future[None]] = []  # told once something is listed
        super().__init__()

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        """Commit ops together with whatever is queued."""
        return self.submit(WriteRequest(ops))

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[str]:
        """The ids of the first n ready tasks, claimed."""
        taken: list[str] = []

        def choose() -> list[Op]:
            ops = claims(run, owner, reads.ready(self._db, classes, n, self._clock.now()))
            taken.extend(claimed(ops))
            return ops

        outcomes = self.choose(choose).result()
        return [task for task, refusal in zip(taken, outcomes, strict=True) if not refusal]

    def compress(self, codec: str) -> None:
        """Compress payloads from now on like this."""
        self._codec = codec

    def prepare(self) -> None:
        """Get a process, which is ready when this thread will be busy."""

        def start() -> tuple[Op, ...]:
            if self._tables is not None and self._busy is not None:
                self._start()
            return ()

        self.submit(WriteRequest((), start))

    def close(self) -> None:
        super().close()
        if self._process is not None:
            self._process.close()

    def _commit(self, batch: list[WriteRequest]) -> None:
        chooser = batch[-1].choose
        if chooser and len(batch) > 1:
            self._commit(batch[:-1])
            batch = batch[-1:]
        groups = [request.choose() if request.choose else request.ops for request in batch]
        ops = [op for group in groups for op in group]
        self._hand_over()
        self._check_file()
        if self._tables is None:
            self._send(batch, groups, ops)
            return
        records, [outcomes] = self._tables.commit([(ops, self._clock.now())], self._codec)
        self._lock.mark(self._tables.newest)
        reach("store.after_commit")
        if self._on_commit:
            self._on_commit(records)
        acknowledge(batch, groups, outcomes)

    def choose(self, choose: Callable[[], Sequence[Op]]) -> Future[list[Outcome]]:
        """Commit ops that are chosen by what the tables say once all earlier ones are in them."""

        def chosen() -> Sequence[Op]:
            if self._tables is None and self._process is not None:
                self._process.wait()
            return choose()

        return self.submit(WriteRequest((), chosen))

    def derive(self, change: Callable[[apsw.Connection], None]) -> Future[list[Outcome]]:
        """Change tables that nothing rests on, in a transaction, if the store is still ours."""

        def write() -> tuple[Op, ...]:
            derive(self._db, self._incarnation, change)
            return ()

        return self.choose(write)

    def list_plan(self, plan: str, entries: Iterable[PlanEntry], complete: bool) -> Future[None]:
        """List entries of a plan, which this thread makes; with the last one the list may be complete."""
        waiting, listed = iter(entries), Future[None]()
        self._listed.append(listed)

        def list_some() -> tuple[Op, ...]:
            if self._tables is None:
                messages = writer_process.plan_messages(plan, waiting, complete)
                return self._have_listed(next(messages), messages, listed)
            while True:
                some = list(islice(waiting, TOGETHER))
                last = len(some) < TOGETHER
                change = partial(views.list_plan, plan=plan, entries=some, complete=complete and last)
                derive(self._db, self._incarnation, change)
                if last:
                    self._end_listing(listed)
                if last or self.submit_again(WriteRequest((), list_some)):
                    return ()

        self.submit(WriteRequest((), list_some))
        return listed

    def list_calls(self, calls: Iterable[CallWords]) -> Future[None]:
        """List what calls said, made by this thread."""
        listed = Future[None]()
        self._listed.append(listed)

        def list_all() -> tuple[Op, ...]:
            if self._tables is None:
                return self._have_listed(writer_process.words_message(calls), iter(()), listed)
            derive(self._db, self._incarnation, partial(views.list_calls, calls=calls))
            self._end_listing(listed)
            return ()

        self.submit(WriteRequest((), list_all))
        return listed

    def _have_listed(
        self,
        message: writer_process.ListingMessage,
        more: Iterator[writer_process.ListingMessage],
        listed: Future[None],
    ) -> tuple[Op, ...]:
        """Let the process list what messages say, each behind what is queued meanwhile: workers wait for
        commits."""
        assert self._process is not None
        while (following := next(more, None)) is not None:
            self._process.list(message, None)
            message = following
            if self.submit_again(WriteRequest((), partial(self._have_listed, message, more, listed))):
                return ()
        self._process.list(message, partial(self._end_listing, listed))
        return ()

    def _end_listing(self, listed: Future[None]) -> None:
        self._listed.remove(listed)
        listed.set_result(None)

    def _fail(self, batch: list[WriteRequest], problem: Exception) -> None:
        super()._fail(batch, problem)
        for listed in list(self._listed):
            with suppress(InvalidStateError):
                listed.set_exception(self._fault)

    def _hand_over(self) -> None:
        """Get a process if this thread is busy; leave writing to it once it is ready."""
        if self._tables is None or self._busy is None:
            return
        now, cpu = time.monotonic(), time.thread_time()
        if now - self._window[0] > WINDOW:
            self._window = now, cpu
        if cpu - self._window[1] >= self._busy:
            self._start()
        if (process := self._process) is None:
            return
        if process.ended:  # it never was ready: this thread can do it, too
            self._busy = None
        elif process.ready:
            self._tables = None

    def _start(self) -> None:
        """Start the process, unless that was done."""
        if self._process is not None:
            return
        if _cores() < 2:
            self._busy = None
            return
        try:
            self._process = writer_process.WriterProcess(
                self._path, self._incarnation, self.recorded, self._give_up
            )
        except OSError:  # this thread can do it, too
            self._busy = None
            return
        self._lock.note_writer(self._process.pid)
        if not self._busy:
            self._process.start()

    def _send(self, batch: list[WriteRequest], groups: Sequence[Sequence[Op]], ops: list[Op]) -> None:
        """Leave ops to the process; who waits for them is told once they are durable."""
        assert self._process is not None
        if not ops:
            acknowledge(batch, groups, [])
            return

        def answered(outcomes: list[Outcome], newest: int) -> None:
            self._lock.mark(newest)
            self._under_way.popleft()
            acknowledge(batch, groups, outcomes)

        self._under_way.append(batch)
        self._process.commit(ops, self._clock.now(), self._codec, answered)

    def _give_up(self, problem: Exception) -> None:
        """The process has ended by itself: nothing more is written."""
        self._fail([request for batch in list(self._under_way) for request in batch], problem)


def _cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
