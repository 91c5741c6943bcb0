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
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import MappingProxyType

import msgspec

import peira.engine.calls as model_calls
import peira.engine.sources as sources
import peira.models as models
from peira.core.contracts import Attempt, Offer, Op, OpenSource, Outcome, Source
from peira.core.failpoints import reach
from peira.core.log.events import (
    TERMINAL,
    AnyEvent,
    CommandTaken,
    Failure,
    RunAdjusted,
    RunCancelling,
    RunNoted,
    RunPaused,
    RunResumed,
    Spent,
    State,
    Status,
    TasksCancelling,
    TasksWoken,
)
from peira.core.log.rows import ASKED, Call, question_row
from peira.engine.attempts.admission import Admission, Claims
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.attempts.endings import Abandoner, ActiveAttempt, Settlement, ended
from peira.engine.context import CallSettings, RunContext
from peira.engine.control import ADJUST, CANCEL, PAUSE, RESUME, Command, StopRequest, most_failures
from peira.engine.inbox import expiring, find_question, waiting_op
from peira.engine.kinds import BATCH, STAGES
from peira.engine.progress import Progress, TaskCounts
from peira.engine.scheduler import Scheduler, TaskEntry
from peira.errors import Abandoned, Fenced, Parked, TimedOut, unwrapped
from peira.spec.limits import raised

GROUP = 128
GATHERING = 0.01
"""How long what follows from ends is gathered, so that the store is asked about many tasks at once."""
IDLE = 0.25
"""How long intake rests when there is nothing to admit; it is woken when there is."""


class _NewWait(msgspec.Struct):
    """A task that begins to wait: the commit that says so, and what it waits for.

    `unknown` are awaited tasks that were not at hand when `mark` ops had been added to the journal.
    """

    attempt: Attempt
    questions: tuple[str, ...]
    awaits: tuple[str, ...]
    commit: Future[list[Outcome]] | None = None
    unknown: frozenset[str] = frozenset()
    mark: int = 0


class _Released:
    """Within it, a lock that is held is not."""

    def __init__(self, lock: threading.Condition) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self._lock.acquire()


def _belongs(offer: Offer, tasks: frozenset[str]) -> bool:
    """Whether a task is one of these, or follows from one."""
    return offer.spec.id in tasks or getattr(offer.work, "trial", None) in tasks


