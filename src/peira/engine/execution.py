"""One run of one source: feeds tasks to workers, records what comes of them, knows when it is over.

A task travels: source -> `Admission` (is its result in the store already?) -> `Scheduler` -> `Dispatch`,
where it is claimed durably, by batch -> a runner -> `ActiveAttempts` -> `Settlement`. Ends are gathered
without a lock and settled together: queued for the store, removed from the schedule, and what follows from
them is offered. Plain code that follows (direct tasks: transforms and most scores) takes a shorter way: the
worker that takes it looks it up, and its claim is recorded together with its end.

`Execution` puts these parts together around one `RunState`, and has what belongs to the run as a whole:
intake, pulse, commands, budgets, stopping.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

import peira.engine.calls as model_calls
import peira.engine.sources as sources
from peira.core.contracts import Offer, Op, OpenSource, Source
from peira.core.log.events import (
    TERMINAL,
    AnyEvent,
    CommandTaken,
    RunAdjusted,
    RunCancelling,
    RunPaused,
    RunResumed,
    Spent,
    State,
    Status,
)
from peira.engine.attempts.active_attempts import ActiveAttempts
from peira.engine.attempts.cancellation import TaskCancellation
from peira.engine.attempts.dispatch import Dispatch
from peira.engine.attempts.endings import Settlement
from peira.engine.attempts.waits import Waits
from peira.engine.context import CallSettings, RunContext
from peira.engine.control import ADJUST, CANCEL, PAUSE, RESUME, Command, StopRequest, most_failures
from peira.engine.kinds import BATCH, STAGES
from peira.engine.places import RunPlaces
from peira.engine.progress import Progress, shared
from peira.engine.run_state import RunState
from peira.engine.sources.rule import RuleConsultation
from peira.errors import Fenced
from peira.spec.limits import raised

GATHERING = 0.01
"""How long what follows from ends is gathered, so that the store is asked about many tasks at once."""
IDLE = 0.25
"""How long intake rests when there is nothing to admit; it is woken when there is."""


class SeparateBudgetCallbacks:
    """The callbacks of a ledger whose budget is kept apart: that it is used up ends nothing else."""

    def __init__(self, execution: Execution) -> None:
        self.wake, self.say, self.fail = execution.wake, execution.say, execution.fail
        self.batch_ended = execution.batch_ended
        self._said = False

    def starve(self, why: str) -> None:
        """Say so, once; the work of this account that asks a model ends as exhausted."""
        if not self._said:
            self._said = True
            self.say(f"{why}: what needs more of it ends as exhausted, and all else goes on")


class Execution:
    def __init__(
        self,
        context: RunContext,
        source: Source,
        calls: CallSettings | None = None,
        recorded: Mapping[str, int] = MappingProxyType({}),
        adaptive: sources.AdaptiveSource | None = None,
        stays: bool = False,
        places: RunPlaces | None = None,
    ) -> None:
        """`recorded` counts what is known to be in the store already, and will not come from the source.
        `adaptive` is the source again, if a stopping rule may end or narrow it. With `stays` the run goes on
        while all that is left waits for people. `places` are shared with other runs of the process."""
        self.state = state = RunState(context, source, adaptive, stays, recorded, places)
        self.context, self.source = context, source
        self.run, self.journal = context.run, context.journal
        self.tally, self.notices = state.tally, state.notices
        self.waiting = state.scheduler.waiting
        self._policy, self._clock = context.policy, context.clock
        self._calls = calls or CallSettings()
        self.time_limit = self._calls.budget.time
        self._ledgers: dict[str, model_calls.Ledger] = {}
        self._opening = threading.Lock()
        self._changed, self._intake, self._scheduler = state.changed, state.admission, state.scheduler
        self._settlement = Settlement(context, state.scheduler, state.admission, state.claims, state.tally)
        self.dispatch = Dispatch(state, self._settle)
        self._waits: Waits | None = None
        self.attempts = ActiveAttempts(
            state, self.dispatch, self._open_waits, self._settlement, self._open_ledger, self._settle
        )
        self._rule = RuleConsultation(state, adaptive, self.dispatch.wake_all) if adaptive else None
        self._since = self._clock.monotonic()
        self.failures_elsewhere = 0
        """Failures that other processes of a shared run have counted."""
        self.adjusted: deque[int] = deque()
        """Numbers of workers that were asked for, for the driver."""
        if isinstance(source, OpenSource):
            source.watch(self.grown)

        context.hosted.add = self.add_source

    # Intake

    def add_source(self, source: Source) -> None:
        """Also execute the tasks of a source that an attempt has opened; it is notified of their ends."""
        with self._changed:
            self._intake.add_source(source)
            self.state.hungry.notify()

    def grown(self) -> None:
        """The source may have something again."""
        with self._changed:
            self._intake.grown()
            self.state.hungry.notify()

    def feed(self) -> None:
        """Keep tasks coming until it is over; a thread of its own, so that no worker waits for admission."""
        state, hungry = self.state, self.state.hungry
        try:
            with self._changed:
                while not (state.stop or state.over):
                    if not self._intake.urgent:
                        hungry.wait(GATHERING if self._intake.hungry else IDLE)
                        if self._intake.offers and not self._intake.urgent:
                            hungry.wait(GATHERING)
                    if self._intake.feed(self._changed) or self._unblock():
                        self.dispatch.call_workers()
                    if self._rule is not None and state.rule_pending:
                        state.evident.notify()
                self.dispatch.wake_all()
        except Exception as problem:
            self.fail(problem)

    def _unblock(self) -> bool:
        """Once nothing more can come, what still waits for a need will wait in vain: it is blocked."""
        if not (self._scheduler.stuck and self._intake.dry and not self._intake.busy):
            return False
        self._scheduler.give_up_waiting()
        self._intake.note_blocked()
        return True

    # Calls

    def _open_ledger(self, account: str = "") -> model_calls.Ledger:
        """The ledger of an account, made for its first call: a run that asks no model has none."""
        with self._opening:
            if account not in self._ledgers:
                callbacks = SeparateBudgetCallbacks(self) if account else self
                calls = self._calls.of_account(account)
                self._ledgers[account] = model_calls.Ledger(self.context, calls, callbacks)
            return self._ledgers[account]

    @property
    def _ledger(self) -> model_calls.Ledger | None:
        """The ledger of the run's own budget; None before its first call."""
        return self._ledgers.get("")

    def close_calls(self) -> None:
        """Nobody will ask any more; an answer that is on its way is recorded first, if it comes soon."""
        for ledger in list(self._ledgers.values()):
            ledger.close()

    def share_limits(self) -> None:
        """Exchange limits of calls with the other processes of a shared run."""
        if self._ledger:
            self._ledger.exchange_limits()

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What this run spent on calls so far, by model and account."""
        return tuple(one for ledger in list(self._ledgers.values()) for one in ledger.spent)

    @property
    def budgets_reached(self) -> Sequence[str]:
        """Which limits stood in the way of a call, of the study and of models."""
        return [why for ledger in list(self._ledgers.values()) for why in ledger.reserve.reached]

    @property
    def refusals(self) -> Sequence[str]:
        """Which models refuse their calls, and why."""
        found = [why for ledger in list(self._ledgers.values()) for why in ledger.refusals]
        return list(dict.fromkeys(found))

    def wake(self, tasks: Iterable[str]) -> None:
        """What these tasks waited for is there."""
        with self._changed:
            self._scheduler.wake(tasks)
            self.dispatch.call_workers()

    def batch_ended(self, state: State) -> None:
        """Count a batch of calls that ended."""
        with self._changed:
            self.tally.add(BATCH, state)

    def settled_ops(self) -> int:
        """How many ops were added to the journal, with those of everything that is being settled."""
        with self._changed:
            return self.journal.added

    def say(self, text: str) -> None:
        """Tell people, now and in the log."""
        self.state.say(text)

    # Settling, with the lock held

    def _settle(self) -> None:
        """Settle ends that were added, waits that are durable, and what the rule has said."""
        if self._settlement.settle(self.state.stop is not None):
            self._check_failures()
            if self._intake.hungry:
                self.state.hungry.notify()
            self.dispatch.call_workers()
        if self._waits or self._intake.asked or self._scheduler.arrived:
            self._open_waits().settle()
        if self._rule is not None:
            self._rule.learn()
            if self.state.rule_pending:
                self.state.evident.notify()

    def _check_failures(self) -> None:
        failed = self.tally.failures + self.failures_elsewhere
        if not failed or self.state.stop:
            return
        most = most_failures(self._policy, self.source.size)
        if self._ledger and self._ledger.all_refused and not self.tally.of(self.source.unit, "succeeded"):
            self.request(StopRequest.failing("; ".join(self._ledger.refusals)))
        elif self._policy.fail_fast:
            self.request(StopRequest.failing("a trial failed, and fail_fast is set"))
        elif most is not None and failed > most:
            reason = f"{failed} failures, more than the {most} allowed (policy.max_failures)"
            self.request(StopRequest.failing(reason))

    def note_failures_elsewhere(self, failures: int) -> None:
        """Count the failures of other processes, which together may be too many."""
        with self._changed:
            if failures != self.failures_elsewhere:
                self.failures_elsewhere = failures
                self._check_failures()

    # Waiting tasks

    def _open_waits(self) -> Waits:
        """What waits, made when something first does: in most runs nothing."""
        with self._changed:
            if self._waits is None:
                self._waits = Waits(self.state, self.dispatch)
            return self._waits

    def close_question(self, event: AnyEvent, note: AnyEvent | None = None) -> Fenced | None:
        """Record how a question was closed and let its task go on; the refusal if it was closed before."""
        return self._open_waits().close_question(event, note)

    def arrive(self, keys: Iterable[str]) -> None:
        """Questions were closed, or tasks ended, that tasks here may wait for."""
        self._open_waits().arrive(keys)

    def awaits(self, task: str) -> bool:
        """Whether the task is at hand, and waits."""
        with self._changed:
            return self._scheduler.awaits(task)

    def look_at_waits(self) -> None:
        """Let tasks go on whose questions were closed by other processes, or whose tasks ended there."""
        self._open_waits().look()

    def only_waits(self) -> bool:
        """Whether all that is at hand waits for people or tasks."""
        with self._changed:
            return self._scheduler.only_waiting and not self._intake.busy

    def park(self) -> bool:
        """If all that is at hand waits, let nothing of it begin until `unpark`; whether that is so."""
        with self._changed:
            self.state.parked = self._scheduler.only_waiting and not self._intake.busy
            return self.state.parked

    def unpark(self) -> None:
        """What has woken up may begin."""
        with self._changed:
            self.state.parked = False
            self.dispatch.call_workers()

    def waiting_counts(self) -> dict[str, int]:
        """How many tasks wait, by kind, as they are counted at the end of the run."""
        with self._changed:
            counts = {f"{kind}.waiting": self._scheduler.waiting_of(kind) for kind in STAGES}
        return {key: n for key, n in counts.items() if n}

    def failed_before(self) -> Counter[str]:
        """How often units that a stopped run has not begun count as failed (or exhausted) in earlier runs."""
        with self._changed:
            self._intake.pass_over(self._scheduler.not_started(self.source.unit))
            passed_over, self._intake.passed_over = self._intake.passed_over, []
        rows = self.context.store.find("task", sorted(set(passed_over)))
        ends = (rows[task].state for task in passed_over if task in rows)
        return Counter(
            shared(state) for state in ends if state in TERMINAL - {State.succeeded, State.cancelled}
        )

    # Commands

    def obey(self, command: Command) -> None:
        """Execute a command about this run, and commit that."""
        taken = CommandTaken(command.command, command.id, command.by)
        by, id = command.by, command.id
        cancelled = self.state.stop is not None and self.state.stop.status is Status.cancelled
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
            self.state.paused = paused
            if paused:
                self.dispatch.return_ahead()
            self.dispatch.call_workers()
        self.notices.append("paused: nothing more begins until it is resumed" if paused else "resumed")

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
        """Cancel these tasks, and what follows from them, in whatever state; durable when it returns."""
        self._cancellation().cancel(tasks, by, taken)

    def cancel_waiting(self, by: str) -> None:
        """The run is cancelled: so is everything that waits, and its questions are void."""
        self._cancellation().cancel_waiting(by)

    def _cancellation(self) -> TaskCancellation:
        return TaskCancellation(self.state, self.dispatch, self.attempts, self._open_waits(), self._settle)

    # The stopping rule

    def consult_rule(self) -> None:
        """Ask the stopping rule, if there is one, until the run is over; a thread of its own."""
        try:
            if self._rule is not None:
                self._rule.consult()
        except BaseException as problem:  # also what ends a thread: workers wait for what the rule says
            self.fail(problem)

    def close_looks(self) -> None:
        """Everything that was needed is over: the last look is at all of it; then `consult_rule` returns."""
        if self._rule is not None:
            self._rule.close()

    def give_up_rule(self) -> None:
        """Nobody waits for the rule any more: what it may still say is not recorded."""
        if self._rule is not None:
            self._rule.give_up()

    @property
    def has_rule(self) -> bool:
        """There is a stopping rule to be asked."""
        return self._rule is not None

    @property
    def spares(self) -> bool:
        """Some of the source is not needed."""
        return self.state.adaptive is not None and self.state.adaptive.narrowed

    def forget_units(self, unwanted: Callable[[str], bool], forgone: Callable[[Offer], None]) -> None:
        """Forget units that have not begun and are not needed; `forgone` is called with each offer."""
        with self._changed:
            for entry in self._scheduler.drop(self.source.unit, unwanted):
                for offer in (entry.offer, *entry.others):
                    forgone(offer)

    # Time and stopping

    def pulse(self) -> None:
        """What time brings: ends are settled and go out, back-offs end, deadlines pass."""
        now = self._clock.monotonic()
        with self._changed:
            self._settle()
            if self._rule is not None:  # also what was on its way when the rule gave it up
                self._rule.drop()
            self._scheduler.ripen(now)
            self._intake.remember({})
            resting = self._scheduler.resting and self._intake.dry and not self._intake.busy
            late, overdue = self.attempts.late(now), self._waits.overdue() if self._waits else ()
            self.dispatch.call_workers()
            if self.state.over:
                self.dispatch.wake_all()
        self.journal.flush()
        if resting and self._ledger:
            self._ledger.hand_in()
        for key in late:
            self.attempts.time_out(key)
        for question in overdue:
            self._open_waits().expire(question)

    def request(self, stop: StopRequest) -> None:
        """Start nothing more; a request to stop now also ends what is running, and outdoes a weaker one."""
        with self._changed:
            if self.state.stop is None or stop.now > self.state.stop.now:
                self.state.stop = stop
            self.dispatch.return_ahead()
            self.dispatch.wake_all()
        if stop.now:
            self.attempts.abandon_all(stop.signal)

    def starve(self, why: str) -> None:
        """The budget is used up: begin no more units; what follows from ended ones is still done."""
        with self._changed:
            if self.state.starved is None:
                self.state.starved = StopRequest.limit(why)
                self._intake.starved = True
                self.dispatch.return_ahead()
                self._intake.pass_over(self._scheduler.drop(self.source.unit))
            self.dispatch.wake_all()

    def fail(self, problem: BaseException) -> None:
        """The store or the engine itself failed: stop everything; `wait` raises it."""
        with self._changed:
            self.state.fault = self.state.fault or problem
            self.dispatch.wake_all()

    def wait(self, timeout: float) -> bool:
        """Wait until it is over, at most so long; raises what went wrong with the store or the engine."""
        state = self.state
        with self._changed:
            self._changed.wait_for(lambda: state.over, timeout)
            if state.fault:
                raise state.fault
            return state.over

    def progress(self) -> Progress:
        """How far the run is."""
        adaptive = self.state.adaptive
        with self._changed:
            elapsed = self._clock.monotonic() - self._since
            look = adaptive.evidence.look if adaptive else None
            waiting = self._scheduler.asleep
            running, people = len(self.attempts), len(self._scheduler.waiting)
        waits = tuple(why for ledger in list(self._ledgers.values()) for why in ledger.waits())
        return self.tally.snapshot(self.source.size, running, elapsed, waiting, look, waits, people)
