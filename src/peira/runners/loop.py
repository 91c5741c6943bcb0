"""An event loop in a thread of its own: for agents and evaluators that are `async def`.

A feeder thread claims attempts and hands them to the loop, which therefore never waits for the store.
Somewhat more are claimed than there are places, and of short attempts many more: a place takes the next as
soon as it is done with one, and claims are made by the batch. A loop that an agent has blocked is left to
itself, and another takes its place.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from peira.core.contracts import Attempt, Desk

BATCH = 1024
AHEAD = 2
"""One attempt is kept in waiting for so many places."""
PATIENCE = 0.5
"""How long a loop may take to answer before it counts as blocked."""


class LoopRunner:
    name = "loop"

    def __init__(self) -> None:
        self._places = threading.Condition()
        self._free = 0
        self._stopping = False

    def start(self, desk: Desk, workers: int) -> None:
        self._desk, self._workers, self._free = desk, workers, workers
        self._ahead = workers // AHEAD
        self._hall = _Hall(desk, self._leave, self._begun)
        self._feeder = threading.Thread(target=self._feed, name="peira-feeder", daemon=True)
        self._feeder.start()

    def _feed(self) -> None:
        while attempts := self._desk.take(BATCH, self._wait_for_room()):
            with self._places:
                busy = min(self._free, len(attempts))
                self._free -= busy
                self._hall.given += len(attempts)
                self._hall.begin(attempts, busy)

    def _wait_for_room(self) -> int:
        """How many attempts the loop has room for: at free places, and waiting for one."""
        with self._places:
            self._places.wait_for(lambda: self._free > 0 or self._low or self._stopping)
            return max(1, self._free + self._ahead - self._hall.waiting)

    @property
    def _low(self) -> bool:
        return self._hall.waiting < self._ahead / 2

    def _begun(self, hall: _Hall) -> None:
        """An attempt left those in waiting."""
        if hall is self._hall and self._low:
            with self._places:
                self._places.notify()

    def _leave(self, hall: _Hall) -> None:
        with self._places:
            if hall is self._hall:
                self._free += 1
                self._places.notify()

    def abandon(self, attempt: Attempt) -> None:
        hall, answered = self._hall, threading.Event()
        hall.call(hall.give_up, attempt.key, answered)
        if not answered.wait(PATIENCE):
            self._replace(hall)

    def _replace(self, blocked: _Hall) -> None:
        """A new loop; what had not begun in the blocked one begins here."""
        with self._places:
            if blocked is not self._hall:
                return
            waiting = blocked.close()
            self._hall = _Hall(self._desk, self._leave, self._begun)
            self._hall.given = len(waiting)
            busy = min(self._workers, len(waiting))
            self._free = self._workers - busy
            self._hall.begin(waiting, busy)
            self._places.notify_all()

    def stop(self) -> None:
        with self._places:
            self._stopping = True
            self._places.notify_all()
        self._feeder.join()
        self._hall.end()


class _Hall:
    """One event loop and the attempts in it. All but `call`, `begin`, `close` and `end` runs in the loop."""

    def __init__(self, desk: Desk, leave: Callable[[_Hall], None], begun: Callable[[_Hall], None]) -> None:
        self._desk, self._leave, self._begun = desk, leave, begun
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
        """How many attempts were given to it, and wait for a place."""
        return self.given - self._taken

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    def begin(self, attempts: list[Attempt], places: int) -> None:
        # Not by the loop itself: what is given to a blocked one must be found when it is closed.
        self._waiting.extend(attempts)
        self.call(self._open, places)

    def _open(self, places: int) -> None:
        for _ in range(places):
            self._occupy()

    def _occupy(self) -> None:
        task = self._loop.create_task(self._serve())
        self._served.add(task)
        task.add_done_callback(self._served.discard)

    async def _serve(self) -> None:
        """One place: attempt after attempt, as long as there are any."""
        here = asyncio.current_task()
        assert here is not None
        while here not in self._lost and (attempt := self._next()) is not None:
            self._taken += 1
            self._begun(self)
            await self._work(attempt, here)
        if here not in self._lost:
            self._leave(self)

    def _next(self) -> Attempt | None:
        """Whoever gets one has it alone, also while this is being closed."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    async def _work(self, attempt: Attempt, here: asyncio.Task[None]) -> None:
        channel = self._desk.begin(attempt)
        if channel is None:
            return
        self._running[attempt.key] = here
        outcome: Any = None
        failure: BaseException | None = None
        try:
            outcome = await attempt.work.perform(channel, attempt.epoch)
        except BaseException as problem:  # whatever user code raises is how its attempt ended
            failure = problem
        self._running.pop(attempt.key, None)
        self._desk.end(attempt, outcome, failure)

    def give_up(self, key: tuple[str, int], answered: threading.Event) -> None:
        """Cancel what runs there and open its place to others, whether it heeds that or not."""
        answered.set()
        task = self._running.pop(key, None)
        if task is not None:
            self._lost.add(task)
            task.cancel()
            self._occupy()

    def close(self) -> list[Attempt]:
        """Begin nothing more here; returns what had not begun."""
        return list(iter(self._next, None))

    def end(self) -> None:
        """Let what was cancelled come to its end, briefly; a blocked loop is left behind."""
        unwound = asyncio.run_coroutine_threadsafe(self._unwind(), self._loop)
        try:
            unwound.result(timeout=2 * PATIENCE)
        except TimeoutError:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _unwind(self) -> None:
        if self._served:
            await asyncio.wait(set(self._served), timeout=PATIENCE)
