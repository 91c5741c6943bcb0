"""The stopping rule of a run under way: when it is asked, and what its answers change."""

from __future__ import annotations

import threading
from collections.abc import Callable

import peira.engine.sources as sources
from peira.core.contracts import Op
from peira.core.log.events import RunNoted
from peira.engine.run_state import RunState


class _Released:
    """Within it, a lock that is held is not."""

    def __init__(self, lock: threading.Condition) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self._lock.acquire()


class RuleConsultation:
    """Asks the rule of an adaptive source on a thread of its own, and drops what it needs no more."""

    def __init__(self, state: RunState, source: sources.AdaptiveSource, wake_all: Callable[[], None]) -> None:
        """`wake_all` wakes who waits for what the rule says, with the lock held."""
        self._state, self._source, self._wake_all = state, source, wake_all
        self._last_look = self._given_up = False

    def consult(self) -> None:
        """Ask the rule whenever there is something to see, until `close`. A rule is anybody's code, and is
        asked with the lock released."""
        state = self._state
        with state.changed:
            last = False
            while not last:
                state.evident.wait_for(lambda: state.rule_pending or self._last_look)
                last = self._last_look
                stopped = state.stop or state.starved or state.fault or state.scheduler.waiting
                self._ask(last and not stopped)

    def _ask(self, finish: bool) -> None:
        """About all that is complete; to `finish`, about everything once more. With the lock held."""
        evidence, unlocked = self._source.evidence, _Released(self._state.changed)
        self._state.asking_rule = True
        evidence.finish(unlocked) if finish else evidence.drain(unlocked)
        self._state.asking_rule = False
        if not self._given_up:
            self.learn()
        self._wake_all()

    def learn(self) -> None:
        """What the source has learnt is recorded, and what it needs no more is not begun. With the lock
        held."""
        if not self._source.evidence.learnt:
            return
        events = self._source.evidence.news()
        self._state.journal.queue([Op(self._state.context.run, (event,)) for event in events])
        self._state.notices.extend(event.text for event in events if isinstance(event, RunNoted))
        self.drop()

    def drop(self) -> None:
        """Forget trials that the rule does not need any more. With the lock held.

        Those that are claimed are executed: a later run looks at trials in the planned order, and would have
        to make up for one that was left out.
        """
        if self._source.narrowed:
            self._state.scheduler.drop(self._source.unit, self._source.unwanted)

    def close(self) -> None:
        """Everything that was needed is over: the last look is at all of it; then `consult` returns."""
        with self._state.changed:
            self._last_look = True
            self._state.evident.notify()

    def give_up(self) -> None:
        """Nobody waits for the rule any more: what it may still say is not recorded."""
        with self._state.changed:
            self._given_up = True
