"""Threads that pull: for agents and evaluators that are plain functions.

A function that hangs cannot be stopped from outside. Its attempt is abandoned, a new thread takes its
place, and the stuck one ends by itself if it ever comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator
from typing import Any

from peira.core.contracts import Attempt, Desk

BATCH = 128
PAUSE = 0.05


class ThreadRunner:
    name = "threads"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._desk: Desk | None = None

    def start(self, desk: Desk, workers: int) -> None:
        self._desk = desk
        with self._lock:
            for _ in range(workers):
                self._add(desk)

    def _add(self, desk: Desk) -> None:
        worker = _Worker(desk)
        self._workers.append(worker)
        worker.thread.start()

    def abandon(self, attempt: Attempt) -> None:
        with self._lock:
            stuck = next((w for w in self._workers if w.current is attempt), None)
            if stuck is None or self._desk is None:
                return
            self._workers.remove(stuck)
            self._add(self._desk)
        self._desk.back(stuck.lose())

    def stop(self) -> None:
        with self._lock:  # an abandonment may be replacing a worker just now
            workers = list(self._workers)
        for worker in workers:
            while worker.thread.is_alive() and worker in self._workers:  # it may be found stuck even now
                worker.thread.join(timeout=PAUSE)


class _Worker:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lost = threading.Event()
        self._rest: list[Attempt] = []
        self.current: Attempt | None = None
        self.thread = threading.Thread(target=self._serve, name="peira-worker", daemon=True)

    def lose(self) -> list[Attempt]:
        """Give this worker up; returns what it had taken and not begun."""
        self._lost.set()
        return list(self._left())

    def _serve(self) -> None:
        while not self._lost.is_set():
            self._rest = self._desk.take(BATCH)
            if not self._rest:
                return
            self._rest.reverse()
            for attempt in self._left():
                self._work(attempt)

    def _left(self) -> Iterator[Attempt]:
        """What was taken, one by one; whoever gets one has it alone, also while the worker is being lost."""
        while True:
            try:
                yield self._rest.pop()
            except IndexError:
                return

    def _work(self, attempt: Attempt) -> None:
        self.current = attempt
        channel = self._desk.begin(attempt)
        if channel is None:
            return
        try:
            outcome = attempt.work.perform(channel, attempt.epoch)
            if attempt.work.asynchronous:
                outcome = _completed(outcome)
        except BaseException as problem:  # whatever user code raises is how its attempt ended
            self._desk.end(attempt, None, problem)
        else:
            self._desk.end(attempt, outcome, None)
        self.current = None


def _completed(pending: Awaitable[Any]) -> Any:
    from asyncio import run  # slow, and not needed for plain functions

    return run(_awaited(pending))


async def _awaited(pending: Awaitable[Any]) -> Any:
    return await pending
