"""An event loop in a thread of its own: for agents and evaluators that are `async def`.

A feeder thread claims attempts and passes them to the loop, which therefore never waits for the store. More
attempts are claimed than there are slots (many more, if they are short): a slot takes the next as soon as it
is free, and claims are made in batches. A loop that an agent has blocked is abandoned and replaced by a new
one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from peira.core.contracts import Attempt, AttemptQueue

BATCH = 1024
AHEAD = 2
"""One attempt is claimed in advance for this many slots."""
PATIENCE = 0.5
"""Seconds that a loop may take to respond before it counts as blocked."""


class LoopRunner:
    """Executes attempts as tasks of an event loop, as many at a time as there are workers."""

    name = "loop"

    def __init__(self) -> None:
        self._slots = threading.Condition()
        self._free = 0
        self._stopping = False

    def start(self, queue: AttemptQueue, workers: int) -> None:
        """Start the loop and the feeder."""
        self._queue, self._workers, self._free = queue, workers, workers
        self._ahead = workers // AHEAD
        self._loop_thread = _LoopThread(queue, self._leave, self._begun)
        self._feeder = threading.Thread(target=self._feed, name="peira-feeder", daemon=True)
        self._feeder.start()

    def _feed(self) -> None:
        """Take attempts from the queue and pass them to the loop, until the queue closes."""
        while attempts := self._queue.take(BATCH, self._wait_for_capacity()):
            with self._slots:
                busy = min(self._free, len(attempts))
                self._free -= busy
                self._loop_thread.given += len(attempts)
                self._loop_thread.begin(attempts, busy)

    def _wait_for_capacity(self) -> int:
        """Wait until the loop needs attempts; returns how many: for free slots, and in advance."""
        with self._slots:
            self._slots.wait_for(lambda: self._free > 0 or self._low or self._stopping)
            return max(1, self._free + self._ahead - self._loop_thread.waiting)

    @property
    def _low(self) -> bool:
        """Whether few attempts are waiting in the loop."""
        return self._loop_thread.waiting < self._ahead / 2

    def _begun(self, loop_thread: _LoopThread) -> None:
        """Called by the loop when a waiting attempt started: wakes the feeder if few are left."""
        if loop_thread is self._loop_thread and self._low:
            with self._slots:
                self._slots.notify()

    def _leave(self, loop_thread: _LoopThread) -> None:
        """Called by the loop when a slot has nothing more to do."""
        with self._slots:
            if loop_thread is self._loop_thread:
                self._free += 1
                self._slots.notify()

    def resize(self, workers: int) -> None:
        """Add slots."""
        with self._slots:
            more = max(0, workers - self._workers)
            self._workers, self._free = self._workers + more, self._free + more
            self._ahead = self._workers // AHEAD
            self._slots.notify()

    def abandon(self, attempt: Attempt) -> None:
        """Cancel the attempt; if the loop does not respond in time, replace it."""
        loop_thread, answered = self._loop_thread, threading.Event()
        loop_thread.call(loop_thread.give_up, attempt.key, answered)
        if not answered.wait(PATIENCE):
            self._replace(loop_thread)

    def _replace(self, blocked: _LoopThread) -> None:
        """Replace a blocked loop by a new one, which gets the attempts that had not started."""
        with self._slots:
            if blocked is not self._loop_thread:
                return
            waiting = blocked.close()
            self._loop_thread = _LoopThread(self._queue, self._leave, self._begun)
            self._loop_thread.given = len(waiting)
            busy = min(self._workers, len(waiting))
            self._free = self._workers - busy
            self._loop_thread.begin(waiting, busy)
            self._slots.notify_all()

    def stop(self) -> None:
        """End the feeder and the loop."""
        with self._slots:
            self._stopping = True
            self._slots.notify_all()
        self._feeder.join()
        self._loop_thread.end()


class _LoopThread:
    """One event loop and its attempts; all methods but `call`, `begin`, `close` and `end` run in the loop."""

    def __init__(
        self, queue: AttemptQueue, leave: Callable[[_LoopThread], None], begun: Callable[[_LoopThread], None]
    ) -> None:
        self._queue, self._leave, self._begun = queue, leave, begun
        self.given = self._taken = 0
        self._loop = asyncio.new_event_loop()
        self._waiting: deque[Attempt] = deque()
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._lost: set[asyncio.Task[None]] = set()
        self._served: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="peira-loop", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many of its attempts wait for a slot."""
        return self.given - self._taken

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the loop, from any thread."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def begin(self, attempts: list[Attempt], slots: int) -> None:
        """Add attempts, and start this many slots; from any thread."""
        # Not in the loop: attempts passed to a blocked loop must be found when it is closed.
        self._waiting.extend(attempts)
        self.call(self._open, slots)

    def _open(self, slots: int) -> None:
        """Start slots."""
        for _ in range(slots):
            self._occupy()

    def _occupy(self) -> None:
        """Start one slot."""
        task = self._loop.create_task(self._serve())
        self._served.add(task)
        task.add_done_callback(self._served.discard)

    async def _serve(self) -> None:
        """One slot: executes attempt after attempt, as long as there are any."""
        here = asyncio.current_task()
        assert here is not None
        while here not in self._lost and (attempt := self._next()) is not None:
            self._taken += 1
            self._begun(self)
            await self._work(attempt, here)
        if here not in self._lost:
            self._leave(self)

    def _next(self) -> Attempt | None:
        """The next waiting attempt; atomic, also while the loop is being closed."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    async def _work(self, attempt: Attempt, here: asyncio.Task[None]) -> None:
        """Execute one attempt and report its end."""
        channel = self._queue.begin(attempt)
        if channel is None:
            return
        self._running[attempt.key] = here
        outcome: Any = None
        failure: BaseException | None = None
        try:
            outcome = await attempt.work.perform(channel, attempt.epoch)
        except BaseException as problem:  # any exception of user code is the attempt's failure
            failure = problem
        self._running.pop(attempt.key, None)
        self._queue.end(attempt, outcome, failure)

    def give_up(self, key: tuple[str, int], answered: threading.Event) -> None:
        """Cancel an attempt and start a slot in place of its own, whether it reacts or not."""
        answered.set()
        task = self._running.pop(key, None)
        if task is not None:
            self._lost.add(task)
            task.cancel()
            self._occupy()

    def close(self) -> list[Attempt]:
        """Start nothing more here; returns the attempts that had not started."""
        return list(iter(self._next, None))

    def end(self) -> None:
        """Give cancelled attempts a moment to finish, then stop the loop; a blocked one is left behind."""
        unwound = asyncio.run_coroutine_threadsafe(self._unwind(), self._loop)
        try:
            unwound.result(timeout=2 * PATIENCE)
        except TimeoutError:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _unwind(self) -> None:
        """Wait briefly for the remaining slots."""
        if self._served:
            await asyncio.wait(set(self._served), timeout=PATIENCE)
