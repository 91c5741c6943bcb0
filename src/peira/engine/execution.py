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
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Attempt, Ended, Op, Source, Store
from peira.core.events import (
    Result,
    RunNoted,
    Spent,
    State,
    TaskFinished,
    TaskRetried,
    TasksClaimed,
    TasksReleased,
)
from peira.core.failpoints import reach
from peira.core.models import Named
from peira.core.registry import registry
from peira.engine.allocation import Allocated
from peira.engine.channel import AttemptChannel
from peira.engine.endings import back_off, ended
from peira.engine.intake import Intake
from peira.engine.journal import Journal
from peira.engine.ledger import Ledger
from peira.engine.payload import INLINE
from peira.engine.progress import Progress, Tally, shared
from peira.engine.scheduler import Entry, Scheduler
from peira.engine.slips import BATCH
from peira.engine.stopping import Stop, most_failures
from peira.errors import Invalid, Parked, StoreDamaged, TimedOut, unwrapped
from peira.spec.limits import Budget, Policy

GROUP = 128
GATHERING = 0.01
"""How long what follows from ends is gathered, so that the store is asked about many tasks at once."""
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
        self._owner, self._work_root, self._inline = owner, work_root, inline
        self._scheduler = Scheduler()
        self._intake = Intake(
            run, owner, source, store, self.journal, self._scheduler, self.tally, policy, self.clock
        )
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._hungry = threading.Condition(lock)
        self._settling: deque[Active] = deque()
        self._active: dict[tuple[str, int], Active] = {}
        self._deadlines: list[tuple[float, tuple[str, int]]] = []
        self._stages: set[str] = set()
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
        return self._claim(entries)

    def _unblock(self) -> bool:
        """Once nothing more can come, what still waits for a need will wait in vain: it is blocked."""
        if not (self._scheduler.stuck and self._intake.dry and not self._intake.busy):
            return False
        self._scheduler.give_up_waiting()
        self._intake.note_blocked()
        return True

    def _claim(self, entries: list[Entry]) -> list[Attempt]:
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            entry.epoch += 1
            entry.tries += 1
            entry.attempts += 1
            groups.setdefault((entry.spec.kind, entry.spec.cls), []).append(entry)
        ops = [Op(self.run, (self._claimed(*key, group),)) for key, group in groups.items()]
        for refusal in self.journal.write(ops):
            if refusal:
                raise StoreDamaged(f"a task of this run was claimed elsewhere: {refusal}")
        reach("engine.after_claim")
        return [Attempt(entry.spec, entry.epoch, entry.offer.work, self._draw(entry)) for entry in entries]

    def _draw(self, entry: Entry) -> int:
        """How many draws failed before; a crash is no failure, and replays what it has."""
        return entry.attempts - entry.interruptions - 1 if self.policy.redraw else 0

    def _claimed(self, kind: str, cls: str, entries: list[Entry]) -> TasksClaimed:
        epochs = tuple(entry.epoch for entry in entries)
        ids = tuple(entry.spec.id for entry in entries)
        return TasksClaimed(kind, cls, self._owner, ids, epochs if any(e > 1 for e in epochs) else ())

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
            self._announce(attempt)
        return channel

    def _announce(self, attempt: Attempt) -> None:
        task, epoch, kind = attempt.spec.id, attempt.epoch, attempt.spec.kind
        if kind not in self._stages:
            self._stages.add(kind)
            registry.call("stage_began", run=self.run, stage=kind)
        if kind == self.source.unit and self._scheduler.started[task].tries == 1:
            registry.call("trial_began", task=task)
        registry.call("attempt_began", run=self.run, task=task, epoch=epoch, attempt=attempt)

    def end(self, attempt: Attempt, outcome: object, problem: BaseException | None) -> float:
        """Take note of how an attempt ended; returns how long it took. Nothing, if it was abandoned."""
        active = self._active.pop(attempt.key, None)
        if active is None:
            return 0.0
        problem = unwrapped(problem)
        if isinstance(problem, Parked):
            active.channel.close()
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
        self._settling.append(active)
        if len(self._settling) >= GROUP:
            with self._changed:
                self._settle()
        return took

    def back(self, attempts: list[Attempt], wait: float = 0.0) -> None:
        """Attempts that were taken and will not begin, or that are to be made again after a wait."""
        if not attempts:
            return
        with self._changed:
            tasks, epochs = zip(*(attempt.key for attempt in attempts), strict=True)
            self.journal.add([Op(self.run, (TasksReleased(tasks, epochs),))])
            for attempt in attempts:
                entry = self._scheduler.started[attempt.spec.id]
                entry.tries -= 1
                entry.attempts -= 1
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
        ops = []
        while self._settling:
            settling = self._settling.popleft()
            entry = self._scheduler.started[settling.attempt.spec.id]
            again = settling.retry and self._may_try_again(entry, settling.ended)
            ops.append(self._again(entry, settling) if again else self._final(entry, settling))
        if ops:
            self.journal.add(ops)
            self._intake.note_blocked()
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

    def _may_try_again(self, entry: Entry, end: Ended) -> bool:
        return end.state is State.failed and entry.tries <= self.policy.retries and not self.stop

    def _again(self, entry: Entry, settling: Active) -> Op:
        self._tell(settling)
        wait = back_off(self.policy, entry.tries, entry.spec.id)
        self._scheduler.again(entry.spec.id, self.clock.monotonic() + wait)
        event = TaskRetried(entry.spec.id, entry.epoch, settling.ended.result, self.clock.now() + wait)
        return Op(self.run, (event,))

    def _final(self, entry: Entry, settling: Active) -> Op:
        self._tell(settling)
        spec, end = entry.spec, settling.ended
        self.tally.add(spec.kind, end.state)
        self.tally.add(spec.kind, shared(end.state), len(entry.others))
        self._scheduler.end(spec.id, end.state)
        for offer in (entry.offer, *entry.others):
            self._intake.ended(offer, end)
        return Op(self.run, (TaskFinished(spec.id, entry.epoch, end.state, end.result),), settling.blobs)

    def _tell(self, settling: Active) -> None:
        if registry.listening:
            task, epoch = settling.attempt.key
            state = settling.ended.state.value
            registry.call("attempt_ended", run=self.run, task=task, epoch=epoch, state=state)

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
        for stage in sorted(self._stages):
            registry.call("stage_ended", run=self.run, stage=stage)

    def progress(self) -> Progress:
        with self._changed:
            elapsed = self.clock.monotonic() - self._since
            look = self._allocated.evidence.look if self._allocated else None
            waiting = self._scheduler.asleep
            return self.tally.snapshot(self.source.size, len(self._active), elapsed, waiting, look)
