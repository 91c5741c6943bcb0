"""What may start next: pure bookkeeping over tasks, no I/O, no clock of its own, no lock.

One ready queue per class, so that a slow class never blocks another. Readiness is found as it
arises (a need met, a back-off over), never by rescanning. A task that was twice found in a dead
process is *suspect* and starts only when nothing else is under way, so that it shows itself.

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
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

from peira.core.contracts import Offer
from peira.core.events import TERMINAL, State, TaskSpec


@dataclass(slots=True)
class Entry:
    """A task at hand: the epoch of its last attempt, how often it was tried ever, and in this run. `others`
    offered the same one."""

    offer: Offer
    spec: TaskSpec = field(init=False)
    epoch: int = 0
    interruptions: int = 0
    attempts: int = 0
    tries: int = 0
    others: list[Offer] = field(default_factory=list)
    not_before: float = 0.0
    slept: bool = False
    missing: set[str] | frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.spec = self.offer.spec


class Scheduler:
    def __init__(self, suspect_after: int = 2) -> None:
        self.started: dict[str, Entry] = {}
        self._known: dict[str, Entry] = {}
        self._plain: dict[str, deque[Entry]] = {}
        self._urgent: dict[str, list[tuple[int, int, Entry]]] = {}
        self._held: dict[str, list[Entry]] = {}
        self._later: list[tuple[float, int, Entry]] = []
        self._asleep: dict[str, Entry] = {}
        self._woken: set[str] = set()
        self._suspects: deque[Entry] = deque()
        self._alone = ""
        self._waiting: dict[str, Entry] = {}
        self._order = count()
        self._suspect_after = suspect_after
        self.blocked: list[Entry] = []

    def offer(self, entry: Entry, ended: Mapping[str, State] = MappingProxyType({})) -> bool:
        """A task to be done, and how those of its needs that are over ended. False: it is at hand already."""
        if (same := self._known.get(entry.spec.id)) is not None:
            same.others.append(entry.offer)
            return False
        self._known[entry.spec.id] = entry
        if not entry.spec.needs or self._met(entry, ended):
            self._ready(entry)
        return True

    def _met(self, entry: Entry, ended: Mapping[str, State]) -> bool:
        """True if every need is met. Otherwise the task waits for them, or is blocked by one that failed."""
        if any(ended.get(need, State.succeeded) is not State.succeeded for need in entry.spec.needs):
            self._block(entry)
            return False
        entry.missing = set(entry.spec.needs) - ended.keys()
        for need in entry.missing:
            self._held.setdefault(need, []).append(entry)
        if entry.missing:
            self._waiting[entry.spec.id] = entry
        return not entry.missing

    def _block(self, first: Entry) -> None:
        """Block a task, and all that need it, however long the chain."""
        chain = [first]
        while chain:
            entry = chain.pop()
            self.blocked.append(entry)
            del self._known[entry.spec.id]
            for waiting in self._held.pop(entry.spec.id, ()):
                self._forget(waiting)
                chain.append(waiting)

    def _ready(self, entry: Entry) -> None:
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
        """Make ready what has waited long enough; returns when the next one will be."""
        while self._later and self._later[0][0] <= now:
            entry = heapq.heappop(self._later)[2]
            entry.not_before = 0.0
            self._ready(entry)
        return self._later[0][0] if self._later else None

    def wake(self, tasks: Iterable[str]) -> None:
        """What these tasks waited for is there: those asleep are ready, one on its way to bed turns round."""
        for task in tasks:
            if task in self._asleep:
                entry = self._asleep.pop(task)
                entry.not_before = 0.0
                self._ready(entry)
            elif task in self.started:
                self._woken.add(task)

    @property
    def asleep(self) -> int:
        return len(self._asleep)

    @property
    def resting(self) -> bool:
        """Some are asleep, and nothing is under way that could still join them."""
        ready = any(self._plain.values()) or any(self._urgent.values()) or self._suspects
        return bool(self._asleep) and not self.started and not ready

    def ready(self, cls: str) -> int:
        """How many tasks of the class could start now."""
        if self._suspects:
            return int(not self.started and self._suspects[0].spec.cls == cls)
        if self._alone in self.started:
            return 0
        return len(self._plain.get(cls, ())) + len(self._urgent.get(cls, ()))

    def start(self, cls: str, n: int) -> list[Entry]:
        """Up to n ready tasks of the class, highest priority first, then in the order they came."""
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

    def _take(self, cls: str, n: int) -> Iterable[Entry]:
        urgent, plain = self._urgent.get(cls, []), self._plain.get(cls, deque())
        for _ in range(min(n, len(urgent) + len(plain))):
            if urgent and (-urgent[0][0] > 0 or not plain):
                yield heapq.heappop(urgent)[2]
            else:
                yield plain.popleft()

    def again(self, task: str, not_before: float = 0.0) -> None:
        """Its attempt failed, or never began; another follows, not before the given time (`inf`: not before
        it is woken)."""
        entry = self.started.pop(task)
        woken = task in self._woken and not_before == math.inf
        entry.not_before = 0.0 if woken else not_before
        self._woken.discard(task)
        self._ready(entry)

    def end(self, task: str, state: State) -> None:
        """Its last attempt ended."""
        self.started.pop(task)
        self._woken.discard(task)
        self.settle(task, state)

    def settle(self, task: str, state: State) -> None:
        """The task has ended so, here or (reused) earlier; what needed it may start, or is blocked."""
        assert state in TERMINAL, state
        self._known.pop(task, None)
        for entry in self._held.pop(task, ()):
            if entry.spec.id in self._waiting:  # not blocked meanwhile, through another need
                self._release(entry, task, state)

    def _release(self, entry: Entry, need: str, state: State) -> None:
        entry.missing = entry.missing - {need}
        if state is not State.succeeded:
            self._forget(entry)
            self._block(entry)
        elif not entry.missing:
            del self._waiting[entry.spec.id]
            self._ready(entry)

    def _forget(self, entry: Entry) -> None:
        """It waits no more, for none of its needs."""
        del self._waiting[entry.spec.id]
        for need in entry.missing:
            if need in self._held:
                self._held[need].remove(entry)
        entry.missing = frozenset()

    @property
    def stuck(self) -> bool:
        """All that is at hand waits for needs that are not: nothing here will ever meet them."""
        return bool(self._waiting) and len(self._waiting) == len(self._known)

    def drop(self, kind: str, unwanted: Callable[[str], bool] = lambda task: True) -> None:
        """Forget the tasks of a kind (those `unwanted`) that have not started and need no other: they are not
        done now. Those that have slept are: what they slept for was paid."""

        def dropped(entry: Entry) -> bool:
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
        """Block what waits for needs that nobody can meet any more."""
        while self._waiting:
            entry = next(iter(self._waiting.values()))
            self._forget(entry)
            self._block(entry)

    def __len__(self) -> int:
        """Tasks at hand that have not ended."""
        return len(self._known)

    @property
    def idle(self) -> bool:
        return not self._known
