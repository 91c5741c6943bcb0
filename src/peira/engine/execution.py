"""One run of one source: feeds tasks to workers, records what comes of them, knows when it is over.

Workers pull. A task travels: source -> intake (is its result in the store already?) -> scheduler -> a
desk, where it is claimed durably, by batch -> a runner -> back to the desk. Ends are gathered without
a lock and settled together: queued for the store, taken off the schedule, and what follows from them
is offered. The lock guards the bookkeeping only; the store is waited for outside it.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Attempt, Op, Source, Store
from peira.core.events import (
    RunNoted,
    Spent,
    State,
)
from peira.core.failpoints import reach
from peira.core.models import Named
from peira.core.registry import registry
from peira.engine.allocation import Allocated
from peira.engine.channel import AttemptChannel
from peira.engine.claims import Claims
from peira.engine.endings import ended
from peira.engine.hooks import Hooks
from peira.engine.intake import Intake
from peira.engine.journal import Journal
from peira.engine.ledger import Ledger
from peira.engine.payload import INLINE
from peira.engine.progress import Progress, Tally
from peira.engine.scheduler import Scheduler
from peira.engine.settling import Abandoner, Active, Settling
from peira.engine.slips import BATCH
from peira.engine.stopping import Stop, most_failures
from peira.errors import Invalid, Parked, TimedOut, unwrapped
from peira.spec.limits import Budget, Policy

GROUP = 128
GATHERING = 0.01
"""How long what follows from ends is gathered, so that the store is asked about many tasks at once."""


def no_models(name: str) -> Named:
    raise Invalid(f"model {name!r}: this run was given no models")


class Execution:
    def __init__(
        self,
        run: str,
        source: Source,
        store: Store,
        policy: Policy,
        *,
        owner: str,
        work_root: Path,
        inline: int = INLINE,
        models: Callable[[str], Named] = no_models,
        batch: bool = False,
        budget: Budget | None = None,
        before: Iterable[Spent] = (),
        recorded: Mapping[str, int] = MappingProxyType({}),
        clock: Clock | None = None,
    ) -> None:
        """`recorded` counts what is known to be in the store already, and will not come from the source;
        `before` is what earlier runs spent of the budget."""
        self.run, self.source, self.store, self.policy = run, source, store, policy
        self.clock = clock or SystemClock()
        self.journal = Journal(store)
        self.ledger = Ledger(
            run,
            store,
            self.journal,
            policy,
            models,
            owner=owner,
            batch=batch,
            budget=budget,
            before=before,
            wake=self.wake,
            say=self.say,
            halt=self.starve,
            fail=self.fail,
            batch_ended=self.batch_ended,
        )
        self.notices: deque[str] = deque()
        self.tally = Tally(source.unit, frozenset({BATCH}))
        self.tally.counts.update(recorded)
        self.stop: Stop | None = None
        self.starved: Stop | None = None
        self.fault: BaseException | None = None
        self._work_root, self._inline = work_root, inline
        self._scheduler = Scheduler()
        self._intake = Intake(
            run, owner, source, store, self.journal, self._scheduler, self.tally, policy, self.clock
        )
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._hungry = threading.Condition(lock)
        self._hooks = Hooks(run, source.unit)
        self._claims = Claims(run, owner, self.journal, policy)
        self._settling = Settling(
            run,
            self.journal,
            self._scheduler,
            self._intake,
            self.tally,
            policy,
            self.clock,
            self._hooks,
        )
        self._active: dict[tuple[str, int], Active] = {}
        self._deadlines: list[tuple[float, tuple[str, int]]] = []
        self._allocated = source if isinstance(source, Allocated) else None
        self._since = self.clock.monotonic()

    def feed(self) -> None:
        """Keep tasks coming until it is over; a thread of its own, so that no worker waits for admission."""
        try:
            with self._changed:
                while not (self.stop or self.over):
                    if not self._intake.urgent:
                        self._hungry.wait(GATHERING)
                    self._intake.feed(self._changed) or self._unblock()
                self._changed.notify_all()
        except Exception as problem:
            self.fail(problem)

    # What desks do

    def take(self, cls: str, n: int) -> list[Attempt]:
        """Up to n attempts of the class, claimed durably; waits for some, empty when there will be none."""
        with self._changed:
            while True:
                self._settle()
                if self.stop or self.over:
                    self._wake()
                    return []
                if entries := self._scheduler.start(cls, n):
                    break
                self._changed.wait()
        return self._claims.claim(entries)

    def _unblock(self) -> bool:
        """Once nothing more can come, what still waits for a need will wait in vain: it is blocked."""
        if not (self._scheduler.stuck and self._intake.dry and not self._intake.busy):
            return False
        self._scheduler.give_up_waiting()
        self._intake.note_blocked()
        return True

    def begin(self, attempt: Attempt, desk: Abandoner) -> AttemptChannel | None:
        """The attempt's channel, as it begins; None if it must not begin any more."""
        channel = AttemptChannel(
            self.run, attempt, self.store, self.journal, self._work_root, self.ledger, self._inline
        )
        now, key = self.clock.monotonic(), attempt.key
        self._active[key] = Active(attempt, channel, now, desk)
        if self.stop or self.fault:  # looked at after the attempt can be seen, so that no stop misses it
            if self._active.pop(key, None):
                self.back([attempt])
            return None
        if self.policy.timeout is not None:
            with self._changed:
                heapq.heappush(self._deadlines, (now + self.policy.timeout, key))
        if registry.listening:
            self._hooks.began(attempt, self._scheduler.started[attempt.spec.id].tries)
        return channel

    def end(self, attempt: Attempt, outcome: object, problem: BaseException | None) -> float:
        """Take note of how an attempt ended; returns how long it took. Nothing, if it was abandoned."""
        active = self._active.pop(attempt.key, None)
        if active is None:
            return 0.0
        problem = unwrapped(problem)
        if isinstance(problem, Parked):
            active.channel.close()
            self._hooks.put_aside(attempt)
            self.back([attempt], problem.seconds)
            return self.clock.monotonic() - active.began
        return self._close(active, outcome, problem)

    def _close(self, active: Active, outcome: object, problem: BaseException | None) -> float:
        took = self.clock.monotonic() - active.began
        active.ended, active.blobs, active.retry = ended(
            active.channel, took, outcome, problem, self.policy.output_limit, self.policy.redraw
        )
        active.channel.close()
        reach("engine.before_end")
        if self._settling.add(active) >= GROUP:
            with self._changed:
                self._settle()
        return took

    def back(self, attempts: list[Attempt], wait: float = 0.0) -> None:
        """Attempts that were taken and will not begin, or that are to be made again after a wait."""
        if not attempts:
            return
        with self._changed:
            self._claims.release(attempts, [self._scheduler.started[one.spec.id] for one in attempts])
            for attempt in attempts:
                self._scheduler.again(attempt.spec.id, self.clock.monotonic() + wait if wait else 0.0)
            self._changed.notify_all()

    def wake(self, tasks: Iterable[str]) -> None:
        """What these tasks waited for is there."""
        with self._changed:
            self._scheduler.wake(tasks)
            self._changed.notify_all()

    def batch_ended(self, state: State) -> None:
        with self._changed:
            self.tally.add(BATCH, state)

    def say(self, text: str) -> None:
        """Tell people, now and in the log."""
        self.journal.add([Op(self.run, (RunNoted(text),))])
        self.notices.append(text)

    # Settling ends, with the lock held

    def _settle(self) -> None:
        if self._settling.settle(self.stop is not None):
            self._check_failures()
            if self._intake.urgent:
                self._hungry.notify()
        if self._allocated and self._allocated.evidence.learnt:
            self._learn(self._allocated)

    def _learn(self, source: Allocated) -> None:
        """What the source has learnt is recorded, and what it needs no more is not begun."""
        events = source.evidence.news()
        self.journal.add([Op(self.run, (event,)) for event in events])
        self.notices.extend(event.text for event in events if isinstance(event, RunNoted))
        if source.narrowed:
            self._scheduler.drop(source.unit, source.unwanted)

    def close_looks(self) -> None:
        """Everything that was needed is over: the last look is at all of it."""
        if self._allocated and not (self.stop or self.starved):
            with self._changed:
                self._allocated.evidence.finish()
                self._learn(self._allocated)

    @property
    def spares(self) -> bool:
        """Some of the source is not needed."""
        return self._allocated is not None and self._allocated.narrowed

    def _check_failures(self) -> None:
        failed = self.tally.failures
        if not failed or self.stop:
            return
        most = most_failures(self.policy, self.source.size)
        if self.policy.fail_fast:
            self.request(Stop.failing("a trial failed, and fail_fast is set"))
        elif most is not None and failed > most:
            reason = f"{failed} failures, more than the {most} allowed (policy.max_failures)"
            self.request(Stop.failing(reason))

    # Time and stopping

    def pulse(self) -> None:
        """What time brings: ends are settled and go out, back-offs end, deadlines pass."""
        now = self.clock.monotonic()
        with self._changed:
            self._settle()
            if self._allocated and self._allocated.narrowed:  # also what was on its way when that was learnt
                self._scheduler.drop(self._allocated.unit, self._allocated.unwanted)
            self._scheduler.ripen(now)
            resting = self._scheduler.resting and self._intake.dry and not self._intake.busy
            late = []
            while self._deadlines and self._deadlines[0][0] <= now:
                late.append(heapq.heappop(self._deadlines)[1])
            self._wake()
        self.journal.flush()
        if resting:
            self.ledger.hand_in()
        for key in late:
            self._abandon(key, TimedOut(f"no answer within {self.policy.timeout:g} s (policy.timeout)"))

    def request(self, stop: Stop) -> None:
        """Start nothing more; a request to stop now also ends what is running, and outdoes a weaker one."""
        with self._changed:
            if self.stop is None or stop.now > self.stop.now:
                self.stop = stop
            self._wake()
        if stop.now:
            for key in list(self._active):
                self._abandon(key, stop.signal)

    def starve(self, why: str) -> None:
        """The budget is used up: begin no more units; what follows from ended ones is still done."""
        with self._changed:
            if self.starved is None:
                self.starved = Stop.limit(why)
                self._intake.starved = True
                self._scheduler.drop(self.source.unit)
            self._wake()

    def _abandon(self, key: tuple[str, int], why: BaseException) -> None:
        """End an attempt from outside: its channel closes and its worker is freed."""
        active = self._active.pop(key, None)
        if active is not None:
            active.desk.abandon(active.attempt)
            self._close(active, None, why)

    def fail(self, problem: BaseException) -> None:
        """The store or the engine itself failed: stop everything; `wait` raises it."""
        with self._changed:
            self.fault = self.fault or problem
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        self._hungry.notify()

    @property
    def over(self) -> bool:
        """Nothing is under way and nothing is left to start."""
        if self.fault:
            return True
        if self.stop:
            return not self._scheduler.started
        return self._intake.dry and self._scheduler.idle and not self._intake.busy

    def wait(self, timeout: float) -> bool:
        """Wait until it is over, at most so long; raises what went wrong with the store or the engine."""
        with self._changed:
            self._changed.wait_for(lambda: self.over, timeout)
            if self.fault:
                raise self.fault
            return self.over

    def finish_stages(self) -> None:
        self._hooks.over()

    def progress(self) -> Progress:
        with self._changed:
            elapsed = self.clock.monotonic() - self._since
            look = self._allocated.evidence.look if self._allocated else None
            waiting = self._scheduler.asleep
            return self.tally.snapshot(self.source.size, len(self._active), elapsed, waiting, look)
