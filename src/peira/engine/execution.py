"""One run of one source: feeds tasks to workers, records what comes of them, knows when it is over.

Workers pull. A task travels: source -> intake (is its result in the store already?) -> scheduler -> a
desk, where it is claimed durably, by batch -> a runner -> back to the desk. Ends are gathered without
a lock and settled together: queued for the store, taken off the schedule, and what follows from them
is offered.

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
from peira.engine.scheduler import Scheduler
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
        self._settling = Settlement(context, self._scheduler, self._intake, self.tally)
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._hungry = threading.Condition(lock)
        self._evident = threading.Condition(lock)
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
                    self._intake.feed(self._changed) or self._unblock()
                    if self.rule_pending:
                        self._evident.notify()
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
                if not self.rule_pending and (entries := self._scheduler.start(cls, n)):
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
        channel, now = AttemptChannel(self.context, attempt, self._open_ledger), self._clock.monotonic()
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
            self._changed.notify_all()

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
            self._changed.notify_all()

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
                self._scheduler.drop(self._allocated.unit, self._allocated.unwanted)
            self._scheduler.ripen(now)
            resting = self._scheduler.resting and self._intake.dry and not self._intake.busy
            late = self._late(now) if self._deadlines else []
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
        self._changed.notify_all()
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
