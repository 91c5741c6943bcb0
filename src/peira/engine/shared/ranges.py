"""The part of a plan that is leased to this process, range by range.

A range is done when its trials and all that follows from them have ended, durably: ends are settled, the
journal has committed them, and only then the range is marked. So a range that was marked needs no look, and
one that was not is looked at again, by whoever takes it.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from peira.core.contracts import Ended, Offer
from peira.core.failpoints import reach
from peira.core.log.state import UNDER_WAY
from peira.engine.execution import Execution
from peira.engine.shared.membership import Membership
from peira.engine.sources.study import GENERATE, StudySource, trial_of
from peira.stores.sharing import LeasedRange, Sharing

FIRST_SIZE = 2
"""Trials of the first range, for each that is executed at once."""
MOST_SIZE = 2000
"""Trials of the largest range."""
SHORT, LONG = 0.5, 2.0
"""Seconds: ranges that take less to be used up grow, those that take more shrink."""
REST = 0.3
"""Seconds between two looks for a range where there was none."""


@dataclass(eq=False)
class HeldRange:
    """A range that is not done; `left` are its tasks that were offered, or are to be, and have not ended."""

    leased: LeasedRange
    left: int
    trials: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class RangeSource:
    """The trials of the ranges that this process holds, and what follows from them.

    Its lock is taken inside the execution's, never around it.
    """

    unit = GENERATE

    def __init__(self, study: StudySource, at: Callable[[int], int]) -> None:
        """`at` gives the index of the trial at a position of the run order."""
        self._study, self._at = study, at
        self._lock = threading.Lock()
        self._positions: deque[tuple[int, HeldRange]] = deque()
        self._range_of: dict[str, HeldRange] = {}
        self._held: list[HeldRange] = []
        self._complete: list[HeldRange] = []
        self._grown: Callable[[], None] = lambda: None
        self.trials = 0
        """Trials of the ranges at hand that have not ended."""
        self.closed = False
        self.changed = threading.Event()
        """Set when a trial has ended, or a range is complete."""

    @property
    def size(self) -> int | None:
        """The number of trials of the whole plan."""
        return self._study.size

    def performs(self, kind: str) -> bool:
        """Whether tasks of this kind are done in this run."""
        return self._study.performs(kind)

    def watch(self, grown: Callable[[], None]) -> None:
        """Call `grown` whenever there is something again."""
        self._grown = grown

    def add(self, leased: LeasedRange) -> None:
        """A range was leased to this process."""
        with self._lock:
            held = HeldRange(leased, leased.size)
            self._held.append(held)
            self.trials += leased.size
            self._positions.extend((at, held) for at in range(leased.first, leased.first + leased.size))
        self._grown()

    def close(self) -> None:
        """Nothing more will come."""
        self.closed = True
        self._grown()

    def more(self, n: int) -> list[Offer]:
        """The next trials of the ranges at hand."""
        with self._lock:
            offers = []
            for _ in range(min(n, len(self._positions))):
                position, held = self._positions.popleft()
                offer = self._study.offer(self._at(position))
                self._range_of[offer.spec.id] = held
                held.trials.append(offer.spec.id)
                offers.append(offer)
            return offers

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """What follows from an ended task; a range of which nothing is left is complete.

        Plain code of a range whose holder died is claimed before it begins: it may be what kills processes.
        """
        following: Sequence[Offer] = self._study.follow(offer, ended)
        with self._lock:
            held = self._range_of[trial_of(offer)]
            if held.leased.lost:
                following = [msgspec.structs.replace(one, direct=False) for one in following]
            held.counts[f"{offer.spec.kind}.{ended.state}"] += 1
            held.left += len(following) - 1
            if offer.spec.kind == GENERATE:
                self.trials -= 1
                self.changed.set()
            if not held.left:
                self._held.remove(held)
                self._complete.append(held)
                for trial in held.trials:
                    del self._range_of[trial]
                self.changed.set()
        return following

    def complete(self) -> list[HeldRange]:
        """The ranges that have become complete since the last call."""
        with self._lock:
            found, self._complete = self._complete, []
            return found

    def held(self) -> list[HeldRange]:
        """The ranges that are not complete."""
        with self._lock:
            return list(self._held)

    @property
    def exhausted(self) -> bool:
        """Whether every trial of the ranges at hand was offered."""
        return not self._positions


class RangeLeases:
    """Takes ranges for a source and marks those that are done, on a thread of its own ("peira-ranges")."""

    def __init__(
        self,
        sharing: Sharing,
        execution: Execution,
        source: RangeSource,
        membership: Membership,
        parallel: int,
    ) -> None:
        self._sharing, self._execution, self._source = sharing, execution, source
        self._membership, self._run, self._parallel = membership, execution.run, parallel
        self._clock = execution.context.clock
        self._size, self._taken_at = FIRST_SIZE * parallel, -LONG
        self._ended = False
        self._thread = threading.Thread(target=self._serve, name="peira-ranges", daemon=True)

    def start(self) -> None:
        """Begin to take ranges."""
        self._thread.start()

    def close(self) -> None:
        """Mark what is done and give back the rest; called once the execution is over."""
        self._ended = True
        self._source.changed.set()
        self._thread.join()
        self._mark_complete()
        for held in self._source.held():
            self._sharing.free(self._run, held.leased, held.counts)

    def _serve(self) -> None:
        try:
            while not self._ended:
                self._mark_complete()
                if self._wants() and self._take():
                    continue
                self._source.changed.wait(REST)
                self._source.changed.clear()
        except BaseException as problem:  # workers wait for what this thread brings
            self._execution.fail(problem)

    def _wants(self) -> bool:
        """Whether there is less at hand than a range, and more is to be done."""
        execution = self._execution
        stopped = execution.state.stop or execution.state.starved or execution.state.fault
        resting = stopped or execution.state.paused or self._source.closed
        return not resting and self._source.trials <= self._size

    def _take(self) -> bool:
        """Take a range, or else look whether the run is over."""
        leased = self._sharing.take(self._run, self._size, self._membership.last.members)
        if leased is None:
            self._look()
            return False
        reach("shared.after_take")
        now = self._clock.monotonic()
        took, self._taken_at = now - self._taken_at, now
        if took < SHORT and not self._source.trials:  # all that was at hand is used up already
            self._size = min(2 * self._size, MOST_SIZE)
        elif took > LONG:
            self._size = max(self._size // 2, self._parallel)
        self._source.add(leased)
        return True

    def _look(self) -> None:
        """There is no range to take: the run is over for this process once all of them are done.

        If all that is left here waits for people, that does not keep the run open.
        """
        if self._source.exhausted and self._execution.only_waits():
            self._execution.journal.drain()
            for held in self._source.held():
                self._sharing.done(self._run, held.leased, held.counts)
        beat = self._membership.beat()
        if beat.status not in UNDER_WAY or not (beat.left or beat.open):
            self._source.close()

    def _mark_complete(self) -> None:
        """Mark complete ranges as done, once all that ended in them is durable."""
        complete = self._source.complete()
        if complete:
            self._execution.settled_ops()  # whoever holds the lock has queued what completed them
            self._execution.journal.drain()
            reach("shared.before_done")
            for held in complete:
                self._sharing.done(self._run, held.leased, held.counts)
