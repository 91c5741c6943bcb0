"""Commands to a store from any process: executed by its owner if that is alive, otherwise here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore
from peira.app.store.follower import Follower
from peira.app.store.view import Opened
from peira.core.contracts import Op
from peira.core.ids import resolve
from peira.core.log.events import AnyEvent, CommandTaken, Failure, Result, RunFinished, State, Status
from peira.core.log.state import Run, Task
from peira.core.text.words import lasting
from peira.engine.commands import HANDLERS, CommandService, running_service, service_of
from peira.engine.control import (
    ADJUST,
    CANCEL,
    PAUSE,
    RESUME,
    Command,
    Control,
    StopRequest,
    control_of,
    requester,
)
from peira.engine.inbox import cancelling_op, find_question
from peira.engine.kinds import GENERATE, STAGES
from peira.engine.progress import LEFT
from peira.engine.streams import decision as decision  # registers its handlers
from peira.engine.streams import job_cancellation as job_cancellation  # registers its handlers
from peira.engine.streams import outcomes as outcomes  # registers its handlers
from peira.engine.streams import submission as submission  # registers its handlers
from peira.engine.workers.commands import executed_elsewhere, obey_elsewhere
from peira.errors import Abandoned, Invalid, StoreInUse
from peira.plan.manifest import layout_of, read
from peira.spec.limits import RAISABLE

UNFINISHED = (Status.planned, Status.running, Status.paused, Status.cancelling, Status.interrupted)
PATIENCE = 60.0
"""Seconds to wait for the owner to end its run."""
PROMPT, BUSY = 0.5, 10.0
"""Seconds within which an owner takes a command (it looks several times a second): one that is stopped by a
signal does not respond after the first, one that may be busy after the second."""
POLL = 0.02
AGAIN = 0.2
"""Seconds after which trials that another process was about to begin are cancelled again."""
NOT_ENDED = ("", State.queued, State.running, State.waiting)


def deliver(session: Session, command: Command) -> None:
    """Have a command executed: it is committed when this returns.

    It is executed by the process that owns the store, or here if there is none, or if that process dies
    before it has come to it. Raises StoreInUse if the owner does not respond; the command stays queued then,
    and is executed once the owner goes on, or by the next one.
    """
    with session.reading() as store:
        if (service := running_service(store.address)) is not None:  # in this very process
            service.execute(command)
            return
        control = control_of(store)
        if control is not None:
            control.send(command)
            _wait_until_executed(session, control, command)
            return
    with session.owned() as store:
        service_of(store).execute(command)


def _wait_until_executed(session: Session, control: Control, command: Command) -> None:
    """Wait until the owner has executed the command, or execute it here if there is none."""
    began = time.monotonic()
    while control.holds(command):
        waited = time.monotonic() - began
        if _owner_pid(session) is None:
            _execute_here(session)
        elif waited > BUSY or (waited > PROMPT and _process_state(_owner_pid(session)) in STOPPED):
            raise StoreInUse(_no_response(session, command))
        else:
            time.sleep(POLL)


def _execute_here(session: Session) -> None:
    """Own the store for a moment: that executes what has arrived. Not if another process was faster."""
    try:
        with session.owned():
            return
    except StoreInUse:
        time.sleep(POLL)


def serve_commands(store: AnyStore) -> None:
    """Execute commands that no former owner of the store came to execute."""
    service_of(store).serve()


def _cancel_dead_run(service: CommandService, command: Command) -> None:
    """Cancel what waits for people in a run that no process executes, and the run itself.

    If other processes execute it, they are told.
    """
    store, by = service.store, command.by
    run = store.find("run", [command.run]).get(command.run)
    if run is None or run.status not in (*UNFINISHED, Status.waiting):
        return
    if executed_elsewhere(store, run.id):
        _tell_others(service, command)
        return
    result = Result(failure=Failure(Abandoned.__name__, f"cancelled by {by}"))
    chosen = [task for task in store.waiting() if task.run == run.id and _is_chosen(task, store, command)]
    ops = [cancelling_op(store, run.id, task, result, service.clock.now()) for task in chosen]
    events: tuple[AnyEvent, ...] = (CommandTaken(command.command, command.id, by),)
    if run.status is Status.waiting or not command.tasks:
        counts = dict(run.counts) if run.status is Status.waiting else Follower(store, run.id).counts()
        left = sum(task.run == run.id for task in store.waiting()) - len(chosen)
        status = Status.waiting if left else Status.cancelled
        reason = "" if left else StopRequest.cancelled(by).reason
        events += (RunFinished(status, _without_waiting(counts, chosen, left), reason, run.spent),)
    store.commit([*ops, Op(run.id, events)]).result()


def _tell_others(service: CommandService, command: Command) -> None:
    """Have a command about a run executed by the processes that execute the run, if there are any."""
    store: Any = service.store
    if executed_elsewhere(store, command.run):
        obey_elsewhere(store, command, service.clock.now())


HANDLERS[CANCEL] = _cancel_dead_run
HANDLERS.update(dict.fromkeys((PAUSE, RESUME, ADJUST), _tell_others))


def _without_waiting(counts: Mapping[str, int], cancelled: Sequence[Task], left: int) -> dict[str, int]:
    """The counts of a run with these waiting tasks cancelled; if none is `left`, others are to be done."""
    found = Counter(counts)
    for task in cancelled:
        found[f"{task.kind}.{State.waiting}"] -= 1
        found[f"{task.kind}.{State.cancelled}"] += 1
    for key in [key for key in found if key.endswith(f".{State.waiting}")] if not left else ():
        found[f"{key.partition('.')[0]}.{LEFT}"] += found.pop(key)
    return {key: n for key, n in found.items() if n or key == "planned"}


def _is_chosen(task: Task, store: AnyStore, command: Command) -> bool:
    """Whether a waiting task is to be cancelled: it is named, it asks about what is named, or all are."""
    if not command.tasks or task.id in command.tasks:
        return True
    calls = store.find("call", list(task.questions))
    return any(find_question(store, key).question.trial in command.tasks for key in calls)


@dataclass(frozen=True)
class Cancellation:
    """The outcome of a cancellation.

    `done` is False if the run had ended before; `alive`: a process was still running it.
    """

    run: Run
    done: bool
    alive: bool = False

    @property
    def running(self) -> int:
        """The number of trials and scores that were under way and were cancelled."""
        return sum(self.run.counts.get(f"{kind}.cancelled", 0) for kind in STAGES)

    @property
    def unstarted(self) -> int:
        """The number of trials without a result: never started, or cut off."""
        return self.run.counts.get(f"{GENERATE}.{LEFT}", 0)


def cancel(run: str = "", store: SessionLike = None, by: str = "") -> Cancellation:
    """Stop a run (by default the newest) now, with its running trials; returns once it has ended.

    `by` is who asks for it, as events name them: this user if nothing is said.

    Questions that it has asked people, and that are open, are void. Raises StoreInUse if its process does not
    respond (the command stays queued then: it is executed once the process goes on), or if its process is
    gone and another one uses the store.
    """
    session = Session.find(store)
    opened = Opened(session)
    found = opened.run(run)
    if found.status not in (*UNFINISHED, Status.waiting):
        return Cancellation(found, done=False)
    alive = found.status not in (Status.interrupted, Status.waiting)
    deliver(session, Command(CANCEL, found.id, by or requester()))
    ended = _wait_until_ended(session, opened, found)
    return Cancellation(ended, ended.status is Status.cancelled, alive)


@dataclass(frozen=True)
class CancelledTrials:
    """The trials of a run that were cancelled, and those that were not, with their states."""

    run: str
    cancelled: tuple[str, ...]
    over: Mapping[str, str]


def cancel_trials(run: str, trials: Sequence[str], store: SessionLike = None) -> CancelledTrials:
    """Cancel single trials of a run (first digits of their ids), with their scores, in whatever state.

    The run goes on. Durable when this returns. Raises Unknown if there is no such trial.
    """
    session = Session.find(store)
    found = Opened(session).run(run)
    with session.reading() as opened:
        layout = layout_of(read(found.manifest, opened.get), opened.get, opened)
        ids = [layout.trial_id(place) for place in layout.places()]
        chosen = tuple(dict.fromkeys(resolve(prefix, ids, "trial") for prefix in trials))
    before = _states(session, chosen)
    changed = _cancel_each(session, found.id, chosen)
    cancelled = tuple(t for t in chosen if changed[t] == State.cancelled and before[t] != State.cancelled)
    over = {t: changed[t] or "not begun" for t in chosen if t not in cancelled}
    return CancelledTrials(found.id, cancelled, over)


def _cancel_each(session: Session, run: str, tasks: Sequence[str]) -> dict[str, str]:
    """Cancel tasks of a run, and wait until they have ended; returns their states.

    In a run that several processes execute, one that begins a task, or puts it back, just when the command is
    executed may be first: then it is sent again.
    """
    began, left = time.monotonic(), tuple(tasks)
    while True:
        deliver(session, Command(CANCEL, run, requester(), tasks=left))
        now = _wait_while_cancelling(session, tasks)
        left = tuple(task for task in tasks if now[task] in NOT_ENDED)
        with session.reading() as store:
            if not (left and executed_elsewhere(store, run)):
                return now
        if time.monotonic() - began > PATIENCE:
            raise StoreInUse("the trials are not cancelled: the processes that have them do not respond")
        time.sleep(AGAIN)


def _states(session: Session, tasks: Sequence[str]) -> dict[str, str]:
    """The states of tasks, "" of those that the store does not know."""
    with session.reading() as store:
        rows = store.find("task", list(tasks))
    return {task: str(rows[task].state) if task in rows else "" for task in tasks}


def _wait_while_cancelling(session: Session, tasks: Sequence[str]) -> dict[str, str]:
    """Wait until those that were running have ended."""
    began = time.monotonic()
    while State.cancelling in (now := _states(session, tasks)).values():
        if time.monotonic() - began > PATIENCE:
            raise StoreInUse("the trials are being cancelled, and their process does not end them")
        time.sleep(POLL)
    return now


def pause_run(run: str = "", store: SessionLike = None) -> tuple[Run, bool]:
    """Let a run begin nothing more; the run, and whether it is paused (False: no process executes it)."""
    return _control(PAUSE, run, store, {}, lambda now: now.status is Status.paused)


def resume_run(run: str = "", store: SessionLike = None) -> tuple[Run, bool]:
    """Let a paused run go on; the run, and whether it does (False: no process executes it)."""
    return _control(RESUME, run, store, {}, lambda now: now.status is Status.running)


def adjust_run(
    run: str = "", store: SessionLike = None, *, parallel: int = 0, budget: Mapping[str, float] | None = None
) -> tuple[Run, bool]:
    """Raise limits of a run under way: the number of trials at once, fields of the budget."""
    unknown = sorted(set(budget or {}) - set(RAISABLE))
    if unknown:
        raise Invalid(f"budget.{name} cannot be raised; these can: {', '.join(RAISABLE)}" for name in unknown)
    body = {"parallel": parallel, "budget": dict(budget or {})}
    return _control(ADJUST, run, store, body, lambda now: True)


def _control(
    name: str, run: str, store: SessionLike, body: dict[str, Any], obeyed: Callable[[Run], bool]
) -> tuple[Run, bool]:
    """Send a command to a run that is under way."""
    session = Session.find(store)
    opened = Opened(session)
    found = opened.run(run)
    if found.status not in (Status.planned, Status.running, Status.paused):
        return found, False
    deliver(session, Command(name, found.id, requester(), body=body))
    now = opened.run(found.id)
    return now, obeyed(now)


def _wait_until_ended(session: Session, opened: Opened, run: Run) -> Run:
    """Wait until the run is over. Raises StoreInUse if its process does not end it, or is stopped."""
    began = time.monotonic()
    under_way = (Status.planned, Status.running, Status.paused, Status.cancelling)
    while (now := opened.run(run.id)).status in under_way:
        waited = time.monotonic() - began
        stopped = waited > PROMPT and _process_state(_owner_pid(session)) in STOPPED
        if stopped or waited > PATIENCE:
            raise StoreInUse(
                f"run {run.id[:12]} was asked to stop and does not end; its process still uses the store"
            )
        time.sleep(POLL)
    return now


STOPPED = ("T", "t")
STATES = {"T": "it is stopped", "t": "a debugger holds it", "D": "it waits for the disk"}
DONE = {CANCEL: "the run is cancelled"}
"""What a command does, for messages; others are just executed."""


def _no_response(session: Session, command: Command) -> str:
    """The message about an owner that does not respond: who, since when, what to do."""
    pid = _owner_pid(session)
    state = STATES.get(_process_state(pid), "it is busy, or hangs")
    with session.reading() as store:
        found = store.find("run", [command.run]).get(command.run)
        last = found.planned if found else time.time()
        if found:
            events = store.events(found.id, max(0, found.next_seq - 2))
            last = max((record.at for record in events), default=last)
    what = (
        f"run {command.run[:12]} was asked to stop" if command.command == CANCEL else "the command was sent"
    )
    since = time.strftime("%H:%M:%S", time.localtime(last))
    who, go_on = (f"process {pid}", f" (kill -CONT {pid})") if pid else ("its process", "")
    then = DONE.get(command.command, "it is executed")
    again = "cancel again" if command.command == CANCEL else "try again"
    return (
        f"{what}, but {who} does not respond: {state}; its last event is of "
        f"{since}, {lasting(time.time() - last)} ago; the command stays queued: {then} once the process goes "
        f"on{go_on}, or end the process and {again}"
    )


def _owner_pid(session: Session) -> int | None:
    """The number of the process that owns the store, if that is known; None if there is no owner."""
    with session.reading() as store:
        owner = store.owner()
        return None if owner is None else owner.get("pid", 0)


def _process_state(pid: int | None) -> str:
    """The state of a process as the kernel has it: T if it is stopped; "" if it cannot be looked at."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
