"""Dispatch of attempts to workers: who is idle is woken, takes what is ready, and has it claimed.

Workers pull. Idle ones wait on one condition per queue; one is woken for new work, and wakes the next if
there is more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping

from peira.core.contracts import Attempt
from peira.engine.attempts.admission import LOOK_AGAIN, ClaimRequest
from peira.engine.run_state import RunState
from peira.engine.scheduler import TaskEntry
from peira.errors import Parked

QUICK = 128
"""Attempts that so many are claimed ahead of are claimed while others are under way: no worker waits."""


class Dispatch:
    def __init__(self, state: RunState, settle: Callable[[], None]) -> None:
        """`settle` settles ended attempts, with the lock held."""
        self._state, self._settle = state, settle
        self._scheduler, self._admission, self._claims = state.scheduler, state.admission, state.claims
        self._clock = state.context.clock
        self._idle: dict[tuple[str, ...], threading.Condition] = {}  # by the classes that a queue serves
        self._ahead: dict[str, deque[Attempt]] = {}  # claimed for whoever comes next, by class
        self._claiming: dict[str, ClaimRequest] = {}  # on their way to `_ahead`, by class
        self._low: list[threading.Condition] = []  # who claims ahead waits for these
        if state.places is not None:
            state.places.rouse = self._rouse

    def take(self, sizes: Mapping[str, int], spares: Mapping[str, int]) -> list[Attempt]:
        """Attempts of one of these classes, the first that has any: at most as many as its size says.

        Waits for some; empty when there will be none. They are claimed durably, except direct ones. As
        many more as `spares` says are claimed in the same commit if there are, for those who come next.
        """
        changed = self._state.changed
        while True:
            with changed:
                cls, direct, entries = self._wait_for_work(sizes, spares)
                if not cls:
                    return []
                if not (direct or entries) and (ahead := self._ahead.get(cls)):
                    for low in self._low:  # those who claim ahead look whether there is enough
                        low.notify()
                    taken = [ahead.popleft() for _ in range(min(sizes[cls], len(ahead)))]
                    if spares[cls] > QUICK:
                        self._refill(cls, spares[cls])
                    return taken
                request = None if direct or entries else self._claiming[cls]
            if request is not None:
                request.commit.result()
                continue
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
        self, sizes: Mapping[str, int], spares: Mapping[str, int]
    ) -> tuple[str, list[TaskEntry], list[TaskEntry]]:
        """(class, direct tasks, others): tasks that were started now; none if attempts were claimed ahead, or
        are being claimed and nobody waits for that.

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
            paused = state.resting or (state.adaptive and state.rule_pending)
            for cls, size in sizes.items() if not paused else ():
                direct = self._admission.start_direct(cls, size)
                request = self._claiming.get(cls)
                if request is not None and request.commit.done():
                    self._complete(cls)
                entries: list[TaskEntry] = []
                if direct or self._ahead.get(cls):
                    pass
                elif cls in self._claiming:
                    assert request is not None
                    if request.awaited:
                        continue
                    request.awaited = True
                else:
                    spare = spares[cls] if state.places is None else self._spare(cls, spares[cls])
                    entries = self._scheduler.start(cls, size + spare)
                    if not entries:
                        continue
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
        return not self._state.resting and any(
            self._admission.direct.get(cls)
            or self._ahead.get(cls)
            or ((request := self._claiming.get(cls)) and (request.commit.done() or not request.awaited))
            or self._scheduler.ready(cls)
            for cls in classes
        )

    def _refill(self, cls: str, spare: int) -> None:
        """Claim more quick attempts ahead while others are under way. With the lock held."""
        state, ahead = self._state, self._ahead[cls]
        if len(ahead) > spare // 2 or cls in self._claiming or state.places is not None:
            return
        if self._may_begin() and (entries := self._scheduler.start(cls, spare)):
            self._claiming[cls] = self._claims.request(entries)

    def _complete(self, cls: str) -> None:
        """What was claimed is durable, and may be taken. With the lock held."""
        request = self._claiming.pop(cls)
        attempts, _ = self._claims.complete(request)
        self._ahead.setdefault(cls, deque()).extend(attempts)

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

    def claim_ahead(self, wanted: Callable[[], Mapping[str, int]]) -> None:
        """Keep attempts claimed for whoever comes next until the run is over, so that workers do not wait for
        commits; a thread's whole work. `wanted` says how many of each class."""
        state = self._state
        low = threading.Condition(state.lock)
        with state.changed:
            self._low.append(low)
        while True:
            with state.changed:
                while (found := self._short_of(wanted())) is None:
                    if state.stop or state.over:
                        return
                    low.wait()
                cls, n = found
                entries = self._scheduler.start(cls, n)
            attempts, lost = self._claims.claim(entries)
            if lost:
                with state.changed:
                    self._admission.look_again(lost)
            self._keep_ahead(cls, attempts, 0)

    def _short_of(self, wanted: Mapping[str, int]) -> tuple[str, int] | None:
        """A class of which less than half is claimed ahead, and how many more. With the lock held."""
        for cls, n in wanted.items() if self._may_begin() else ():
            claimed = len(self._ahead.get(cls, ()))
            if claimed <= n // 2 and self._scheduler.ready(cls):
                return cls, n - claimed
        return None

    def _may_begin(self) -> bool:
        state = self._state
        over = state.stop or state.over or state.starved
        return not (over or state.resting or (state.adaptive and state.rule_pending))

    def return_ahead(self, tasks: Collection[str] | None = None) -> None:
        """Release what was claimed ahead, or these tasks of it: it may not be wanted any more. With the lock
        held."""
        for request in self._claiming.values():  # nobody may begin them yet; their release is queued behind
            released = [one for one in request.attempts if tasks is None or one.spec.id in tasks]
            gone = {one.spec.id for one in released}
            request.attempts = [one for one in request.attempts if one.spec.id not in gone]
            self.back(released)
        for cls, attempts in self._ahead.items():
            released = [one for one in attempts if tasks is None or one.spec.id in tasks]
            if released:
                gone = {one.spec.id for one in released}
                self._ahead[cls] = deque(one for one in attempts if one.spec.id not in gone)
                self.back(released)

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
        """Wake an idle worker wherever there is something to take, and claimers. With the lock held."""
        for classes, idle in self._idle.items():
            if self._has_work(classes):
                idle.notify()
        for low in self._low:
            low.notify()

    def wake_all(self) -> None:
        """Wake everybody: the run is over or stopped, or may be. With the lock held."""
        self._state.changed.notify_all()
        for idle in (*self._idle.values(), *self._low):
            idle.notify_all()
        self._state.hungry.notify()
