"""The scheduler: which tasks may start next. Pure bookkeeping: no I/O, no clock, no lock of its own.

There is one ready queue per class, so that a slow class never blocks another. Readiness is updated when
something changes (a need is met, a back-off ends), never by rescanning. A task that was interrupted twice by
the death of its process is *suspect*: it starts only when nothing else is under way, so that another crash
can be attributed to it.

    offered -> (needs not met: held) -> ready -> started -> ended
                                          ^         |
                                          +- later -+   (a retry, after its back-off)
                                          +- asleep +   (until it is woken)
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from types import MappingProxyType

import msgspec

from peira.core.contracts import Offer
from peira.core.log.events import TERMINAL, State, TaskSpec


class TaskEntry(msgspec.Struct, gc=False):
    """A task that is known and has not ended.

    `epoch` is that of its last attempt; `attempts` counts all attempts ever, `tries` those of this run;
    `begun` is set once an attempt of this run began. `others` are further offers of the same task. `slept`:
    it waited to be woken at least once. `missing` are the needs that have not ended. `parked_at` is when an
    attempt went back to wait for a model's limits (0: it did not), `queued` the seconds of all such waits.
    `claimed` is false while a direct task is under way whose claim is not recorded yet.
    """

    offer: Offer
    epoch: int = 0
    interruptions: int = 0
    attempts: int = 0
    tries: int = 0
    begun: bool = False
    others: tuple[Offer, ...] = ()
    not_before: float = 0.0
    slept: bool = False
    missing: set[str] | frozenset[str] = frozenset()
    parked_at: float = 0.0
    queued: float = 0.0
    claimed: bool = True

    @property
    def spec(self) -> TaskSpec:
        """The task."""
        return self.offer.spec


class Scheduler:
    """All tasks at hand, by state; the caller holds the execution's lock.

    `started` are those under way; `blocked` collects tasks whose needs failed, for the caller to end.
    """

    def __init__(self, suspect_after: int = 2) -> None:
        """`suspect_after` is the number of interruptions after which a task is suspect."""
        self.started: dict[str, TaskEntry] = {}
        self._known: dict[str, TaskEntry] = {}  # all that have not ended, by id
        self._plain: dict[str, deque[TaskEntry]] = {}  # ready, priority 0, by class
        self._urgent: dict[str, list[tuple[int, int, TaskEntry]]] = {}  # ready, by priority: heaps
        self._held: dict[str, list[TaskEntry]] = {}  # those that wait for a need, by need
        self._later: list[tuple[float, int, TaskEntry]] = []  # in back-off: a heap by time
        self._asleep: dict[str, TaskEntry] = {}  # until `wake`
        self._woken: set[str] = set()  # started ones that must not go to sleep
        self._suspects: deque[TaskEntry] = deque()  # ready, to be started alone
        self._alone = ""  # the suspect that was started last
        self._waiting: dict[str, TaskEntry] = {}  # those with unmet needs
        self._order = count()  # breaks ties in heaps, first come first served
        self._suspect_after = suspect_after
        self.blocked: list[TaskEntry] = []

    def offer(self, entry: TaskEntry, ended: Mapping[str, State] = MappingProxyType({})) -> bool:
        """Add a task; `ended` has the states of its needs that ended. False if it is known already."""
        if (same := self._known.get(entry.spec.id)) is not None:
            same.others += (entry.offer,)
            return False
        self._known[entry.spec.id] = entry
        if not entry.spec.needs or self._met(entry, ended):
            self._ready(entry)
        return True

    def start_direct(self, entry: TaskEntry) -> bool:
        """Add a task without needs as started already; False if it is known already."""
        task = entry.offer.spec.id
        if (same := self._known.get(task)) is not None:
            same.others += (entry.offer,)
            return False
        self._known[task] = self.started[task] = entry
        return True

    def withdraw(self, entry: TaskEntry) -> None:
        """Forget a started task, as if it had never been offered."""
        del self._known[entry.spec.id], self.started[entry.spec.id]

    def _met(self, entry: TaskEntry, ended: Mapping[str, State]) -> bool:
        """Whether every need is met. If not, the task waits for them, or is blocked by a failed one."""
        if any(ended.get(need, State.succeeded) is not State.succeeded for need in entry.spec.needs):
            self._block(entry)
            return False
        entry.missing = set(entry.spec.needs) - ended.keys()
        for need in entry.missing:
            self._held.setdefault(need, []).append(entry)
        if entry.missing:
            self._waiting[entry.spec.id] = entry
        return not entry.missing

    def _block(self, first: TaskEntry) -> None:
        """Block a task and, transitively, all tasks that need it."""
        chain = [first]
        while chain:
            entry = chain.pop()
            self.blocked.append(entry)
            del self._known[entry.spec.id]
            for waiting in self._held.pop(entry.spec.id, ()):
                self._forget(waiting)
                chain.append(waiting)

    def _ready(self, entry: TaskEntry) -> None:
        """Put a task whose needs are met into the queue it belongs to."""
        if entry.not_before == math.inf:
            entry.slept = True
            self._asleep[entry.spec.id] = entry
        elif entry.not_before:
            heapq.heappush(self._later, (entry.not_before, next(self._order), entry))
        elif entry.interruptions >= self._suspect_after:
            self._suspects.append(entry)
        elif entry.spec.priority:
            heap = self._urgent.setdefault(entry.spec.cls, [])
            heapq.heappush(heap, (-entry.spec.priority, next(self._order), entry))
        else:
            self._plain.setdefault(entry.spec.cls, deque()).append(entry)

    def ripen(self, now: float) -> float | None:
        """Make tasks ready whose back-off is over at `now`; returns when the next one will be."""
        while self._later and self._later[0][0] <= now:
            entry = heapq.heappop(self._later)[2]
            entry.not_before = 0.0
            self._ready(entry)
        return self._later[0][0] if self._later else None

    def wake(self, tasks: Iterable[str]) -> None:
        """Make these tasks ready again: sleeping ones at once, started ones when they would sleep."""
        for task in tasks:
            if task in self._asleep:
                entry = self._asleep.pop(task)
                entry.not_before = 0.0
                self._ready(entry)
            elif task in self.started:
                self._woken.add(task)

    @property
    def asleep(self) -> int:
        """The number of tasks that wait to be woken."""
        return len(self._asleep)

    @property
    def resting(self) -> bool:
        """Whether tasks are asleep, and none is started or ready."""
        ready = any(self._plain.values()) or any(self._urgent.values()) or self._suspects
        return bool(self._asleep) and not self.started and not ready

    def ready(self, cls: str) -> int:
        """The number of tasks of the class that could start now."""
        if self._suspects:
            return int(not self.started and self._suspects[0].spec.cls == cls)
        if self._alone in self.started:
            return 0
        return len(self._plain.get(cls, ())) + len(self._urgent.get(cls, ()))

    def start(self, cls: str, n: int) -> list[TaskEntry]:
        """Start up to `n` ready tasks of the class: highest priority first, then first come.

        A suspect task is started alone.
        """
        if not self.ready(cls):
            return []
        if self._suspects:
            taken = [self._suspects.popleft()]
            self._alone = taken[0].spec.id
        else:
            taken = list(self._take(cls, n))
        for entry in taken:
            self.started[entry.spec.id] = entry
        return taken

    def _take(self, cls: str, n: int) -> Iterable[TaskEntry]:
        """Remove up to `n` tasks from the queues of the class, positive priorities first."""
        urgent, plain = self._urgent.get(cls, []), self._plain.get(cls, deque())
        for _ in range(min(n, len(urgent) + len(plain))):
            if urgent and (-urgent[0][0] > 0 or not plain):
                yield heapq.heappop(urgent)[2]
            else:
                yield plain.popleft()

    def again(self, task: str, not_before: float = 0.0) -> None:
        """Reschedule a started task: its attempt failed or never began.

        It becomes ready at `not_before` (monotonic time); `inf` means asleep until it is woken.
        """
        entry = self.started.pop(task)
        woken = task in self._woken and not_before == math.inf
        entry.not_before = 0.0 if woken else not_before
        self._woken.discard(task)
        self._ready(entry)

    def end(self, task: str, state: State) -> None:
        """A started task ended in this state."""
        del self.started[task]
        if self._woken:
            self._woken.discard(task)
        self.settle(task, state)

    def settle(self, task: str, state: State) -> None:
        """A task ended, here or (reused) earlier: tasks that need it become ready or blocked."""
        assert state in TERMINAL, state
        self._known.pop(task, None)
        for entry in self._held.pop(task, ()) if self._held else ():
            if entry.spec.id in self._waiting:  # not blocked meanwhile by another need
                self._release(entry, task, state)

    def _release(self, entry: TaskEntry, need: str, state: State) -> None:
        """Note for a waiting task that one of its needs ended."""
        entry.missing = entry.missing - {need}
        if state is not State.succeeded:
            self._forget(entry)
            self._block(entry)
        elif not entry.missing:
            del self._waiting[entry.spec.id]
            self._ready(entry)

    def _forget(self, entry: TaskEntry) -> None:
        """Remove a waiting task from the lists of all its needs."""
        del self._waiting[entry.spec.id]
        for need in entry.missing:
            if need in self._held:
                self._held[need].remove(entry)
        entry.missing = frozenset()

    @property
    def stuck(self) -> bool:
        """Whether every known task waits for a need: then no need will be met any more."""
        return bool(self._waiting) and len(self._waiting) == len(self._known)

    def drop(self, kind: str, unwanted: Callable[[str], bool] = lambda task: True) -> None:
        """Forget tasks of a kind (those `unwanted`) that have not started and need no other task.

        They are not done in this run. Tasks that have slept are kept, since the calls they slept for were
        paid.
        """

        def dropped(entry: TaskEntry) -> bool:
            found = entry.spec.kind == kind and not entry.slept and unwanted(entry.spec.id)
            if found:
                del self._known[entry.spec.id]
            return found

        for queue in (*self._plain.values(), self._suspects):
            kept = [entry for entry in queue if not dropped(entry)]
            queue.clear()
            queue.extend(kept)
        for heap in self._urgent.values():
            heap[:] = [item for item in heap if not dropped(item[2])]
            heapq.heapify(heap)
        self._later = [item for item in self._later if not dropped(item[2])]
        heapq.heapify(self._later)

    def give_up_waiting(self) -> None:
        """Block all waiting tasks: nobody can meet their needs any more."""
        while self._waiting:
            entry = next(iter(self._waiting.values()))
            self._forget(entry)
            self._block(entry)

    def __len__(self) -> int:
        """The number of tasks that have not ended."""
        return len(self._known)

    @property
    def idle(self) -> bool:
        """Whether all tasks have ended."""
        return not self._known
