"""An event loop in a thread of its own: for agents and evaluators that are `async def`.

One feeder thread waits for free places, claims that many attempts at once, and hands them to the
loop, which therefore never waits for the store.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from peira.core.contracts import Attempt, Channel, Desk

BATCH = 32


class LoopRunner:
    name = "loop"

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._free = 0
        self._stopping = False
        self._places = threading.Condition()

    def start(self, desk: Desk, workers: int) -> None:
        self._desk, self._free = desk, workers
        self._loop_thread = threading.Thread(target=self._loop.run_forever, name="peira-loop", daemon=True)
        self._feeder = threading.Thread(target=self._feed, name="peira-feeder", daemon=True)
        self._loop_thread.start()
        self._feeder.start()

    def _feed(self) -> None:
        while attempts := self._desk.take(self._reserve()):
            with self._places:
                self._free -= len(attempts)
            self._loop.call_soon_threadsafe(self._begin, attempts)

    def _reserve(self) -> int:
        """How many places are free; waits for one."""
        with self._places:
            self._places.wait_for(lambda: self._free > 0 or self._stopping)
            return max(1, min(self._free, BATCH))

    def _begin(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            channel = self._desk.begin(attempt)
            if channel is None:
                self._leave()
            else:
                task = self._loop.create_task(self._work(attempt, channel))
                self._tasks[attempt.key] = task

    async def _work(self, attempt: Attempt, channel: Channel) -> None:
        outcome: Any = None
        failure: BaseException | None = None
        try:
            outcome = await attempt.work.perform(channel, attempt.epoch)
        except BaseException as problem:  # whatever user code raises is how its attempt ended
            failure = problem
        self._tasks.pop(attempt.key, None)
        self._desk.end(attempt, outcome, failure)
        self._leave()

    def _leave(self) -> None:
        with self._places:
            self._free += 1
            self._places.notify()

    def abandon(self, attempt: Attempt) -> None:
        self._loop.call_soon_threadsafe(self._cancel, attempt.key)

    def _cancel(self, key: tuple[str, int]) -> None:
        if task := self._tasks.get(key):
            task.cancel()

    def stop(self) -> None:
        with self._places:
            self._stopping = True
            self._places.notify_all()
        self._feeder.join()
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop_thread.join(timeout=5)
        if not self._loop_thread.is_alive():
            self._loop.close()

    async def _settle(self) -> None:
        """Let cancelled tasks unwind, briefly."""
        left = [task for task in self._tasks.values() if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=2)
