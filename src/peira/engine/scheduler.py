"""The scheduler: which tasks may start next. Pure bookkeeping: no I/O, no clock, no lock of its own.

There is one ready queue per class, so that a slow class never blocks another. Readiness is updated when
something changes (a need is met, a back-off ends), never by rescanning. A task that was interrupted twice by
the death of its process is *suspect*: it starts only when nothing else is under way, so that another crash
can be attributed to it.

    offered -> (needs not met: held) -> ready -> started -> ended
                                          ^         |
                                          +- later -+   (a retry, after its back-off)
                                          +- asleep +   (until it is woken)
                                          +- waiting +  (until all that it waits for has arrived)
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from types import MappingProxyType

import msgspec

from peira.core.contracts import Offer
from peira.core.log.events import TERMINAL, State, TaskSpec
from peira.engine.places import RunPlaces


class TaskEntry(msgspec.Struct, gc=False):
    """A task that is known and has not ended.

    `epoch` is that of its last attempt; `attempts` counts all attempts ever, `tries` those of this run;
    `begun` is set once an attempt of this run began. `others` are further offers of the same task. `slept`:
    it waited to be woken at least once. `missing` are the needs that have not ended. `parked_at` is when an
    attempt went back to wait for a model's limits (0: it did not), `queued` the seconds of all such waits.
    `claimed` is false while a direct task is under way whose claim is not recorded yet. `awaits` are the keys
    of questions and the ids of tasks that it waits for; `awaits_tasks`: there are tasks among them.
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
    awaits: set[str] | frozenset[str] = frozenset()
    awaits_tasks: bool = False

    @property
    def spec(self) -> TaskSpec:
        """The task."""
        return self.offer.spec


