"""Threads that take attempts from a queue: for agents and evaluators that are plain functions.

A function that hangs cannot be stopped from outside. Its attempt is abandoned, a new thread takes its
place, and the stuck one ends by itself if it ever comes back.

Code that computes gains nothing from more threads than there are cores: they only compete for the interpreter
lock. So there are few at first, and more are added while most are busy with attempts that are not short and
the process uses little CPU time, because then they wait for something. On a machine that is busy with
something else a process uses little CPU time, too; then the length of the attempts tells.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Iterator
from typing import Any

from peira.core.contracts import Attempt, AttemptQueue

BATCH = 128
PAUSE = 0.05
FIRST = max(2, os.cpu_count() or 1)
"""The number of workers at the beginning."""
FACTOR = 4
"""How much the number of workers grows at a time."""
SATURATED = 0.75
"""The CPU seconds per second from which on more workers would only compete."""
QUICK = 1000
"""The number of attempts per second and worker from which on they hardly wait for anything."""


class ThreadRunner:
    """Executes attempts in up to as many threads as there are workers."""

    name = "threads"

    def __init__(self, batch: int = BATCH) -> None:
        """`batch` is the most attempts that a worker takes at once; 1 if some may take much longer."""
        self._batch = batch
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._queue: AttemptQueue | None = None
        self._most = 0
        self._looked = self._cpu = 0.0
        self._ended = 0

    def start(self, queue: AttemptQueue, workers: int) -> None:
        """Start the first workers."""
        self._queue, self._most = queue, workers
        self._looked, self._cpu = time.monotonic(), time.process_time()
        self._add(queue, min(workers, FIRST))

    def _add(self, queue: AttemptQueue, n: int) -> None:
        with self._lock:
            for _ in range(n):
                worker = _Worker(queue, self._batch)
                self._workers.append(worker)
                worker.thread.start()

    def grow(self) -> None:
        """Start more workers if most are busy, and the process is not."""
        if len(self._workers) >= self._most or self._queue is None:
            return
        since, cpu, ended = self._looked, self._cpu, self._ended
        self._looked, self._cpu = time.monotonic(), time.process_time()
        self._ended = sum(worker.ended for worker in self._workers)
        now, seconds = len(self._workers), self._looked - since
        idle = sum(not worker.busy for worker in self._workers)
        waits = self._cpu - cpu < SATURATED * seconds and self._ended - ended < QUICK * seconds * now
        if waits and idle <= now // FACTOR:
            self._add(self._queue, min(self._most, now * FACTOR) - now)

    def resize(self, workers: int) -> None:
        """Allow more workers; `grow` starts them if that helps."""
        self._most = max(self._most, workers)

    def abandon(self, attempt: Attempt) -> None:
        with self._lock:
            stuck = next((w for w in self._workers if w.current is attempt), None)
            if stuck is None or self._queue is None:
                return
            self._workers.remove(stuck)
        self._add(self._queue, 1)
        self._queue.back(stuck.lose())

    def stop(self) -> None:
        with self._lock:  # an abandonment may be replacing a worker just now
            workers = list(self._workers)
        for worker in workers:
            while worker.thread.is_alive() and worker in self._workers:  # it may be found stuck even now
                worker.thread.join(timeout=PAUSE)


class _Worker:
    def __init__(self, queue: AttemptQueue, batch: int) -> None:
        self._queue, self._batch = queue, batch
        self._lost = threading.Event()
        self._rest: list[Attempt] = []
        self.busy = False
        self.ended = 0
        self.current: Attempt | None = None
        self.thread = threading.Thread(target=self._serve, name="peira-worker", daemon=True)

    def lose(self) -> list[Attempt]:
        """Abandon this worker; returns the attempts that it had taken and not begun."""
        self._lost.set()
        return list(self._left())

    def _serve(self) -> None:
        while not self._lost.is_set():
            self.busy = False
            self._rest = self._queue.take(self._batch)
            self.busy = True
            if not self._rest:
                return
            self._rest.reverse()
            for attempt in self._left():
                self._work(attempt)

    def _left(self) -> Iterator[Attempt]:
        """The attempts that were taken, one by one: each is yielded to one thread only."""
        while True:
            try:
                yield self._rest.pop()
            except IndexError:
                return

    def _work(self, attempt: Attempt) -> None:
        self.current = attempt
        channel = self._queue.begin(attempt)
        if channel is None:
            return
        try:
            outcome = attempt.work.perform(channel, attempt.epoch)
            if attempt.work.asynchronous:
                outcome = _completed(outcome)
        except BaseException as problem:  # whatever user code raises is how its attempt ended
            self._queue.end(attempt, None, problem)
        else:
            self._queue.end(attempt, outcome, None)
        self.current = None
        self.ended += 1


def _completed(pending: Awaitable[Any]) -> Any:
    from asyncio import run  # slow, and not needed for plain functions

    return run(_awaited(pending))


async def _awaited(pending: Awaitable[Any]) -> Any:
    return await pending
