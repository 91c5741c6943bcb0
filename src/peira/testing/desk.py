"""A desk without an engine: hands out the attempts it was given and keeps what comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from peira.core.contracts import Attempt, Runner
from peira.testing.channel import MemoryChannel, Replies

PATIENCE = 30.0
LOOK_AGAIN = 0.02


@dataclass(frozen=True)
class Left:
    """What a runner left at the desk for one attempt."""

    value: object
    failure: BaseException | None


class ScriptedDesk:
    """`refused` attempts may not begin; what abandoned ones leave is `late`; models give `replies`.

    Waiting for something that does not happen raises TimeoutError.
    """

    def __init__(
        self, attempts: Sequence[Attempt] = (), refused: Sequence[Attempt] = (), replies: Replies = ()
    ) -> None:
        self._replies = replies
        self._waiting = list(attempts)
        self._refused = {attempt.key for attempt in refused}
        self._closed = False
        self._changed = threading.Condition()
        self._abandoned: set[tuple[str, int]] = set()
        self._under_way: dict[tuple[str, int], Attempt] = {}
        self.begun: dict[tuple[str, int], MemoryChannel] = {}
        self.turned_away: list[Attempt] = []
        self.ended: dict[tuple[str, int], list[Left]] = {}
        self.late: dict[tuple[str, int], list[Left]] = {}

    def take(self, n: int, at_once: int = 1) -> list[Attempt]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            taken, self._waiting = self._waiting[:n], self._waiting[n:]
            return taken

    def begin(self, attempt: Attempt) -> MemoryChannel | None:
        with self._changed:
            self._changed.notify_all()
            if attempt.key in self._refused:
                self.turned_away.append(attempt)
                return None
            self._under_way[attempt.key] = attempt
            return self.begun.setdefault(attempt.key, MemoryChannel(replies=self._replies))

    def end(self, attempt: Attempt, outcome: object, failure: BaseException | None) -> None:
        with self._changed:
            self._under_way.pop(attempt.key, None)
            self.begun[attempt.key].close()
            ends = self.late if attempt.key in self._abandoned else self.ended
            ends.setdefault(attempt.key, []).append(Left(outcome, failure))
            self._changed.notify_all()

    def back(self, attempts: Sequence[Attempt]) -> None:
        with self._changed:
            self._waiting[:0] = attempts
            self._changed.notify_all()

    # What a test does with it

    def offer(self, *attempts: Attempt) -> None:
        with self._changed:
            self._waiting += attempts
            self._changed.notify_all()

    def close(self) -> None:
        """There will be no more: whoever waits for work goes home."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self, attempt: Attempt, runner: Runner) -> None:
        """What the engine does on a timeout or a cancellation."""
        with self._changed:
            self._abandoned.add(attempt.key)
            self._under_way.pop(attempt.key, None)
            self.begun[attempt.key].close()
        runner.abandon(attempt)

    def abandon_all(self, runner: Runner) -> None:
        """Abandon whatever is still under way."""
        for attempt in list(self._under_way.values()):
            self.abandon(attempt, runner)

    def wait_begun(self, *attempts: Attempt) -> None:
        self._wait(lambda: all(attempt.key in self.begun for attempt in attempts), "begin")

    def wait_ended(self, *attempts: Attempt) -> list[Left]:
        """How they ended, each once."""
        self._wait(lambda: all(attempt.key in self.ended for attempt in attempts), "end")
        return [left for attempt in attempts for left in self.ended[attempt.key]]

    def wait_late(self, attempt: Attempt) -> None:
        """Until what was abandoned has come to an end by itself."""
        self._wait(lambda: attempt.key in self.late, "end late")

    def wait_said(self, attempt: Attempt) -> None:
        """Until the attempt has logged something."""
        self.wait_begun(attempt)
        self._wait(lambda: bool(self.begun[attempt.key].observed), "say anything")

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not done():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"attempts did not {what} within {PATIENCE:g} s")
                self._changed.wait(LOOK_AGAIN)