class Execution:
    def __init__(
        self,
        context: RunContext,
        source: Source,
        calls: CallSettings | None = None,
        recorded: Mapping[str, int] = MappingProxyType({}),
        adaptive: sources.AdaptiveSource | None = None,
        stays: bool = False,
    ) -> None:
        """`recorded` counts what is known to be in the store already, and will not come from the source.
        `adaptive` is the source again, if a stopping rule may end or narrow it. With `stays` the run goes on
        while all that is left waits for people."""
        self.context, self.source = context, source
        self.run, self.journal = context.run, context.journal
        self._calls = calls or CallSettings()
        self.time_limit = self._calls.budget.time
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
        self.waiting = self._scheduler.waiting
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
        self.stays, self.paused = stays, False
        self.adjusted: deque[int] = deque()
        """Numbers of workers that were asked for, for the driver."""
        self._to_cancel: dict[str, str] = {}  # started tasks that were cancelled, and by whom
        self._new_waits: list[_NewWait] = []
        self._due: list[tuple[float, str]] = []  # deadlines of questions, by the clock on the wall: a heap
        if isinstance(source, OpenSource):
            source.watch(self.grown)

    def grown(self) -> None:
        """The source may have something again."""
        with self._changed:
            self._intake.grown()
            self._hungry.notify()

    def feed(self) -> None:
        """Keep tasks coming until it is over; a thread of its own, so that no worker waits for admission."""
        try:
            with self._changed:
                while not (self.stop or self.over):
                    if not self._intake.urgent:
                        self._hungry.wait(GATHERING if self._intake.hungry else IDLE)
                        if self._intake.offers and not self._intake.urgent:
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
            for cls, size in sizes.items() if not (self.rule_pending or self.paused) else ():
                direct = self._intake.start_direct(cls, size)
                ahead = self._ahead.get(cls)
                entries = [] if direct or ahead else self._scheduler.start(cls, size + spare)
                if direct or ahead or entries:
                    if self._has_work(sizes):
                        idle.notify()
                    return cls, direct, entries
            idle.wait()

    def _has_work(self, classes: Iterable[str]) -> bool:
        return not self.paused and any(
            self._intake.direct.get(cls) or self._ahead.get(cls) or self._scheduler.ready(cls)
            for cls in classes
        )

    def _keep_ahead(self, cls: str, attempts: list[Attempt], n: int) -> list[Attempt]:
        """The first n of these attempts; the others are kept for those who come next."""
        if len(attempts) > n:
            with self._changed:
                self._ahead.setdefault(cls, deque()).extend(attempts[n:])
                if self.stop or self.starved or self.paused:
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
        # Looked at after it can be seen, so that no stop misses it.
        if self._to_cancel and (by := self._to_cancel.get(key[0])) is not None:
            if self._active.pop(key, None):
                self._close(active, None, Abandoned(f"cancelled by {by}"), abandoned=True)
            return False
        if not (self.stop or self.fault or self.paused):
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
        if active.channel.questions or active.channel.awaits:
            return self._begin_to_wait(active)
        if isinstance(problem, Parked):
            active.channel.close()
            if self._hooks.listening:
                self._hooks.attempt_ended(attempt, State.waiting)
            if problem.seconds < math.inf and (entry := self._scheduler.started.get(attempt.spec.id)):
                entry.parked_at, entry.queued = self._clock.monotonic(), entry.queued + active.channel.queued
            self.back([attempt], problem.seconds)
            return self._clock.monotonic() - active.began
        return self._close(active, outcome, problem)

    def _begin_to_wait(self, active: ActiveAttempt) -> float:
        """Record that the attempt's task waits, whatever its code made of the signal; its worker is free."""
        attempt, channel = active.attempt, active.channel
        channel.close()
        if self._hooks.listening:
            self._hooks.attempt_ended(attempt, State.waiting)
        waits = _NewWait(attempt, tuple(channel.questions), channel.awaits)
        now = self._clock.now()
        op = waiting_op(self.run, attempt, channel.questions, channel.awaits, now, self.context.inline)
        with self._changed:
            self._new_waits.append(waits)
        reach("engine.before_wait")
        waits.commit = self.journal.send([op])
        return self._clock.monotonic() - active.began

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

    def settled_ops(self) -> int:
        """How many ops were added to the journal, with those of everything that is being settled."""
        with self._changed:
            return self.journal.added

    def say(self, text: str) -> None:
        """Tell people, now and in the log."""
        text = models.without_keys(text)
        self.journal.queue([Op(self.run, (RunNoted(text),))])
        self.notices.append(text)

    # Settling ends, with the lock held

    def _settle(self) -> None:
        if self._settling.settle(self.stop is not None):
            self._check_failures()
            if self._intake.hungry:
                self._hungry.notify()
            self._call_workers()
        if self._new_waits:
            self._settle_waits()
        if self._intake.asked:
            self._note_deadlines(self._intake.asked)
            self._intake.asked.clear()
        if self._scheduler.arrived:
            self._note_arrived()
        if self._allocated and self._allocated.evidence.learnt:
            self._learn(self._allocated)
        if self.rule_pending:
            self._evident.notify()

    def _settle_waits(self) -> None:
        """Put aside the tasks whose waiting is durable. What they wait for is looked up now, with the lock
        held: what is closed later is noted by the scheduler."""
        committed = [one for one in self._new_waits if one.commit is not None and one.commit.done()]
        keys = [key for one in committed for key in one.questions]
        rows = self.context.store.find("call", keys) if keys else {}
        left = {id(one): one for one in self._new_waits}
        for one in committed:
            assert one.commit is not None
            entry = self._scheduler.started[one.attempt.spec.id]
            if one.commit.result()[-1] is not None:  # somebody answered just before
                del left[id(one)]
                self.back([one.attempt])
            elif (awaits := self._awaited_tasks(one)) is not None:
                del left[id(one)]
                entry.tries -= 1
                entry.attempts -= 1
                asked = {key for key in one.questions if rows[key].state == ASKED}
                self._scheduler.wait(one.attempt.spec.id, asked | awaits, tasks=bool(one.awaits))
                self._note_deadlines(asked, rows)
                if one.awaits and not asked | awaits:
                    self.journal.queue([Op(self.run, (TasksWoken((one.attempt.spec.id,)),))])
        self._new_waits = list(left.values())
        if committed:
            self._call_workers()

    def _awaited_tasks(self, one: _NewWait) -> set[str] | None:
        """Those of the awaited tasks that have not ended; None if the journal must be waited for first.

        A task that is not at hand may have ended a moment ago, and the store not know it yet.
        """
        unknown = frozenset(task for task in one.awaits if not self._scheduler.knows(task))
        if not unknown:
            return set(one.awaits)
        if not unknown <= one.unknown:
            one.unknown, one.mark = unknown, self.journal.added
        if self.journal.durable < one.mark:
            return None
        rows = self.context.store.find("task", list(unknown))
        return set(one.awaits) - {task for task, row in rows.items() if row.state in TERMINAL}

    def _note_deadlines(self, keys: Iterable[str], rows: Mapping[str, Call] | None = None) -> None:
        found = self.context.store.find("call", list(keys)) if rows is None else rows
        for key in keys:
            if key in found and (due := question_row(found[key]).due):
                heapq.heappush(self._due, (due, key))

    def _note_arrived(self) -> None:
        """Tasks that waited for others are queued again; answers have queued the rest."""
        woken = tuple(entry.spec.id for entry in self._scheduler.arrived if entry.awaits_tasks)
        if woken:
            self.journal.queue([Op(self.run, (TasksWoken(woken),))])
        self._scheduler.arrived.clear()
        self._call_workers()

    def close_question(self, event: AnyEvent, note: AnyEvent | None = None) -> Fenced | None:
        """Record how a question was closed, durably, and let the task go on; the refusal if it was closed
        before. `note` is recorded with it."""
        events = (event,) if note is None else (note, event)
        [refusal] = self.journal.write([Op(self.run, events)])
        if refusal is None:
            self.arrive([event.key])  # type: ignore[union-attr]
        return refusal

    def arrive(self, keys: Iterable[str]) -> None:
        """Questions were closed, or tasks ended, that tasks here may wait for."""
        with self._changed:
            self._scheduler.arrive(keys)
            self._note_arrived()

    def awaits(self, task: str) -> bool:
        """Whether the task is at hand, and waits."""
        with self._changed:
            return self._scheduler.awaits(task)

    def obey(self, command: Command) -> None:
        """Execute a command about this run, and commit that."""
        taken = CommandTaken(command.command, command.id, command.by)
        by, id = command.by, command.id
        cancelled = self.stop is not None and self.stop.status is Status.cancelled
        if command.command == CANCEL and command.tasks:
            self.cancel_tasks(command.tasks, by, taken)
        elif command.command == CANCEL and not cancelled:
            self.journal.write([Op(self.run, (taken, RunCancelling(by, id)))])
            self.request(StopRequest.cancelled(by))
        elif command.command == PAUSE:
            self.journal.write([Op(self.run, (taken, RunPaused(by, id)))])
            self.pause(True)
        elif command.command == RESUME:
            self.journal.write([Op(self.run, (taken, RunResumed(by, id)))])
            self.pause(False)
        elif command.command == ADJUST:
            parallel = int(command.body.get("parallel") or 0)
            budget = {name: float(most) for name, most in dict(command.body.get("budget") or {}).items()}
            self.journal.write([Op(self.run, (taken, RunAdjusted(parallel, budget, by, id)))])
            self.adjust(parallel, budget)

    def pause(self, paused: bool) -> None:
        """Hand out nothing more, or go on; what is running may finish."""
        with self._changed:
            self.paused = paused
            if paused:
                self._return_ahead()
            self._call_workers()
        self.notices.append("paused: `peira resume` goes on" if paused else "resumed")

    def adjust(self, parallel: int, budget: Mapping[str, float]) -> None:
        """Raise limits while the run goes on: the number of workers, fields of the budget."""
        if parallel:
            self.adjusted.append(parallel)
        if budget:
            with self._opening:
                self._calls = replace(self._calls, budget=raised(self._calls.budget, budget))
                self.time_limit = self._calls.budget.time
                if self._ledger is not None:
                    self._ledger.raise_budget(budget)

    def cancel_tasks(self, tasks: Collection[str], by: str, taken: AnyEvent | None = None) -> None:
        """Cancel these tasks, and what follows from them, in whatever state; durable when it returns.

        Those that have ended stay as they are.
        """
        wanted = frozenset(tasks)
        if taken is not None:
            self.journal.queue([Op(self.run, (taken,))])
        failure = Failure(Abandoned.__name__, f"cancelled by {by}")
        while True:
            self.journal.drain()
            with self._changed:
                self._settle()
                chosen = set(self._scheduler.belonging(lambda offer: _belongs(offer, wanted)))
                if not any(one.attempt.spec.id in chosen for one in self._new_waits):
                    started = self._cancel_now(wanted, chosen, failure, by)
                    break
            time.sleep(GATHERING)  # one that begins to wait just now
        self.journal.drain()
        for key in [key for key in list(self._active) if key[0] in started]:
            self._abandon(key, Abandoned(f"cancelled by {by}"))

    def _cancel_now(self, wanted: frozenset[str], chosen: set[str], failure: Failure, by: str) -> set[str]:
        """End what is not started, and mark what is; returns the latter. With the lock held."""
        started = chosen & self._scheduler.started.keys()
        for entry in self._scheduler.remove(chosen - started):
            self._intake.cancel(entry, failure)
        unknown = [task for task in wanted - chosen if not self._scheduler.knows(task)]
        rows = self.context.store.find("task", unknown) if unknown else {}
        for task in unknown:
            self._intake.cancel_unknown(task, rows.get(task), failure)
        claimed = [task for task in sorted(started) if self._scheduler.started[task].claimed]
        self.journal.queue([Op(self.run, (TasksCancelling((task,), by),)) for task in claimed])
        self._to_cancel.update(dict.fromkeys(started, by))
        self._call_workers()
        return started

    def cancel_waiting(self, by: str) -> None:
        """The run is cancelled: so is everything that waits, and its questions are void."""
        failure = Failure(Abandoned.__name__, f"cancelled by {by}")
        with self._changed:
            self._settle()
            for entry in self._scheduler.remove(list(self._scheduler.waiting)):
                self._intake.cancel(entry, failure)
        self.journal.drain()

    def waiting_counts(self) -> dict[str, int]:
        """How many tasks wait, by kind, as they are counted at the end of the run."""
        with self._changed:
            counts = {f"{kind}.waiting": self._scheduler.waiting_of(kind) for kind in STAGES}
        return {key: n for key, n in counts.items() if n}

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
                    stopped = self.stop or self.starved or self.fault or self._scheduler.waiting
                    self._ask_rule(self._allocated, last and not stopped)
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
            overdue = self._overdue() if self._due else []
            self._call_workers()
            if self.over:
                self._wake()
        self.journal.flush()
        if resting and self._ledger:
            self._ledger.hand_in()
        for key in late:
            self._abandon(key, self._timed_out(key))
        for question in overdue:
            self._expire(question)

    def _overdue(self) -> list[str]:
        """The keys of questions whose deadline has passed."""
        found, now = [], self._clock.now()
        while self._due and self._due[0][0] <= now:
            found.append(heapq.heappop(self._due)[1])
        return found

    def _expire(self, key: str) -> None:
        """Close a question that nobody answered in time, unless somebody just did."""
        asked = find_question(self.context.store, key)
        if asked.open:
            self.close_question(expiring(asked))

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
        if not self._intake.dry or self._intake.busy or self.rule_pending:
            return False
        if self._scheduler.waiting and not self.stays:
            return self._scheduler.only_waiting
        return self._scheduler.idle

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
            running, people = len(self._active), len(self._scheduler.waiting)
        waits = tuple(self._ledger.waits()) if self._ledger else ()
        return self.tally.snapshot(self.source.size, running, elapsed, waiting, look, waits, people)
