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

from peira.core.contracts import Ended, Offer, Store
from peira.core.failpoints import reach
from peira.core.log.events import State
from peira.core.log.state import UNDER_WAY
from peira.core.looks import Look
from peira.engine.control import StopRequest
from peira.engine.execution import Execution
from peira.engine.sources.adaptive import CANCELLED
from peira.engine.sources.study import GENERATE, StudySource, trial_of
from peira.engine.workers.membership import Membership
from peira.plan.stopping import StopQuestion
from peira.stores.sharing import STAGES, LeasedRange, Sharing

MOST_SIZE = 2000
"""Trials of the largest range."""
WORK, AHEAD = 1.0, 0.25
"""Seconds of work in a range, and how many of them are at hand when the next is taken."""
MEASURED = 0.25
"""Seconds over which ended trials are counted to know how many a second has."""
WAITING = f"{GENERATE}.{State.waiting}"
REST = 0.3
"""Seconds between two looks for a range where there was none."""


@dataclass(eq=False)
class HeldRange:
    """A range that is not done; `left` are its tasks that were offered, or are to be, and have not ended."""

    leased: LeasedRange
    left: int
    trials: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    needs: set[str] = field(default_factory=set)
    """Classes of tasks that are left to other processes."""


class RangeSource:
    """The trials of the ranges that this process holds, and what follows from them.

    Its lock is taken inside the execution's, never around it.
    """

    unit = GENERATE

    def __init__(
        self,
        study: StudySource,
        at: Callable[[int], int],
        rule: StopQuestion | None = None,
        recorded: Store | None = None,
        classes: Sequence[str] = STAGES,
    ) -> None:
        """`at` gives the index of the trial at a position of the run order; `rule` may end or narrow the run.
        Only trials that are `recorded` in this store are offered, if it is given. Tasks of other `classes`
        are left to other processes."""
        self.classes = classes
        self._study, self._at, self._rule, self._recorded = study, at, rule, recorded
        self._given_up: frozenset[int] = frozenset()
        self.decided = False
        """Whether the stopping rule has found its answer."""
        self._lock = threading.Lock()
        self._positions: deque[tuple[int, HeldRange]] = deque()
        self._range_of: dict[str, HeldRange] = {}
        self._held: list[HeldRange] = []
        self._complete: list[HeldRange] = []
        self._grown: Callable[[], None] = lambda: None
        self.trials = 0
        """Trials of the ranges at hand that have not ended."""
        self.ended = 0
        """Trials that have ended here."""
        self.closed = False
        self.changed = threading.Event()
        """Set when a trial has ended, or a range is complete."""

    @property
    def size(self) -> int | None:
        """The number of trials of the whole plan."""
        return self._study.size

    def performs(self, kind: str) -> bool:
        """Whether tasks of this kind are done by this process."""
        return kind in self.classes and self._study.performs(kind)

    @property
    def does_all(self) -> bool:
        """Whether this process does all classes of work."""
        return len(self.classes) == len(STAGES)

    def leave(self, offer: Offer) -> None:
        """A task is left to who does its class, or to nobody if the run does not do it."""
        with self._lock:
            held = self._range_of[trial_of(offer)]
            if self._study.performs(offer.spec.kind):
                held.needs.add(offer.spec.kind)
            if offer.spec.kind == GENERATE:
                self.trials -= 1
            held.left -= 1
            self._check_complete(held)

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
            offers: list[Offer] = []
            while self._positions and len(offers) < n:
                position, held = self._positions.popleft()
                offer = self._study.offer(self._at(position))
                self._range_of[offer.spec.id] = held
                held.trials.append(offer.spec.id)
                if self._unwanted(offer.spec.id):
                    self._forgo(offer)
                else:
                    offers.append(offer)
            return offers if self._recorded is None else self._known(offers, self._recorded)

    def _known(self, offers: list[Offer], store: Store) -> list[Offer]:
        """Those of these trials that are recorded; the others are not done."""
        known = store.find("task", [offer.spec.id for offer in offers])
        for offer in offers:
            if offer.spec.id not in known:
                self._forgo(offer)
        return [offer for offer in offers if offer.spec.id in known]

    def narrow(self, look: Look, execution: Execution) -> None:
        """Take note of what the stopping rule needs no more: it is not offered, and not begun."""
        if self._rule is not None and (look.answer or look.given_up):
            self.decided, self._given_up = bool(look.answer), frozenset(look.given_up)
            execution.forget_units(self._unwanted, self.forgo)

    def _unwanted(self, trial: str) -> bool:
        """Whether the stopping rule has no need of a trial at hand."""
        if self.decided or not self._given_up or self._rule is None:
            return self.decided
        place = self._study.place(trial)
        return place.number < self._rule.anchored and self._rule.places[id(place.condition)] in self._given_up

    def forgo(self, offer: Offer) -> None:
        """A trial that was offered is not done in this run."""
        with self._lock:
            self._forgo(offer)

    def _forgo(self, offer: Offer) -> None:
        self._study.follow(offer, CANCELLED)
        self.trials -= 1
        self.changed.set()
        held = self._range_of[offer.spec.id]
        held.left -= 1
        self._check_complete(held)

    def _check_complete(self, held: HeldRange) -> None:
        """A range of which nothing is left is complete. With the lock held."""
        if not held.left:
            self._held.remove(held)
            self._complete.append(held)
            for trial in held.trials:
                del self._range_of[trial]
            self.changed.set()

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """What follows from an ended task; a range of which nothing is left is complete.

        Plain code of a range whose holder died is claimed before it begins: it may be what kills processes.
        So is that of a process which does only some classes: what is not its own is looked up first.
        """
        following: Sequence[Offer] = self._study.follow(offer, ended)
        with self._lock:
            held = self._range_of[trial_of(offer)]
            if held.leased.lost or not self.does_all:
                following = [msgspec.structs.replace(one, direct=False) for one in following]
            held.counts[f"{offer.spec.kind}.{ended.state}"] += 1
            held.left += len(following) - 1
            if offer.spec.kind == GENERATE:
                self.trials -= 1
                self.ended += 1
                self.changed.set()
            self._check_complete(held)
        return following

    def complete(self) -> list[HeldRange]:
        """The ranges that have become complete since the last call."""
        with self._lock:
            found, self._complete = self._complete, []
            return found

    def known(self) -> list[int]:
        """The first positions of the ranges that this process has, also of complete ones."""
        with self._lock:
            return [one.leased.first for one in (*self._held, *self._complete)]

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
        self._rate, self._measured_at, self._measured = 0.0, self._clock.monotonic(), 0
        self._none_at = -REST
        self._ended = self._parked = False
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
        if self._parked and self._execution.state.stop is None:
            return  # whoever closes the run leaves what waits to a later one
        for held in self._source.held():
            self._sharing.free(self._run, held.leased, held.counts)

    def _serve(self) -> None:
        try:
            while not self._ended:
                self._mark_complete()
                if self._parked and not self._execution.only_waits():
                    self._resume()
                if self._wants() and self._take():
                    continue
                self._source.changed.wait(REST)
                self._source.changed.clear()
        except BaseException as problem:  # workers wait for what this thread brings
            self._execution.fail(problem)

    def _wants(self) -> bool:
        """Whether there is little at hand, and there may be more to be done."""
        execution = self._execution
        stopped = execution.state.stop or execution.state.starved or execution.state.fault
        resting = stopped or execution.state.paused or self._source.closed
        if resting or self._clock.monotonic() - self._none_at < REST:
            return False
        self._measure()
        return self._at_hand() <= self._parallel + self._rate * AHEAD

    def _measure(self) -> None:
        """Count how many trials end in a second here."""
        now, ended = self._clock.monotonic(), self._source.ended
        if (elapsed := now - self._measured_at) >= MEASURED:
            self._rate = (ended - self._measured) / elapsed
            self._measured_at, self._measured = now, ended

    def _at_hand(self) -> int:
        """Trials at hand, without those that wait for people: these need no worker."""
        waiting = self._execution.waiting_counts().get(WAITING, 0) if self._execution.waiting else 0
        return self._source.trials - waiting

    def _take(self) -> bool:
        """Take a range, or else look whether the run is over."""
        size = max(round(self._rate * WORK), self._parallel - self._at_hand(), 1)
        members, classes = self._membership.last.members, self._source.classes
        leased = self._sharing.take(self._run, min(size, MOST_SIZE), members, classes)
        leased = leased or self._sharing.lost_range(self._run, self._source.known())
        if leased is None:
            self._none_at = self._clock.monotonic()
            self._look()
            return False
        reach("shared.after_take")
        if self._parked:
            self._resume()
        self._source.add(leased)
        return True

    def _look(self) -> None:
        """There is no range to take: the run is over for this process once all of them are done.

        If all that is left here waits for people, that does not keep the run open, unless it is to stay. Who
        does only some classes of work ends when no more of these can come.
        """
        if not (self._parked or self._execution.state.stays) and self._source.exhausted:
            self._park()
        beat = self._membership.beat()
        if beat.status not in UNDER_WAY or not (beat.left or beat.open) or self._nothing_for_us():
            self._source.close()

    def _nothing_for_us(self) -> bool:
        """Whether no more work of the classes that this process does can come."""
        source = self._source
        return not (source.does_all or source.held() or self._sharing.may_take(self._run, source.classes))

    def _park(self) -> None:
        """If all that is left here waits for people, it does not keep the run open."""
        if self._execution.park():
            self._parked = True
            self._execution.journal.drain()
            for held in self._source.held():
                self._sharing.park(self._run, held.leased, held.counts)

    def _resume(self) -> None:
        """Something waits no more: it is done, unless another process has closed the run meanwhile."""
        if self._sharing.resume(self._run):
            self._parked = False
            self._execution.unpark()
        elif self._membership.beat().status not in UNDER_WAY:
            self._execution.request(StopRequest.interrupted())  # a later run goes on with it

    def _mark_complete(self) -> None:
        """Mark complete ranges as done, once all that ended in them is durable."""
        complete = self._source.complete()
        if complete:
            self._execution.settled_ops()  # whoever holds the lock has queued what completed them
            self._execution.journal.drain()
            reach("shared.before_done")
            for held in complete:
                if held.needs:
                    self._sharing.free(self._run, held.leased, held.counts, held.needs)
                else:
                    self._sharing.done(self._run, held.leased, held.counts)
            self._none_at = -REST  # that may have been the last one