class Scheduler:
    """All tasks at hand, by state; the caller holds the execution's lock.

    `started` are those under way; `blocked` collects tasks whose needs failed, for the caller to end;
    `waiting` are those that wait for people or tasks; `arrived` collects tasks that wait no more, for the
    caller to record.
    """

    def __init__(self, suspect_after: int = 2, places: RunPlaces | None = None) -> None:
        """`suspect_after` is the number of interruptions after which a task is suspect; `places` limits how
        many may be started at once, together with other runs."""
        self._places = places
        self.started: dict[str, TaskEntry] = {}
        self._known: dict[str, TaskEntry] = {}  # all that have not ended, by id
        self._plain: dict[str, deque[TaskEntry]] = {}  # ready, priority 0, by class
        self._urgent: dict[str, list[tuple[int, int, TaskEntry]]] = {}  # ready, by priority: heaps
        self._priorities: dict[str, Counter[int]] = {}  # how many of each priority those are, by class
        self._held: dict[str, list[TaskEntry]] = {}  # those that wait for a need, by need
        self._later: list[tuple[float, int, TaskEntry]] = []  # in back-off: a heap by time
        self._asleep: dict[str, TaskEntry] = {}  # until `wake`
        self._woken: set[str] = set()  # started ones that must not go to sleep
        self._suspects: deque[TaskEntry] = deque()  # ready, to be started alone
        self._alone = ""  # the suspect that was started last
        self._unmet: dict[str, TaskEntry] = {}  # those with unmet needs
        self.waiting: dict[str, TaskEntry] = {}  # those that wait for people or tasks
        self._awaited: dict[str, list[TaskEntry]] = {}  # the same, by what they wait for
        self._order = count()  # breaks ties in heaps, first come first served
        self._suspect_after = suspect_after
        self.blocked: list[TaskEntry] = []
        self.arrived: list[TaskEntry] = []

    def offer(self, entry: TaskEntry, ended: Mapping[str, State] = MappingProxyType({})) -> bool:
        """Add a task; `ended` has the states of its needs that ended. False if it is known already.

        One that has `awaits` began before, so that its needs are met: it waits.
        """
        if (same := self._known.get(entry.offer.spec.id)) is not None:
            same.others += (entry.offer,)
            return False
        self._known[entry.offer.spec.id] = entry
        if entry.awaits:
            self._set_aside(entry)
        elif not entry.offer.spec.needs or self._met(entry, ended):
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
        del self._known[entry.offer.spec.id], self.started[entry.offer.spec.id]

    def _met(self, entry: TaskEntry, ended: Mapping[str, State]) -> bool:
        """Whether every need is met. If not, the task waits for them, or is blocked by a failed one."""
        if any(ended.get(need, State.succeeded) is not State.succeeded for need in entry.offer.spec.needs):
            self._block(entry)
            return False
        entry.missing = set(entry.offer.spec.needs) - ended.keys()
        for need in entry.missing:
            self._held.setdefault(need, []).append(entry)
        if entry.missing:
            self._unmet[entry.offer.spec.id] = entry
        return not entry.missing

    def _block(self, first: TaskEntry) -> None:
        """Block a task and, transitively, all tasks that need it."""
        chain = [first]
        while chain:
            entry = chain.pop()
            self.blocked.append(entry)
            del self._known[entry.offer.spec.id]
            for waiting in self._held.pop(entry.offer.spec.id, ()):
                self._forget(waiting)
                chain.append(waiting)
            if self._awaited:
                self.arrive((entry.offer.spec.id,))

    def _ready(self, entry: TaskEntry) -> None:
        """Put a task whose needs are met into the queue it belongs to."""
        if entry.not_before == math.inf:
            entry.slept = True
            self._asleep[entry.offer.spec.id] = entry
        elif entry.not_before:
            heapq.heappush(self._later, (entry.not_before, next(self._order), entry))
        elif entry.interruptions >= self._suspect_after:
            self._suspects.append(entry)
        elif entry.offer.spec.priority:
            cls, priority = entry.offer.spec.cls, entry.offer.spec.priority
            heapq.heappush(self._urgent.setdefault(cls, []), (-priority, next(self._order), entry))
            self._priorities.setdefault(cls, Counter())[priority] += 1
        else:
            self._plain.setdefault(entry.offer.spec.cls, deque()).append(entry)

    def ripen(self, now: float) -> float | None:
        """Make tasks ready whose back-off is over at `now`; returns when the next one will be."""
        while self._later and self._later[0][0] <= now:
            entry = heapq.heappop(self._later)[2]
            entry.not_before = 0.0
            self._ready(entry)
        return self._later[0][0] if self._later else None

    def wake(self, tasks: Iterable[str]) -> None:
        """Make these tasks ready again: sleeping ones at once, started ones when they would sleep, and those
        with unmet needs when these are met."""
        for task in tasks:
            if task in self._asleep:
                entry = self._asleep.pop(task)
                entry.not_before = 0.0
                self._ready(entry)
            elif task in self.started:
                self._woken.add(task)
            elif (held := self._unmet.get(task)) is not None and held.not_before == math.inf:
                held.not_before = 0.0

    def wait(self, task: str, keys: Iterable[str], tasks: bool = False) -> None:
        """Put a started task aside until all of these questions and tasks have arrived; `tasks`: there are
        tasks among them. It is ready at once if there are none."""
        entry = self._stopped(task)
        self._woken.discard(task)
        entry.awaits, entry.awaits_tasks, entry.not_before = set(keys), tasks, 0.0
        if entry.awaits:
            self._set_aside(entry)
        else:
            self._ready(entry)

    def _set_aside(self, entry: TaskEntry) -> None:
        entry.awaits = set(entry.awaits)
        self.waiting[entry.offer.spec.id] = entry
        for key in entry.awaits:
            self._awaited.setdefault(key, []).append(entry)

    def arrive(self, keys: Iterable[str]) -> None:
        """These questions were closed, or these tasks ended: who waits for nothing else becomes ready."""
        for key in keys:
            for entry in self._awaited.pop(key, ()):
                entry.awaits = entry.awaits - {key}
                if not entry.awaits:
                    del self.waiting[entry.offer.spec.id]
                    self.arrived.append(entry)
                    self._ready(entry)

    def awaits(self, task: str) -> bool:
        """Whether the task waits for people or tasks."""
        return task in self.waiting

    def knows(self, task: str) -> bool:
        """Whether the task is at hand and has not ended."""
        return task in self._known

    def waiting_of(self, kind: str) -> int:
        """The number of offers of a kind whose tasks wait."""
        entries = self.waiting.values()
        return sum(1 + len(entry.others) for entry in entries if entry.offer.spec.kind == kind)

    @property
    def only_waiting(self) -> bool:
        """Whether tasks wait for people or tasks, and nothing else can happen before one of these arrives."""
        others = len(self._known) - len(self.waiting) - len(self._unmet)
        return bool(self.waiting) and not others

    def belonging(self, belongs: Callable[[Offer], bool]) -> list[str]:
        """The tasks at hand, started or not, one of whose offers belongs; looks at all of them."""
        found = []
        for task, entry in self._known.items():
            if belongs(entry.offer) or any(map(belongs, entry.others)):
                found.append(task)
        return found

    def not_started(self, kind: str) -> list[TaskEntry]:
        """The tasks of a kind that are at hand and not started."""
        return [
            entry
            for task, entry in self._known.items()
            if entry.offer.spec.kind == kind and task not in self.started
        ]

    def remove(self, tasks: Collection[str]) -> list[TaskEntry]:
        """Forget those of these tasks that are at hand and not started, in whatever queue; the caller ends
        them."""
        found = [self._known[task] for task in tasks if task in self._known and task not in self.started]
        for entry in found:
            task = entry.offer.spec.id
            del self._known[task]
            if task in self._unmet:
                self._forget(entry)
            elif task in self.waiting:
                del self.waiting[task]
                for key in entry.awaits:
                    self._awaited[key].remove(entry)
            else:
                self._asleep.pop(task, None)
        if found:
            self._filter(lambda entry: entry.offer.spec.id in self._known)
        return found

    def _filter(self, kept: Callable[[TaskEntry], bool]) -> None:
        """Remove tasks from the queues of those that are ready or in back-off."""
        for queue in (*self._plain.values(), self._suspects):
            left = [entry for entry in queue if kept(entry)]
            queue.clear()
            queue.extend(left)
        for cls, heap in self._urgent.items():
            heap[:] = [item for item in heap if kept(item[2])]
            heapq.heapify(heap)
            self._priorities[cls] = Counter(-item[0] for item in heap)
        self._later = [item for item in self._later if kept(item[2])]
        heapq.heapify(self._later)

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

    def ready_from(self, cls: str, priority: int) -> int:
        """The number of ready tasks of the class that have at least this priority."""
        found = sum(n for one, n in self._priorities.get(cls, {}).items() if one >= priority)
        return found + (len(self._plain.get(cls, ())) if priority <= 0 else 0)

    def start(self, cls: str, n: int) -> list[TaskEntry]:
        """Start up to `n` ready tasks of the class: highest priority first, then first come.

        A suspect task is started alone.
        """
        ready = self.ready(cls)
        if not ready:
            return []
        if self._places is not None:
            n = self._places.take(cls, min(n, ready))
            if not n:
                return []
        if self._suspects:
            taken = [self._suspects.popleft()]
            self._alone = taken[0].spec.id
        else:
            taken = list(self._take(cls, n))
        for entry in taken:
            self.started[entry.offer.spec.id] = entry
        return taken

    def _stopped(self, task: str) -> TaskEntry:
        """A started task is under way no more: others may have its place."""
        entry = self.started.pop(task)
        if self._places is not None:
            self._places.give_back(entry.spec.cls)
        return entry

    def _take(self, cls: str, n: int) -> Iterable[TaskEntry]:
        """Remove up to `n` tasks from the queues of the class, positive priorities first."""
        urgent, plain = self._urgent.get(cls, []), self._plain.get(cls, deque())
        for _ in range(min(n, len(urgent) + len(plain))):
            if urgent and (-urgent[0][0] > 0 or not plain):
                priority, _, entry = heapq.heappop(urgent)
                self._note_taken(cls, -priority)
                yield entry
            else:
                yield plain.popleft()

    def _note_taken(self, cls: str, priority: int) -> None:
        """One of this priority is not ready any more."""
        counts = self._priorities[cls]
        counts[priority] -= 1
        if not counts[priority]:
            del counts[priority]

    def again(self, task: str, not_before: float = 0.0) -> None:
        """Reschedule a started task: its attempt failed or never began.

        It becomes ready at `not_before` (monotonic time); `inf` means asleep until it is woken.
        """
        entry = self._stopped(task)
        woken = task in self._woken and not_before == math.inf
        entry.not_before = 0.0 if woken else not_before
        self._woken.discard(task)
        self._ready(entry)

    def end(self, task: str, state: State) -> None:
        """A started task ended in this state."""
        if self._places is None:
            del self.started[task]
        else:
            self._stopped(task)
        if self._woken:
            self._woken.discard(task)
        if self._held or self._awaited:
            self.settle(task, state)
        else:  # nobody waits for it
            self._known.pop(task, None)

    def settle(self, task: str, state: State) -> None:
        """A task ended, here or (reused) earlier: tasks that need it become ready or blocked."""
        assert state in TERMINAL, state
        self._known.pop(task, None)
        for entry in self._held.pop(task, ()) if self._held else ():
            if entry.offer.spec.id in self._unmet:  # not blocked meanwhile by another need
                self._release(entry, task, state)
        if self._awaited:
            self.arrive((task,))

    def _release(self, entry: TaskEntry, need: str, state: State) -> None:
        """Note for a task with unmet needs that one of them ended."""
        entry.missing = entry.missing - {need}
        if state is not State.succeeded:
            self._forget(entry)
            self._block(entry)
        elif not entry.missing:
            del self._unmet[entry.offer.spec.id]
            self._ready(entry)

    def _forget(self, entry: TaskEntry) -> None:
        """Remove a task with unmet needs from the lists of all of these."""
        del self._unmet[entry.offer.spec.id]
        for need in entry.missing:
            if need in self._held:
                self._held[need].remove(entry)
        entry.missing = frozenset()

    @property
    def stuck(self) -> bool:
        """Whether every known task has unmet needs: then no need will be met any more."""
        return bool(self._unmet) and len(self._unmet) == len(self._known)

    def drop(self, kind: str, unwanted: Callable[[str], bool] = lambda task: True) -> list[TaskEntry]:
        """Forget tasks of a kind (those `unwanted`) that have not started and need no other task.

        They are not done in this run. Tasks that have slept are kept, since the calls they slept for were
        paid; so are those that wait.
        """

        dropped: list[TaskEntry] = []

        def kept(entry: TaskEntry) -> bool:
            found = entry.offer.spec.kind == kind and not entry.slept and unwanted(entry.offer.spec.id)
            if found:
                del self._known[entry.offer.spec.id]
                dropped.append(entry)
            return not found

        self._filter(kept)
        return dropped

    def give_up_waiting(self) -> None:
        """Block all tasks with unmet needs: nobody can meet them any more."""
        while self._unmet:
            entry = next(iter(self._unmet.values()))
            self._forget(entry)
            self._block(entry)

    def __len__(self) -> int:
        """The number of tasks that have not ended."""
        return len(self._known)

    @property
    def idle(self) -> bool:
        """Whether all tasks have ended."""
        return not self._known
