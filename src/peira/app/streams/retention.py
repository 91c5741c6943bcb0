"""Retention: inputs, outputs, steps and files of ended jobs are removed as a stream's `keep` says.

What is left of such a job is its row and its events: that it was done, how it ended, what it cost. A job is
let go only if it had ended `GRACE` seconds ago, so that waiting callers have its result; its scores and
sessions stay. Payloads that anything else in the store refers to stay, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from peira.core.contracts import OpenStore, PayloadRemoval
from peira.core.log.events import TERMINAL
from peira.core.log.rows import SESSION, Run, Task
from peira.core.log.state import Call
from peira.engine.streams.jobs import SHADOW, class_of
from peira.errors import NotKept
from peira.spec.streams.stream import JobKeep

GRACE = 60.0
"""Seconds for which the result of an ended job is kept in any case."""
LOOK, COSTS = 60.0, 50.0
"""Seconds between two looks, or so many times as long as a look takes."""


class EndedJob(NamedTuple):
    """An ended job: its id, when it was submitted, and the bytes of its input and output."""

    id: str
    at: float
    size: int


def expired_jobs(jobs: Sequence[EndedJob], keep: JobKeep, now: float) -> list[str]:
    """The ids of the jobs that are not to be kept: too old, too many, or too large together. Pure."""
    newest = sorted(jobs, key=lambda job: job.at, reverse=True)
    total, found = 0, []
    for n, job in enumerate(newest):
        total += job.size
        too_old = keep.age is not None and now - job.at > keep.age
        too_many = keep.count is not None and n >= keep.count
        too_large = keep.size is not None and total > keep.size
        if too_old or too_many or too_large:
            found.append(job.id)
    return found


class JobRetention:
    """Removes payloads of ended jobs that are not kept, in a thread of its own ("peira-retention")."""

    def __init__(
        self,
        store: OpenStore,
        keeps: Mapping[str, JobKeep],
        failed: Callable[[BaseException], None],
        grace: float = GRACE,
        look: float = LOOK,
    ) -> None:
        self._store, self._keeps, self._failed = store, keeps, failed
        self._grace, self._pause = grace, look
        self._ended: dict[str, tuple[float, int]] = {}  # when each was first seen to have ended, and its size
        self._stopping, self._looking = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="peira-retention", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        rest = 0.0
        try:
            while not self._stopping.wait(rest):
                began = time.monotonic()
                self.look()
                rest = max(self._pause, COSTS * (time.monotonic() - began))
        except Exception as problem:
            if not self._stopping.is_set():
                self._failed(problem)

    def look(self) -> int:
        """Remove payloads that are not kept any more; returns their bytes. May be called from any thread."""
        with self._looking:
            return self._look(self._store) if isinstance(self._store, PayloadRemoval) else 0

    def _look(self, store: PayloadRemoval) -> int:
        gone = set(store.forgotten())
        expired: set[str] = set()
        for name, keep in self._keeps.items():
            jobs = [task for task in _ended(self._store, name) if task.payload not in gone]
            known = [self._seen(task) for task in jobs]
            late = set(expired_jobs(known, keep, time.time()))
            now = time.monotonic()
            expired |= {id for id in late if now - self._ended[id][0] >= self._grace}
        if not expired:
            return 0
        doomed, needed = _payloads(self._store, expired)
        for id in expired:
            del self._ended[id]
        return store.forget(doomed - (needed - gone))

    def _seen(self, task: Task) -> EndedJob:
        if task.id not in self._ended:
            self._ended[task.id] = time.monotonic(), _size(self._store, task)
        return EndedJob(task.id, float(task.labels.get("at", 0)), self._ended[task.id][1])

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()


def _ended(store: OpenStore, name: str) -> Iterator[Task]:
    """The ended jobs of a stream, and their shadows."""
    classes = (class_of(name), class_of(name, SHADOW))
    for row in store.rows():
        if isinstance(row, Task) and row.cls in classes and row.state in TERMINAL:
            yield row


def _size(store: OpenStore, task: Task) -> int:
    size = len(bytes(task.result.output))
    for digest in (task.payload, task.result.blob):
        try:
            size += len(store.get(digest)) if digest else 0
        except NotKept:
            continue
    return size


def _payloads(store: OpenStore, expired: set[str]) -> tuple[set[str], set[str]]:
    """The payloads of these jobs, and those of all others, with the last states of their sessions."""
    doomed: set[str] = set()
    needed: set[str] = set()
    for row in store.rows():
        if isinstance(row, Run):
            continue
        if isinstance(row, Call):
            found = {row.blob, row.request}
            own = row.task in expired and row.name != SESSION
        else:
            found = {row.result.blob, row.result.trail, row.payload}
            found |= {artifact.digest for artifact in row.result.artifacts}
            own = row.id in expired
        (doomed if own else needed).update(filter(None, found))
    return doomed, needed
