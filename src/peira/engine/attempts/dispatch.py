"""Dispatch of attempts to workers: who is idle is woken, takes what is ready, and has it claimed.

Workers pull. Idle ones wait on one condition per desk; one is woken for new work, and wakes the next if there
is more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from peira.core.contracts import Attempt
from peira.engine.attempts.admission import LOOK_AGAIN
from peira.engine.run_state import RunState
from peira.engine.scheduler import TaskEntry
from peira.errors import Parked


class Dispatch:
    def __init__(self, state: RunState, settle: Callable[[], None]) -> None:
        """`settle` settles ended attempts, with the lock held."""
        self._state, self._settle = state, settle
        self._scheduler, self._admission, self._claims = state.scheduler, state.admission, state.claims
        self._clock = state.context.clock
        self._idle: dict[tuple[str, ...], threading.Condition] = {}  # by the classes that a desk serves
        self._ahead: dict[str, deque[Attempt]] = {}  # claimed for whoever comes next, by class
        if state.places is not None:
            state.places.rouse = self._rouse

    def take(self, sizes: Mapping[str, int], spare: int = 0) -> list[Attempt]:
        """Attempts of one of these classes, the first that has any: at most as many as its size says.

        Waits for some; empty when there will be none. They are claimed durably, except direct ones. `spare`
        more are claimed in the same commit if there are, for those who come next.
        """
        changed = self._state.changed
        while True:
            with changed:
                cls, direct, entries = self._wait_for_work(sizes, spare)
                if not cls:
                    return []
                if not (direct or entries):
                    ahead = self._ahead[cls]
                    return [ahead.popleft() for _ in range(min(sizes[cls], len(ahead)))]
            if entries:
                attempts, lost = self._claims.claim(entries)
                if lost:
                    with changed:
                        self._admission.look_again(lost)
                if attempts:
                    return self._keep_ahead(cls, attempts, sizes[cls])
                continue
            if attempts := self._admission.admit_direct(direct, changed):
                return attempts
            with changed:  # all of them were recorded: some are ready to be tried again, perhaps
                self.call_workers()

    def _wait_for_work(
        self, sizes: Mapping[str, int], spare: int
    ) -> tuple[str, list[TaskEntry], list[TaskEntry]]:
        """(class, direct tasks, others): tasks that were started now; none if attempts were claimed ahead.

        The class is "" if there will be no more. With the lock held.
        """
        state, idle = self._state, self._idle.get(tuple(sizes))
        if idle is None:
            idle = self._idle[tuple(sizes)] = threading.Condition(state.lock)
        while True:
            self._settle()
            if state.stop or state.over:
                self.wake_all()
                return "", [], []
            for cls, size in (
                sizes.items() if not (state.paused or (state.adaptive and state.rule_pending)) else ()
            ):
                direct = self._admission.start_direct(cls, size)
                ahead = self._ahead.get(cls)
                entries = (
                    []
                    if direct or ahead
                    else self._scheduler.start(
                        cls, size + (spare if state.places is None else self._spare(cls, spare))
                    )
                )
                if direct or ahead or entries:
                    if self._has_work(sizes):
                        idle.notify()
                    return cls, direct, entries
            idle.wait()

    def _spare(self, cls: str, spare: int) -> int:
        """How many to claim in advance: none where that would take places from other runs."""
        places = self._state.places
        return spare if places is None or not places.limits(cls) else 0

    def _rouse(self) -> bool:
        """A place is free that this run has waited for: let a worker look; whether there is work."""
        with self._state.changed:
            self.call_workers()
            return not self._state.over and any(map(self._has_work, self._idle))

    def _has_work(self, classes: Iterable[str]) -> bool:
        return not self._state.paused and any(
            self._admission.direct.get(cls) or self._ahead.get(cls) or self._scheduler.ready(cls)
            for cls in classes
        )

    def _keep_ahead(self, cls: str, attempts: list[Attempt], n: int) -> list[Attempt]:
        """The first n of these attempts; the others are kept for those who come next."""
        state = self._state
        if len(attempts) > n:
            with state.changed:
                self._ahead.setdefault(cls, deque()).extend(attempts[n:])
                if state.stop or state.starved or state.paused:
                    self.return_ahead()
                self.call_workers()
        return attempts[:n]

    def return_ahead(self) -> None:
        """Release what was claimed ahead: it may not be wanted any more. With the lock held."""
        for attempts in self._ahead.values():
            self.back(list(attempts))
            attempts.clear()

    def back(self, attempts: list[Attempt], wait: float = 0.0) -> None:
        """Attempts that were taken and will not begin, or that are to be made again after a wait."""
        if not attempts:
            return
        with self._state.changed:
            self._claims.release(attempts, [self._scheduler.started[one.spec.id] for one in attempts])
            for attempt in attempts:
                self._scheduler.again(attempt.spec.id, self._clock.monotonic() + wait if wait else 0.0)
            self.call_workers()

    def claim_direct(self, task: str) -> None:
        """Claim a direct task that is under way, durably, unless that was done.

        In a shared run another process may have it: then it is looked at again later.
        """
        state, claim = self._state, None
        with state.changed:
            entry = self._scheduler.started.get(task)
            if entry is not None and not entry.claimed:
                claim = state.journal.send(self._claims.claim_direct([entry]))
        if state.context.shared and entry is not None and claim is not None and claim.result()[-1]:
            entry.claimed = False
            raise Parked(LOOK_AGAIN, "another process has it")
        state.journal.drain()

    def call_workers(self) -> None:
        """Wake an idle worker wherever there is something to take. With the lock held."""
        for classes, idle in self._idle.items():
            if self._has_work(classes):
                idle.notify()

    def wake_all(self) -> None:
        """Wake everybody: the run is over or stopped, or may be. With the lock held."""
        self._state.changed.notify_all()
        for idle in self._idle.values():
            idle.notify_all()
        self._state.hungry.notify()
