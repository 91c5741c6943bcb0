"""`one_thread_each`: every attempt in a new thread, so that nothing thread-local survives an attempt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from peira.core.contracts import Attempt, AttemptQueue
from peira.core.registry import Registry


class OneThreadEach:
    """Each worker takes an attempt, starts a thread for it, and waits until it ends or is abandoned."""

    name = "one_thread_each"

    def __init__(self) -> None:
        self._workers: list[threading.Thread] = []
        self._running: dict[tuple[str, int], AttemptThread] = {}

    def start(self, queue: AttemptQueue, workers: int) -> None:
        for _ in range(workers):
            worker = threading.Thread(target=self._serve, args=(queue,), daemon=True)
            self._workers.append(worker)
            worker.start()

    def abandon(self, attempt: Attempt) -> None:
        if running := self._running.get(attempt.key):
            running.abandon()

    def stop(self) -> None:
        for worker in self._workers:
            worker.join()

    def _serve(self, queue: AttemptQueue) -> None:
        while attempts := queue.take(1):
            for attempt in attempts:
                running = self._running[attempt.key] = AttemptThread(queue, attempt)
                running.start()
                running.over.wait()
                del self._running[attempt.key]


class AttemptThread(threading.Thread):
    """Executes one attempt. `over` is set when it has ended, or nobody waits for it any more."""

    def __init__(self, queue: AttemptQueue, attempt: Attempt) -> None:
        super().__init__(name=f"attempt of {attempt.spec.id[:12]}", daemon=True)
        self.over = threading.Event()
        self._queue, self._attempt = queue, attempt
        self._awaited: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def run(self) -> None:
        try:
            channel = self._queue.begin(self._attempt)
            if channel is None:  # it must not start
                return
            work = self._attempt.work
            outcome = work.perform(channel, self._attempt.epoch)
            if work.asynchronous:
                outcome = asyncio.run(self._await(outcome))
        except BaseException as problem:  # whatever user code raises is how its attempt ended
            self._queue.end(self._attempt, None, problem)
        else:
            self._queue.end(self._attempt, outcome, None)
        finally:
            self.over.set()

    async def _await(self, pending: Awaitable[Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._awaited = asyncio.get_running_loop(), task
        if self.over.is_set():  # it was abandoned meanwhile
            task.cancel()
        return await pending

    def abandon(self) -> None:
        """Free the worker. What is awaited is cancelled; a function cannot be stopped from outside."""
        self.over.set()
        if self._awaited:
            loop, task = self._awaited
            with suppress(RuntimeError):  # the loop is closed: the attempt has ended
                loop.call_soon_threadsafe(task.cancel)


def register(registry: Registry) -> None:
    registry.add("runner", "one_thread_each", OneThreadEach)
