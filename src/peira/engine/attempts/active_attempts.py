"""The attempts under way: how they begin and end, their time limit, and how they are abandoned.

Most begin and end without the lock: they are in a dict that is changed by single operations, and ends are
gathered and settled together.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import peira.engine.calls as model_calls
from peira.core.contracts import Attempt
from peira.core.failpoints import reach
from peira.core.log.events import State
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.attempts.dispatch import Dispatch
from peira.engine.attempts.endings import AbandoningQueue, ActiveAttempt, Settlement, ended
from peira.engine.attempts.waits import Waits
from peira.engine.run_state import RunState
from peira.errors import Abandoned, Parked, TimedOut, unwrapped

GROUP = 256
"""Ends that are settled at once by the worker that brings the last of them."""


class ActiveAttempts:
    def __init__(
        self,
        state: RunState,
        dispatch: Dispatch,
        waits: Callable[[], Waits],
        settlement: Settlement,
        ledger: Callable[[str], model_calls.Ledger],
        settle: Callable[[], None],
    ) -> None:
        """`waits` and `ledger` give what waits and the ledger, once they are needed; `settle` settles ends,
        with the lock held."""
        self._state, self._context, self._dispatch, self._waits = state, state.context, dispatch, waits
        self._settlement, self._ledger, self._settle = settlement, ledger, settle
        self._policy, self._clock = state.context.policy, state.context.clock
        self._hooks, self._scheduler = state.context.hooks, state.scheduler
        self._active: dict[tuple[str, int], ActiveAttempt] = {}
        self._deadlines: list[tuple[float, tuple[str, int]]] = []  # a heap
        self.to_cancel: dict[str, str] = {}
        """Started tasks that were cancelled, and by whom."""

    def __len__(self) -> int:
        return len(self._active)

    def begin(self, attempt: Attempt, queue: AbandoningQueue) -> AttemptChannel | None:
        """The attempt's channel, as it begins; None if it must not begin any more."""
        entry, now = self._scheduler.started.get(attempt.spec.id), self._clock.monotonic()
        claim = self._dispatch.claim_direct if entry is not None and not entry.claimed else None
        channel = AttemptChannel(self._context, attempt, self._ledger, claim)
        active = ActiveAttempt(attempt, channel, now, queue)
        if attempt.epoch > 1:
            active.waited = self._waited(attempt, now)
        if not self._hooks.listening:
            begins = self._begin(active)
        else:
            with self._state.changed:  # its end is told with the lock held, too, and so is told later
                begins = self._begin(active)
                self._tell_began(attempt)
        if begins and self._policy.timeout is not None:
            with self._state.changed:
                heapq.heappush(self._deadlines, (active.began + self._policy.timeout, attempt.key))
        return active.channel if begins else None

    def _waited(self, attempt: Attempt, now: float) -> float:
        """Seconds that the task waited for a model's limits before this attempt."""
        entry = self._scheduler.started.get(attempt.spec.id)
        if entry is None:
            return 0.0
        if entry.parked_at:
            entry.queued, entry.parked_at = entry.queued + now - entry.parked_at, 0.0
        return entry.queued

    def _begin(self, active: ActiveAttempt) -> bool:
        """Count it among what is under way; False if it must not begin. Needs no lock."""
        attempt, state = active.attempt, self._state
        key = attempt.spec.id, attempt.epoch
        self._active[key] = active
        # Looked at after it can be seen, so that no stop misses it.
        if self.to_cancel and (by := self.to_cancel.get(key[0])) is not None:
            if self._active.pop(key, None):
                self._close(active, None, Abandoned(f"cancelled by {by}"), abandoned=True)
            return False
        if not (state.stop or state.fault or state.paused):
            return True
        if self._active.pop(key, None):
            self._dispatch.back([attempt])
        return False

    def _tell_began(self, attempt: Attempt) -> None:
        """Tell those who listen, with the lock held; but not if it was put back. One that a stop has ended
        already was not: its end will be told."""
        entry = self._scheduler.started.get(attempt.spec.id)
        if entry is not None:
            first = entry.tries == 1 and not entry.begun
            entry.begun = True
            unit = self._state.source.unit
            self._hooks.attempt_began(attempt, trial=first and attempt.spec.kind == unit)

    def end(self, attempt: Attempt, outcome: object, problem: BaseException | None) -> float:
        """Take note of how an attempt ended; returns how long it took. Nothing, if it was abandoned."""
        active = self._active.pop((attempt.spec.id, attempt.epoch), None)
        if active is None:
            return 0.0
        if problem is not None:
            problem = unwrapped(problem)
        if active.channel.questions or active.channel.awaits:
            self._waits().begin(attempt, active.channel)
            return self._clock.monotonic() - active.began
        if isinstance(problem, Parked):
            active.channel.close()
            if self._hooks.listening:
                self._hooks.attempt_ended(attempt, State.waiting)
            if problem.seconds < math.inf and (entry := self._scheduler.started.get(attempt.spec.id)):
                entry.parked_at, entry.queued = self._clock.monotonic(), entry.queued + active.channel.queued
            self._dispatch.back([attempt], problem.seconds)
            return self._clock.monotonic() - active.began
        return self._close(active, outcome, problem)

    def _close(
        self, active: ActiveAttempt, outcome: object, problem: BaseException | None, abandoned: bool = False
    ) -> float:
        took, policy = self._clock.monotonic() - active.began, self._policy
        active.ended, active.blobs, active.retry = ended(
            active.channel, took, outcome, problem, policy.output_limit, policy.redraw, active.waited
        )
        active.channel.close(abandoned)
        reach("engine.before_end")
        if self._settlement.add(active) >= GROUP:
            with self._state.changed:
                self._settle()
            self._state.journal.flush()
        return took

    def abandon(self, key: tuple[str, int], why: BaseException) -> None:
        """End an attempt from outside: its channel closes and its worker is freed."""
        active = self._active.pop(key, None)
        if active is not None:
            active.queue.abandon(active.attempt)
            self._close(active, None, why, abandoned=True)

    def abandon_all(self, why: BaseException) -> None:
        """End everything that is under way."""
        for key in list(self._active):
            self.abandon(key, why)

    def cancel(self, tasks: set[str], by: str) -> None:
        """End the attempts at these tasks that are under way."""
        for key in [key for key in list(self._active) if key[0] in tasks]:
            self.abandon(key, Abandoned(f"cancelled by {by}"))

    def late(self, now: float) -> list[tuple[str, int]]:
        """Attempts whose time is over. What they waited in peira's own queues does not count."""
        late, more = [], []
        while self._deadlines and self._deadlines[0][0] <= now:
            key = heapq.heappop(self._deadlines)[1]
            active = self._active.get(key)
            if active is not None and self._policy.timeout is not None:
                due = active.began + self._policy.timeout + active.channel.queued
                late.append(key) if due <= now else more.append((due, key))
        for one in more:
            heapq.heappush(self._deadlines, one)
        return late

    def time_out(self, key: tuple[str, int]) -> None:
        """End an attempt that took too long; its failure says what it was waiting for."""
        active = self._active.get(key)
        calls = active.channel.unanswered if active else 0
        what = f"; {calls} of its model calls {'is' if calls == 1 else 'are'} unanswered" if calls else ""
        self.abandon(key, TimedOut(f"no answer within {self._policy.timeout:g} s (policy.timeout){what}"))
