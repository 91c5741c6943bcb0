"""One run of one source: feeds tasks to workers, records what comes of them, knows when it is over.

Workers pull. A task travels: source -> intake (is its result in the store already?) -> scheduler -> a
desk, where it is claimed durably, by batch -> a runner -> back to the desk. Ends are gathered without
a lock and settled together: queued for the store, removed from the schedule, and what follows from them
is offered. Plain code that follows (direct tasks: transforms and most scores) takes a shorter way: the worker
that takes it looks it up, and its claim is recorded together with its end.

Idle workers wait on one condition per desk. One is woken for new work, and wakes the next if there is more.

One lock guards the bookkeeping. Under it nobody waits for a commit (ops are only queued; a source may read
from the store, and large blobs are written as files when ops are handed over), and nobody else's code runs:
listeners are told through queues (`hooks`), the stopping rule is asked on a thread of its own with the lock
released (`consult_rule`), models are called on the ledger's loop, agents and evaluators by runners. The locks
of the journal, the hooks and the store are taken inside it, never around it. `docs/architecture.md` draws
threads, locks and who may wait where.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import peira.engine.calls as model_calls
import peira.engine.sources as sources
import peira.models as models
from peira.core.contracts import Attempt, Op, Source
from peira.core.failpoints import reach
from peira.core.log.events import RunNoted, Spent, State
from peira.engine.attempts.admission import Admission, Claims
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.attempts.endings import Abandoner, ActiveAttempt, Settlement, ended
from peira.engine.context import CallSettings, RunContext
from peira.engine.control import StopRequest, most_failures
from peira.engine.kinds import BATCH
from peira.engine.progress import Progress, TaskCounts
from peira.engine.scheduler import Scheduler, TaskEntry
from peira.errors import Parked, TimedOut, unwrapped

GROUP = 128
GATHERING = 0.01
"""How long what follows from ends is gathered, so that the store is asked about many tasks at once."""


class _Released:
    """Within it, a lock that is held is not."""

    def __init__(self, lock: threading.Condition) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self._lock.acquire()


class Execution:
    def __init__(
        self,
        context: RunContext,
        source: Source,
        calls: CallSettings | None = None,
        recorded: Mapping[str, int] = MappingProxyType({}),
        adaptive: sources.AdaptiveSource | None = None,
    ) -> None:
        """`recorded` counts what is known to be in the store already, and will not come from the source.
        `adaptive` is the source again, if a stopping rule may end or narrow it."""
        self.context, self.source = context, source
        self.run, self.journal = context.run, context.journal
        self._calls = calls or CallSettings()
        self._ledger: model_calls.Ledger | None = None
        self._opening = threading.Lock()
        self.notices: deque[str] = deque()
        self.tally = TaskCounts(source.unit, frozenset({BATCH}))
        self.tally.counts.update(recorded)
        self.stop: StopRequest | None = None
        self.starved: StopRequest | None = None
        self.fault: BaseException | None = None
        self._policy, self._clock, self._hooks = context.policy, context.clock, context.hooks
        self._scheduler = Scheduler()
        self._intake = Admission(context, source, self._scheduler, self.tally)
        self._claims = Claims(context)
        self._settling = Settlement(context, self._scheduler, self._intake, self._claims, self.tally)
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._hungry = threading.Condition(lock)
        self._evident = threading.Condition(lock)
        self._idle: dict[tuple[str, ...], threading.Condition] = {}  # by the classes that a desk serves
        self._ahead: dict[str, deque[Attempt]] = {}  # claimed for whoever comes next, by class
        self._lock = lock
        self._active: dict[tuple[str, int], ActiveAttempt] = {}
        self._deadlines: list[tuple[float, tuple[str, int]]] = []
        self._allocated = adaptive
        self._rule = adaptive.evidence if adaptive else None
        self._asking_rule = self._last_look = self._given_up_rule = False
        self._since = self._clock.monotonic()

    def feed(self) -> None:
        """Keep tasks coming until it is over; a thread of its own, so that no worker waits for admission."""
        try:
            with self._changed:
                while not (self.stop or self.over):
                    if not self._intake.urgent:
                        self._hungry.wait(GATHERING)
                    if self._intake.feed(self._changed) or self._unblock():
                        self._call_workers()
                    if self.rule_pending:
                        self._evident.notify()
                self._wake()
        except Exception as problem:
            self.fail(problem)

    # What desks do

    def take(self, sizes: Mapping[str, int], spare: int = 0) -> list[Attempt]:
        """Attempts of one of these classes, the first that has any: at most as many as its size says.

        Waits for some; empty when there will be none. They are claimed durably, except direct ones. `spare`
        more are claimed in the same commit if there are, for those who come next.
        """
        while True:
            with self._changed:
                cls, direct, entries = self._wait_for_work(sizes, spare)
                if not cls:
                    return []
                if not (direct or entries):
                    ahead = self._ahead[cls]
                    return [ahead.popleft() for _ in range(min(sizes[cls], len(ahead)))]
            if entries:
                return self._keep_ahead(cls, self._claims.claim(entries), sizes[cls])
            if attempts := self._intake.admit_direct(direct, self._changed):
                return attempts
            with self._changed:  # all of them were recorded: some are ready to be tried again, perhaps
                self._call_workers()

    def _wait_for_work(
        self, sizes: Mapping[str, int], spare: int
    ) -> tuple[str, list[TaskEntry], list[TaskEntry]]:
        """(class, direct tasks, others): tasks that were started now; none if attempts were claimed ahead.

        The class is "" if there will be no more. With the lock held.
        """
        idle = self._idle.get(tuple(sizes))
        if idle is None:
            idle = self._idle[tuple(sizes)] = threading.Condition(self._lock)
        while True:
            self._settle()
            if self.stop or self.over:
                self._wake()
                return "", [], []
            for cls, size in sizes.items() if not self.rule_pending else ():
                direct = self._intake.start_direct(cls, size)
                ahead = self._ahead.get(cls)
                entries = [] if direct or ahead else self._scheduler.start(cls, size + spare)
                if direct or ahead or entries:
                    if self._has_work(sizes):
                        idle.notify()
                    return cls, direct, entries
            idle.wait()

    def _has_work(self, classes: Iterable[str]) -> bool:
        return any(
            self._intake.direct.get(cls) or self._ahead.get(cls) or self._scheduler.ready(cls)
            for cls in classes
        )

    def _keep_ahead(self, cls: str, attempts: list[Attempt], n: int) -> list[Attempt]:
        """The first n of these attempts; the others are kept for those who come next."""
        if len(attempts) > n:
            with self._changed:
                self._ahead.setdefault(cls, deque()).extend(attempts[n:])
                if self.stop or self.starved:
                    self._return_ahead()
                self._call_workers()
        return attempts[:n]

    def _return_ahead(self) -> None:
        """Release what was claimed ahead: it may not be wanted any more. With the lock held."""
        for attempts in self._ahead.values():
            self.back(list(attempts))
            attempts.clear()

    def _call_workers(self) -> None:
        """Wake an idle worker wherever there is something to take. With the lock held."""
        for classes, idle in self._idle.items():
            if self._has_work(classes):
                idle.notify()

    def _claim_direct(self, task: str) -> None:
        """Claim a direct task that is under way, durably, unless that was done."""
        with self._changed:
            entry = self._scheduler.started.get(task)
            if entry is not None and not entry.claimed:
                self.journal.queue(self._claims.claim_direct([entry]))
        self.journal.drain()

    def _unblock(self) -> bool:
        """Once nothing more can come, what still waits for a need will wait in vain: it is blocked."""
        if not (self._scheduler.stuck and self._intake.dry and not self._intake.busy):
            return False
        self._scheduler.give_up_waiting()
        self._intake.note_blocked()
        return True

    def begin(self, attempt: Attempt, desk: Abandoner) -> AttemptChannel | None:
        """The attempt's channel, as it begins; None if it must not begin any more."""
        entry, now = self._scheduler.started.get(attempt.spec.id), self._clock.monotonic()
        claim = self._claim_direct if entry is not None and not entry.claimed else None
        channel = AttemptChannel(self.context, attempt, self._open_ledger, claim)
        active = ActiveAttempt(attempt, channel, now, desk)
        if attempt.epoch > 1:
            active.waited = self._waited(attempt, now)
        if not self._hooks.listening:
            begins = self._begin(active)
        else:
            with self._changed:  # its end is told with the lock held, too, and so is told later
                begins = self._begin(active)
                self._tell_began(attempt)
        if begins and self._policy.timeout is not None:
            with self._changed:
                heapq.heappush(self._deadlines, (active.began + self._policy.timeout, attempt.key))
        return active.channel if begins else None

    def _waited(self, attempt: Attempt, now: float) -> float:
        """Seconds that the task waited for a model's limits before this attempt."""
        entry = self._scheduler.started.get(attempt.spec.id)
        if entry is None:
            return 0.0
        if entry.parked_at:
            entry.queued, entry.parked_at = entry.queued + now - entry.parked_at, 0.0
        return entry.queued

    def _begin(self, active: ActiveAttempt) -> bool:
        """Count it among what is under way; False if it must not begin. Needs no lock."""
        key = active.attempt.key
        self._active[key] = active
        if not (self.stop or self.fault):  # looked at after it can be seen, so that no stop misses it
            return True
        if self._active.pop(key, None):
            self.back([active.attempt])
        return False

    def _tell_began(self, attempt: Attempt) -> None:
        """Tell those who listen, with the lock held; but not if it was put back. One that a stop has ended
        already was not: its end will be told."""
        entry = self._scheduler.started.get(attempt.spec.id)
        if entry is not None:
            first = entry.tries == 1 and not entry.begun
            entry.begun = True
            self._hooks.attempt_began(attempt, trial=first and attempt.spec.kind == self.source.unit)

    def end(self, attempt: Attempt, outcome: object, problem: BaseException | None) -> float:
        """Take note of how an attempt ended; returns how long it took. Nothing, if it was abandoned."""
        active = self._active.pop(attempt.key, None)
        if active is None:
            return 0.0
        problem = unwrapped(problem)
        if isinstance(problem, Parked):
            active.channel.close()
            if self._hooks.listening:
                self._hooks.attempt_ended(attempt, State.waiting)
            if problem.seconds < math.inf and (entry := self._scheduler.started.get(attempt.spec.id)):
                entry.parked_at, entry.queued = self._clock.monotonic(), entry.queued + active.channel.queued
            self.back([attempt], problem.seconds)
            return self._clock.monotonic() - active.began
        return self._close(active, outcome, problem)

    def _close(
        self, active: ActiveAttempt, outcome: object, problem: BaseException | None, abandoned: bool = False
    ) -> float:
        took, policy = self._clock.monotonic() - active.began, self._policy
        active.ended, active.blobs, active.retry = ended(
            active.channel, took, outcome, problem, policy.output_limit, policy.redraw, active.waited
        )
        active.channel.close(abandoned)
        reach("engine.before_end")
        if self._settling.add(active) >= GROUP:
            with self._changed:
                self._settle()
            self.journal.flush()
        return took

    def back(self, attempts: list[Attempt], wait: float = 0.0) -> None:
        """Attempts that were taken and will not begin, or that are to be made again after a wait."""
        if not attempts:
            return
        with self._changed:
            self._claims.release(attempts, [self._scheduler.started[one.spec.id] for one in attempts])
            for attempt in attempts:
                self._scheduler.again(attempt.spec.id, self._clock.monotonic() + wait if wait else 0.0)
            self._call_workers()

    # Calls

    def _open_ledger(self) -> model_calls.Ledger:
        """The ledger, made for the first call: a run that asks no model has none."""
        with self._opening:
            if self._ledger is None:
                self._ledger = model_calls.Ledger(self.context, self._calls, self)
            return self._ledger

    def close_calls(self) -> None:
        """Nobody will ask any more; an answer that is on its way is recorded first, if it comes soon."""
        if self._ledger:
            self._ledger.close()

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What this run spent on calls so far, by model."""
        return self._ledger.spent if self._ledger else ()

    @property
    def budgets_reached(self) -> Sequence[str]:
        """Which limits stood in the way of a call, of the study and of models."""
        return self._ledger.reserve.reached if self._ledger else ()

    @property
    def refusals(self) -> Sequence[str]:
        """Which models refuse their calls, and why."""
        return self._ledger.refusals if self._ledger else ()

    def wake(self, tasks: Iterable[str]) -> None:
        """What these tasks waited for is there."""
        with self._changed:
            self._scheduler.wake(tasks)
            self._call_workers()

    def batch_ended(self, state: State) -> None:
        with self._changed:
            self.tally.add(BATCH, state)

    def say(self, text: str) -> None:
        """Tell people, now and in the log."""
        text = models.without_keys(text)
        self.journal.queue([Op(self.run, (RunNoted(text),))])
        self.notices.append(text)

    # Settling ends, with the lock held

    def _settle(self) -> None:
        if self._settling.settle(self.stop is not None):
            self._check_failures()
            if self._intake.urgent:
                self._hungry.notify()
            self._call_workers()
        if self._allocated and self._allocated.evidence.learnt:
            self._learn(self._allocated)
        if self.rule_pending:
            self._evident.notify()

    @property
    def rule_pending(self) -> bool:
        """The stopping rule is being asked, or about to be: what it says comes before anything new begins."""
        return self._rule is not None and (self._asking_rule or self._rule.due)

    def consult_rule(self) -> None:
        """Ask the stopping rule whenever there is something to see, until the run is over. A thread of its
        own: a rule is anybody's code, and is asked with the lock released."""
        try:
            with self._changed:
                last = False
                while self._allocated and not last:
                    self._evident.wait_for(lambda: self.rule_pending or self._last_look)
                    last = self._last_look
                    self._ask_rule(self._allocated, last and not (self.stop or self.starved or self.fault))
        except BaseException as problem:  # also what ends a thread: workers wait for what the rule says
            self.fail(problem)

    def _ask_rule(self, source: sources.AdaptiveSource, finish: bool) -> None:
        """About all that is complete; to `finish`, about everything once more. With the lock held."""
        unlocked = _Released(self._changed)
        self._asking_rule = True
        source.evidence.finish(unlocked) if finish else source.evidence.drain(unlocked)
        self._asking_rule = False
        if source.evidence.learnt and not self._given_up_rule:
            self._learn(source)
        self._wake()

    def _learn(self, source: sources.AdaptiveSource) -> None:
        """What the source has learnt is recorded, and what it needs no more is not begun."""
        events = source.evidence.news()
        self.journal.queue([Op(self.run, (event,)) for event in events])
        self.notices.extend(event.text for event in events if isinstance(event, RunNoted))
        if source.narrowed:
            self._drop(source)

    def _drop(self, source: sources.AdaptiveSource) -> None:
        """Forget trials that the rule does not need any more.

        Those that are claimed are executed: a later run looks at trials in the planned order, and would have
        to make up for one that was left out.
        """
        self._scheduler.drop(source.unit, source.unwanted)

    def close_looks(self) -> None:
        """Everything that was needed is over: the last look is at all of it; then `consult_rule` returns."""
        with self._changed:
            self._last_look = True
            self._evident.notify()

    def give_up_rule(self) -> None:
        """Nobody waits for the rule any more: what it may still say is not recorded."""
        with self._changed:
            self._given_up_rule = True

    @property
    def has_rule(self) -> bool:
        """There is a stopping rule to be asked."""
        return self._rule is not None

    @property
    def spares(self) -> bool:
        """Some of the source is not needed."""
        return self._allocated is not None and self._allocated.narrowed

    def _check_failures(self) -> None:
        failed = self.tally.failures
        if not failed or self.stop:
            return
        most = most_failures(self._policy, self.source.size)
        if self._ledger and self._ledger.all_refused and not self.tally.of(self.source.unit, "succeeded"):
            self.request(StopRequest.failing("; ".join(self._ledger.refusals)))
        elif self._policy.fail_fast:
            self.request(StopRequest.failing("a trial failed, and fail_fast is set"))
        elif most is not None and failed > most:
            reason = f"{failed} failures, more than the {most} allowed (policy.max_failures)"
            self.request(StopRequest.failing(reason))

    # Time and stopping

    def pulse(self) -> None:
        """What time brings: ends are settled and go out, back-offs end, deadlines pass."""
        now = self._clock.monotonic()
        with self._changed:
            self._settle()
            if self._allocated and self._allocated.narrowed:  # also what was on its way when that was learnt
                self._drop(self._allocated)
            self._scheduler.ripen(now)
            self._intake.remember({})
            resting = self._scheduler.resting and self._intake.dry and not self._intake.busy
            late = self._late(now) if self._deadlines else []
            self._call_workers()
            if self.over:
                self._wake()
        self.journal.flush()
        if resting and self._ledger:
            self._ledger.hand_in()
        for key in late:
            self._abandon(key, self._timed_out(key))

    def _late(self, now: float) -> list[tuple[str, int]]:
        """Attempts whose time is over. What they waited in peira's own queues does not count."""
        late, more = [], []
        while self._deadlines and self._deadlines[0][0] <= now:
            key = heapq.heappop(self._deadlines)[1]
            active = self._active.get(key)
            if active is not None and self._policy.timeout is not None:
                due = active.began + self._policy.timeout + active.channel.queued
                late.append(key) if due <= now else more.append((due, key))
        for one in more:
            heapq.heappush(self._deadlines, one)
        return late

    def _timed_out(self, key: tuple[str, int]) -> TimedOut:
        """The failure of an attempt that took too long, with what it was waiting for."""
        active = self._active.get(key)
        calls = active.channel.unanswered if active else 0
        what = f"; {calls} of its model calls {'is' if calls == 1 else 'are'} unanswered" if calls else ""
        return TimedOut(f"no answer within {self._policy.timeout:g} s (policy.timeout){what}")

    def request(self, stop: StopRequest) -> None:
        """Start nothing more; a request to stop now also ends what is running, and outdoes a weaker one."""
        with self._changed:
            if self.stop is None or stop.now > self.stop.now:
                self.stop = stop
            self._return_ahead()
            self._wake()
        if stop.now:
            for key in list(self._active):
                self._abandon(key, stop.signal)

    def starve(self, why: str) -> None:
        """The budget is used up: begin no more units; what follows from ended ones is still done."""
        with self._changed:
            if self.starved is None:
                self.starved = StopRequest.limit(why)
                self._intake.starved = True
                self._return_ahead()
                self._scheduler.drop(self.source.unit)
            self._wake()

    def _abandon(self, key: tuple[str, int], why: BaseException) -> None:
        """End an attempt from outside: its channel closes and its worker is freed."""
        active = self._active.pop(key, None)
        if active is not None:
            active.desk.abandon(active.attempt)
            self._close(active, None, why, abandoned=True)

    def fail(self, problem: BaseException) -> None:
        """The store or the engine itself failed: stop everything; `wait` raises it."""
        with self._changed:
            self.fault = self.fault or problem
            self._wake()

    def _wake(self) -> None:
        """Wake everybody: the run is over or stopped, or may be."""
        self._changed.notify_all()
        for idle in self._idle.values():
            idle.notify_all()
        self._hungry.notify()

    @property
    def over(self) -> bool:
        """Nothing is under way and nothing is left to start."""
        if self.fault:
            return True
        if self.stop:
            return not self._scheduler.started
        return self._intake.dry and self._scheduler.idle and not (self._intake.busy or self.rule_pending)

    def wait(self, timeout: float) -> bool:
        """Wait until it is over, at most so long; raises what went wrong with the store or the engine."""
        with self._changed:
            self._changed.wait_for(lambda: self.over, timeout)
            if self.fault:
                raise self.fault
            return self.over

    def progress(self) -> Progress:
        with self._changed:
            elapsed = self._clock.monotonic() - self._since
            look = self._allocated.evidence.look if self._allocated else None
            waiting = self._scheduler.asleep
            running = len(self._active)
        waits = tuple(self._ledger.waits()) if self._ledger else ()
        return self.tally.snapshot(self.source.size, running, elapsed, waiting, look, waits)
