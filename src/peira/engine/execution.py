"""One run of one source: feeds tasks to workers, records what comes of them, knows when it is over.

Workers pull. A task travels: source -> *admission* (is its result in the store already?) -> scheduler
-> a desk, where it is claimed durably, by batch -> a runner -> back to the desk, where its end is
queued for the store and what follows from it is offered. The lock guards the bookkeeping only; the
store is waited for outside it.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Attempt, Ended, Offer, Op, Source, Store
from peira.core.events import (
    Failure,
    Result,
    State,
    TaskFinished,
    TaskRetried,
    TasksClaimed,
    TasksReleased,
)
from peira.core.failpoints import reach
from peira.core.registry import registry
from peira.core.state import Task
from peira.engine.channel import AttemptChannel
from peira.engine.endings import back_off, ended, permanent
from peira.engine.journal import Journal
from peira.engine.progress import KEPT, LEFT, REUSED, Progress, Tally
from peira.engine.scheduler import Entry, Scheduler
from peira.engine.stopping import Stop, most_failures
from peira.errors import Abandoned, StoreDamaged, TimedOut
from peira.spec.limits import Policy

CHUNK = 500
MOST_AT_HAND = 4000
WAKE = 64


@dataclass
class Active:
    """An attempt under way."""

    attempt: Attempt
    channel: AttemptChannel
    began: float
    desk: object
    timed: bool = field(default=False)


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
        clock: Clock | None = None,
    ) -> None:
        self.run, self.source, self.store, self.policy, self.owner = run, source, store, policy, owner
        self.clock = clock or SystemClock()
        self.journal = Journal(store)
        self.tally = Tally(source.unit)
        self.stop: Stop | None = None
        self.fault: BaseException | None = None
        self._work_root = work_root
        self._scheduler = Scheduler()
        self._changed = threading.Condition(threading.RLock())
        self._admitting = threading.Lock()
        self._unadmitted: list[Offer] = []
        self._just_ended: dict[str, Ended] | None = None  # ends during an admission
        self._active: dict[tuple[str, int], Active] = {}
        self._deadlines: list[tuple[float, tuple[str, int]]] = []
        self._stages: set[str] = set()
        self._since = self.clock.monotonic()

    # Feeding

    def take(self, cls: str, n: int) -> list[Entry]:
        """Up to n tasks of the class, marked started; waits for some, empty when there will be none."""
        with self._changed:
            while True:
                if self.stop or self.fault or self.over:
                    return []
                if taken := self._scheduler.start(cls, n):
                    return taken
                if not self._feed():
                    self._changed.wait()

    def _feed(self) -> bool:
        """Admit a chunk of what is offered, if nobody else is at it. Called with the lock held."""
        if not self._admitting.acquire(blocking=False):
            return False
        try:
            offers, self._unadmitted = self._unadmitted[:CHUNK], self._unadmitted[CHUNK:]
            if not offers and len(self._scheduler) < MOST_AT_HAND:
                offers = list(self.source.more(CHUNK))
            if offers:
                self._admit(offers)
            return bool(offers)
        finally:
            self._admitting.release()

    def _admit(self, offers: list[Offer]) -> None:
        self._just_ended = {}
        self._changed.release()  # the store is asked outside the lock
        try:
            self.journal.drain()  # it must know of every end up to now; later ones are in _just_ended
            known = self.store.find("task", [offer.spec.id for offer in offers])
            needs = self._needs(offers)
        finally:
            self._changed.acquire()
            ended, self._just_ended = self._just_ended or {}, None
        needs |= {task: end.state for task, end in ended.items()}
        for offer in offers:
            if offer.spec.id in ended:
                self._reuse(offer, ended[offer.spec.id])
            else:
                self._place(offer, known.get(offer.spec.id), needs)
        self._changed.notify_all()

    def _needs(self, offers: list[Offer]) -> dict[str, State]:
        """How the needs of these tasks ended, for those that have."""
        wanted = sorted({need for offer in offers for need in offer.spec.needs})
        found = self.store.find("task", wanted) if wanted else {}
        over = (State.succeeded, *self._final_failures())
        return {task.id: task.state for task in found.values() if task.state in over}

    def _reuse(self, offer: Offer, ended: Ended) -> None:
        self.tally.add(offer.spec.kind, REUSED if ended.state is State.succeeded else KEPT)
        self._ended(offer, ended)

    def _final_failures(self) -> tuple[State, ...]:
        """Failures that this run will not try again."""
        return () if self.policy.retry_failed else (State.failed, State.exhausted)

    def _place(self, offer: Offer, row: Task | None, needs: Mapping[str, State]) -> None:
        """A task offered: reuse it, leave its failure alone, or schedule it."""
        kind = offer.spec.kind
        if row is not None and row.state is State.succeeded:
            self._reuse(offer, Ended(row.state, row.result))
        elif not self.source.performs(kind):
            self.tally.add(kind, LEFT)
        elif row is not None and row.state in self._final_failures():
            self._reuse(offer, Ended(row.state, row.result))
        elif row is not None and row.interruptions >= self.policy.interruptions:
            self._give_up(offer, row)
        elif row is not None:
            entry = Entry(offer, row.epoch, row.interruptions, not_before=self._wait_left(row))
            self._scheduler.offer(entry, needs)
        else:
            self._scheduler.offer(Entry(offer), needs)
        self._note_blocked()

    def _wait_left(self, row: Task) -> float:
        left = row.not_before - self.clock.now()
        return self.clock.monotonic() + left if row.state is State.queued and left > 0 else 0.0

    def _give_up(self, offer: Offer, row: Task) -> None:
        """A task that was under way each time its process died is not tried for ever."""
        message = f"its process died {row.interruptions} times while it was running"
        result = Result(failure=Failure("Interrupted", message))
        claim = TasksClaimed(row.kind, row.cls, self.owner, (row.id,), (row.epoch + 1,))
        end = TaskFinished(row.id, row.epoch + 1, State.failed, result)
        self.journal.add(Op(self.run, (claim, end)))
        self.tally.add(row.kind, State.failed)
        self._ended(offer, Ended(State.failed, result))

    def _note_blocked(self) -> None:
        """Tasks whose need did not succeed end here, without an attempt."""
        while self._scheduler.blocked:
            entry = self._scheduler.blocked.pop()
            spec, epoch = entry.spec, entry.epoch + 1
            claim = TasksClaimed(spec.kind, spec.cls, self.owner, (spec.id,), (epoch,))
            end = TaskFinished(spec.id, epoch, State.blocked)
            self.journal.add(Op(self.run, (claim, end)))
            self.tally.add(spec.kind, State.blocked)
            self._ended(entry.offer, Ended(State.blocked, Result()))

    def _ended(self, offer: Offer, ended: Ended) -> None:
        self._unadmitted += self.source.follow(offer, ended)
        if offer.spec.kind == self.source.unit:
            registry.call("trial_ended", task=offer.spec.id, state=ended.state.value)

    # Attempts

    def claim(self, entries: list[Entry]) -> list[Attempt]:
        """Begin an attempt of each, durably."""
        ops = []
        for kind, cls in {(entry.spec.kind, entry.spec.cls) for entry in entries}:
            group = [e for e in entries if (e.spec.kind, e.spec.cls) == (kind, cls)]
            epochs = tuple(e.epoch + 1 for e in group) if any(e.epoch for e in group) else ()
            ops.append(
                Op(self.run, (TasksClaimed(kind, cls, self.owner, tuple(e.spec.id for e in group), epochs),))
            )
        for refusal in self.journal.write_all(ops):
            if refusal:
                raise StoreDamaged(f"a task of this run was claimed elsewhere: {refusal}")
        reach("engine.after_claim")
        for entry in entries:
            entry.epoch += 1
            entry.tries += 1
        return [Attempt(entry.spec, entry.epoch, entry.offer.work) for entry in entries]

    def begin(self, attempt: Attempt, desk: object) -> AttemptChannel | None:
        with self._changed:
            if self.stop or self.fault:
                self._release([attempt])
                return None
            channel = AttemptChannel(self.run, attempt, self.store, self.journal, self._work_root)
            now = self.clock.monotonic()
            self._active[attempt.key] = Active(attempt, channel, now, desk)
            if self.policy.timeout is not None:
                heapq.heappush(self._deadlines, (now + self.policy.timeout, attempt.key))
        self._announce(attempt)
        return channel

    def _announce(self, attempt: Attempt) -> None:
        kind = attempt.spec.kind
        if kind not in self._stages:
            self._stages.add(kind)
            registry.call("stage_began", run=self.run, stage=kind)
        if kind == self.source.unit and attempt.epoch == 1:
            registry.call("trial_began", task=attempt.spec.id)
        registry.call("attempt_began", task=attempt.spec.id, epoch=attempt.epoch)

    def back(self, attempts: list[Attempt]) -> None:
        with self._changed:
            self._release(attempts)

    def _release(self, attempts: list[Attempt]) -> None:
        if attempts:
            self.journal.add(Op(self.run, (TasksReleased(tuple(a.spec.id for a in attempts)),)))
        for attempt in attempts:
            entry = self._scheduler.started[attempt.spec.id]
            entry.tries -= 1
            self._scheduler.give_back(attempt.spec.id)
        self._changed.notify_all()

    def end(self, attempt: Attempt, outcome: object, problem: BaseException | None) -> float:
        """Record how an attempt ended; returns how long it took. Nothing, if it was abandoned."""
        with self._changed:
            active = self._active.pop(attempt.key, None)
        if active is None:
            return 0.0
        took = self.clock.monotonic() - active.began
        finish, blobs = ended(active.channel, took, outcome, problem, self.policy.output_limit)
        active.channel.close()
        reach("engine.before_end")
        self._settle(active, finish, blobs, retry=problem is None or not permanent(problem))
        return took

    def _settle(self, active: Active, finish: Ended, blobs: tuple[bytes, ...], retry: bool) -> None:
        task, epoch = active.attempt.key
        entry = self._scheduler.started[task]
        registry.call("attempt_ended", task=task, epoch=epoch, state=finish.state.value)
        if finish.state is State.failed and retry and entry.tries <= self.policy.retries and not self.stop:
            self._try_again(entry, finish)
            return
        self.journal.add(Op(self.run, (TaskFinished(task, epoch, finish.state, finish.result),), blobs))
        with self._changed:
            self.tally.add(entry.spec.kind, finish.state)
            self._scheduler.end(task, finish.state)
            if self._just_ended is not None:
                self._just_ended[task] = finish
            self._note_blocked()
            self._ended(entry.offer, finish)
            if finish.state is State.failed:
                self._check_failures()
            self._wake()

    def _wake(self) -> None:
        """Rouse one worker when there is a group to admit, all when it is over; the pulse does the rest.

        Waking every idle worker at every end would cost more than the work."""
        if self.over:
            self._changed.notify_all()
        elif len(self._unadmitted) >= WAKE:
            self._changed.notify()

    def _try_again(self, entry: Entry, finish: Ended) -> None:
        wait = back_off(self.policy, entry.tries, entry.spec.id)
        event = TaskRetried(entry.spec.id, entry.epoch, finish.result, self.clock.now() + wait)
        self.journal.add(Op(self.run, (event,)))
        with self._changed:
            self._scheduler.again(entry.spec.id, self.clock.monotonic() + wait)

    def _check_failures(self) -> None:
        failed, most = self.tally.failures, most_failures(self.policy, self.source.size)
        if self.policy.fail_fast:
            self.request(Stop.failing("a trial failed, and fail_fast is set"))
        elif most is not None and failed > most:
            self.request(
                Stop.failing(f"{failed} failures, more than the {most} allowed (policy.max_failures)")
            )

    # Stopping

    def request(self, stop: Stop) -> None:
        """Start nothing more. A stronger request (cancel now) may follow a weaker one."""
        with self._changed:
            if self.stop is None or stop.now > self.stop.now:
                self.stop = stop
            self._changed.notify_all()
        if stop.now:
            self._abandon_all(lambda active: Abandoned(stop.reason))

    def fail(self, problem: BaseException) -> None:
        """The store or the engine itself failed: stop everything; `wait` raises it."""
        with self._changed:
            self.fault = self.fault or problem
            self._changed.notify_all()

    def pulse(self) -> None:
        """What time brings: queued ends go out, back-offs end, deadlines pass."""
        self.journal.flush()
        now = self.clock.monotonic()
        with self._changed:
            self._scheduler.ripen(now)
            late = []
            while self._deadlines and self._deadlines[0][0] <= now:
                late.append(heapq.heappop(self._deadlines)[1])
            self._changed.notify_all()
        for key in late:
            self._abandon(key, TimedOut(f"no answer within {self.policy.timeout:g} s (policy.timeout)"))

    def _abandon_all(self, why) -> None:  # type: ignore[no-untyped-def]
        for key, active in list(self._active.items()):
            self._abandon(key, why(active))

    def _abandon(self, key: tuple[str, int], why: BaseException) -> None:
        """End an attempt from outside: its channel closes and its worker is freed."""
        with self._changed:
            active = self._active.pop(key, None)
        if active is None:
            return
        took = self.clock.monotonic() - active.began
        finish, _ = ended(active.channel, took, None, why, self.policy.output_limit)
        active.channel.close()
        active.desk.abandon(active.attempt)  # type: ignore[attr-defined]
        self._settle(active, finish, (), retry=not permanent(why))

    # Watching

    @property
    def over(self) -> bool:
        """Nothing is under way and nothing is left to start."""
        if self.fault:
            return True
        if self.stop:
            return not self._scheduler.started
        busy = self._unadmitted or self._just_ended is not None
        return not busy and self.source.closed and self._scheduler.idle

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

    @property
    def running(self) -> int:
        return len(self._active)

    def progress(self) -> Progress:
        with self._changed:
            return self.tally.snapshot(
                self.source.size, len(self._active), self.clock.monotonic() - self._since
            )
