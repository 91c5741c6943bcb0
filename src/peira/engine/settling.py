"""What becomes of attempts that ended: another try, or the task's one end.

Ends are gathered without a lock and settled together, with the execution's lock held: queued for the store,
taken off the schedule, and what follows from them is offered.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from peira.core.clock import Clock
from peira.core.contracts import Attempt, Ended, Op
from peira.core.events import Result, State, TaskFinished, TaskRetried
from peira.engine.channel import AttemptChannel
from peira.engine.endings import back_off
from peira.engine.hooks import Hooks
from peira.engine.intake import Intake
from peira.engine.journal import Journal
from peira.engine.progress import Tally, shared
from peira.engine.scheduler import Entry, Scheduler
from peira.spec.limits import Policy

NOT_YET = Ended(State.running, Result())


class Abandoner(Protocol):
    def abandon(self, attempt: Attempt) -> None: ...


@dataclass(slots=True)
class Active:
    """An attempt under way, who can be told to let go of it, and, once it is over, how it ended."""

    attempt: Attempt
    channel: AttemptChannel
    began: float
    desk: Abandoner
    ended: Ended = NOT_YET
    blobs: tuple[bytes, ...] = ()
    retry: bool = False


class Settling:
    def __init__(
        self,
        run: str,
        journal: Journal,
        scheduler: Scheduler,
        intake: Intake,
        tally: Tally,
        policy: Policy,
        clock: Clock,
        hooks: Hooks,
    ) -> None:
        self._run, self._journal, self._scheduler, self._intake = run, journal, scheduler, intake
        self._tally, self._policy, self._clock, self._hooks = tally, policy, clock, hooks
        self._ends: deque[Active] = deque()

    def add(self, ended: Active) -> int:
        """An end to be settled; how many there are. Needs no lock."""
        self._ends.append(ended)
        return len(self._ends)

    def settle(self, stopping: bool) -> bool:
        """Settle what has ended; False if nothing has. Whoever is `stopping` tries nothing again."""
        ops = []
        while self._ends:
            one = self._ends.popleft()
            entry = self._scheduler.started[one.attempt.spec.id]
            self._hooks.ended(one.attempt, one.ended.state)
            again = one.retry and not stopping and self._may_try_again(entry, one.ended)
            ops.append(self._again(entry, one) if again else self._final(entry, one))
        if ops:
            self._journal.add(ops)
            self._intake.note_blocked()
        return bool(ops)

    def _may_try_again(self, entry: Entry, end: Ended) -> bool:
        return end.state is State.failed and entry.tries <= self._policy.retries

    def _again(self, entry: Entry, one: Active) -> Op:
        wait = back_off(self._policy, entry.tries, entry.spec.id)
        self._scheduler.again(entry.spec.id, self._clock.monotonic() + wait)
        event = TaskRetried(entry.spec.id, entry.epoch, one.ended.result, self._clock.now() + wait)
        return Op(self._run, (event,))

    def _final(self, entry: Entry, one: Active) -> Op:
        spec, end = entry.spec, one.ended
        self._tally.add(spec.kind, end.state)
        self._tally.add(spec.kind, shared(end.state), len(entry.others))
        self._scheduler.end(spec.id, end.state)
        for offer in (entry.offer, *entry.others):
            self._intake.ended(offer, end)
        return Op(self._run, (TaskFinished(spec.id, entry.epoch, end.state, end.result),), one.blobs)
