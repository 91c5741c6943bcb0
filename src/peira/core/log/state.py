"""The fold: how each event changes the rows of tasks, calls and runs; the only place that does.

It is also the guard: an event that contradicts the rows raises Fenced and changes nothing. Events of runs
come first, then tasks, then steps and calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Any, Protocol, get_args

import msgspec

from peira.core.log import events as ev
from peira.core.log.events import TERMINAL, Record, Spent, State, Status
from peira.core.log.rows import (
    ASKED,
    CLOSED,
    KEPT,
    QUESTION,
    SESSION,
    QuestionRow,
    SessionRow,
    question_row,
    session_row,
)
from peira.core.log.rows import NO_RESULT as NO_RESULT
from peira.core.log.rows import Call as Call
from peira.core.log.rows import Run as Run
from peira.core.log.rows import Task as Task
from peira.errors import Fenced

replace = msgspec.structs.replace
UNDER_WAY = {Status.running, Status.paused, Status.cancelling}
"""The statuses of runs that a process is executing."""
CLAIMABLE = {State.queued, *TERMINAL} - {State.succeeded}
"""The states from which a task may be started: neither running nor succeeded."""


class View(Protocol):
    """The rows that an event may read and replace."""

    tasks: dict[str, Task]
    calls: dict[str, Call]
    runs: dict[str, Run]


def _no_task(event: Any) -> tuple[str, ...]:
    return ()


_TOUCHES: dict[type, Callable[[Any], tuple[str, ...]]] = {
    **{kind: _no_task for kind in get_args(ev.AnyEvent) if "task" not in kind.__struct_fields__},
    ev.TasksQueued: lambda event: tuple(task.id for task in event.tasks),
    ev.TasksClaimed: attrgetter("tasks"),
    ev.TasksReleased: attrgetter("tasks"),
    ev.TasksInterrupted: attrgetter("tasks"),
    ev.TasksWoken: attrgetter("tasks"),
    ev.TasksAdopted: attrgetter("tasks"),
    ev.TasksPaused: attrgetter("tasks"),
    ev.TasksResumed: attrgetter("tasks"),
    ev.TasksCancelling: attrgetter("tasks"),
    ev.TaskReused: attrgetter("task", "source"),
    ev.RowsKept: lambda event: tuple(event.tasks),
    ev.CallSettled: lambda event: (event.task, *event.others),
    ev.SessionWritten: _no_task,
    ev.CallAnswered: _no_task,
    ev.CallRead: _no_task,
    ev.CallBilled: _no_task,
    ev.CallLost: _no_task,
}
_QUESTION_EVENTS = frozenset({ev.QuestionAsked, ev.QuestionAnswered, ev.QuestionClosed})
_CALL_EVENTS = _QUESTION_EVENTS | {
    ev.StepRecorded,
    ev.SessionWritten,
    ev.CallIntended,
    ev.CallAnswered,
    ev.CallRead,
    ev.CallLost,
    ev.CallSettled,
}
_LISTS = (
    ev.TasksClaimed,
    ev.TasksReleased,
    ev.TasksInterrupted,
    ev.TasksWoken,
    ev.TasksAdopted,
    ev.TasksPaused,
    ev.TasksResumed,
    ev.TasksCancelling,
)
"""Events that are about a list of tasks."""
_OF_ONE = (ev.TaskRetried, ev.TaskFinished, ev.TaskWaiting, ev.TaskReused, ev.OutcomeReported)
"""Events that change the row of one task, or of one and its source."""


def touched(event: ev.AnyEvent) -> tuple[str, ...]:
    """The ids of the tasks whose rows `apply` will read or replace."""
    known = _TOUCHES.get(type(event))
    return (event.task,) if known is None else known(event)  # type: ignore[union-attr]


def touched_calls(event: ev.AnyEvent) -> tuple[str, ...]:
    """The keys of the calls and steps that `apply` will read or replace."""
    if type(event) in _CALL_EVENTS:
        return (event.key,)  # type: ignore[union-attr]
    return tuple(event.calls) if type(event) is ev.RowsKept else ()


_MEANING: dict[type, Callable[[Any, View, Record], None]] = {}


def _means(*kinds: type) -> Callable[[Callable[[Any, View, Record], None]], None]:
    """Register the decorated function as the handler of events of these types."""
    return lambda meaning: _MEANING.update(dict.fromkeys(kinds, meaning))


def apply(view: View, record: Record) -> None:
    """Fold one record into the view: all of its changes, or Fenced and none."""
    effect(view, record)
    advance(view, record.run, record.seq + 1)


def effect(view: View, record: Record) -> None:
    """Apply a record's event without advancing the run's sequence number."""
    if record.run not in view.runs and type(record.event) is not ev.RunPlanned:
        raise Fenced(f"run {record.run} was never planned")
    _MEANING[type(record.event)](record.event, view, record)


def replayed(records: Iterable[Record], tasks: Collection[str]) -> dict[str, Task]:
    """The rows of these tasks after these records, which must be all those about them, in order.

    A task that took over another's result is replayed together with that one. Raises Fenced if the records
    are not complete.
    """
    view = _Rows({}, {}, {})
    for record in records:
        event = narrowed(record.event, tasks)
        if event is not None:
            if (row := assumed_call(event)) is not None:
                view.calls[row.key] = row
            _MEANING[type(event)](event, view, record)
    return {task: row for task, row in view.tasks.items() if task in tasks}


def assumed_call(event: ev.AnyEvent) -> Call | None:
    """The row of a call or question that an event about its task asks for, where that row is not kept."""
    if isinstance(event, ev.CallSettled):
        return Call(event.key, event.task, "", "answered" if event.how == "discard" else "in_doubt")
    if isinstance(event, (ev.QuestionAnswered, ev.QuestionClosed)):
        return Call(event.key, event.task, QUESTION, ASKED, _question_value(QuestionRow(0.0)))
    return None


class _Rows(msgspec.Struct):
    """Rows in memory."""

    tasks: dict[str, Task]
    calls: dict[str, Call]
    runs: dict[str, Run]


def narrowed(event: ev.AnyEvent, tasks: Collection[str], calls: Collection[str] = ()) -> ev.AnyEvent | None:
    """The part of an event that changes the rows of these tasks and calls; None if it changes none."""
    if type(event) in _QUESTION_EVENTS:
        about = event.task in tasks or event.key in calls  # type: ignore[union-attr]
        return event if about else None
    if type(event) in _CALL_EVENTS and not isinstance(event, ev.CallSettled):
        return event if event.key in calls else None  # type: ignore[union-attr]
    if isinstance(event, ev.RowsKept):
        kept = {id: row for id, row in event.tasks.items() if id in tasks}
        return ev.RowsKept(kept, {key: row for key, row in event.calls.items() if key in calls})
    if isinstance(event, _OF_ONE):
        return event if not set(touched(event)).isdisjoint(tasks) else None
    if isinstance(event, ev.TasksQueued):
        specs = tuple(spec for spec in event.tasks if spec.id in tasks)
        return ev.TasksQueued(specs) if specs else None
    if isinstance(event, _LISTS):
        chosen = [i for i, task in enumerate(event.tasks) if task in tasks]
        lists = ("tasks", "epochs", "scopes")
        if not chosen:
            return None
        given = {name: values for name in lists if (values := getattr(event, name, ()))}
        return replace(event, **{name: tuple(values[i] for i in chosen) for name, values in given.items()})
    if isinstance(event, ev.CallSettled) and (event.how == "discard" or event.key in calls):
        return replace(event, others=tuple(task for task in event.others if task in tasks))
    return None


def advance(view: View, run: str, next_seq: int) -> None:
    """Set the sequence number of the run's next record."""
    view.runs[run] = replace(view.runs[run], next_seq=next_seq)


@_means(ev.RunPlanned)
def _(event: ev.RunPlanned, view: View, record: Record) -> None:
    if record.run in view.runs:
        raise Fenced(f"run {record.run} is planned already")
    view.runs[record.run] = Run(
        id=record.run,
        manifest=event.manifest,
        study=event.study,
        trials=event.trials,
        status=Status.planned,
        planned=record.at,
        tags=event.tags,
        provenance=event.provenance,
        resumes=event.resumes,
        generation=event.generation,
        evaluation=event.evaluation,
        name=event.name,
        stream=event.stream,
    )


@_means(ev.RunStarted)
def _(event: ev.RunStarted, view: View, record: Record) -> None:
    _run(
        view,
        record,
        {Status.planned},
        status=Status.running,
        owner=event.owner,
        incarnation=event.incarnation,
        started=record.at,
    )


@_means(ev.RunFinished)
def _(event: ev.RunFinished, view: View, record: Record) -> None:
    _run(
        view,
        record,
        {*UNDER_WAY, Status.planned, Status.interrupted, Status.waiting},
        status=event.status,
        counts=event.counts,
        reason=event.reason,
        spent=event.spent,
        finished=record.at,
        unsuccessful=event.unsuccessful,
    )


@_means(ev.RunInterrupted)
def _(event: ev.RunInterrupted, view: View, record: Record) -> None:
    unfinished = {*UNDER_WAY, Status.planned}
    _run(view, record, unfinished, status=Status.interrupted, finished=record.at)


@_means(ev.RunPaused)
def _(event: ev.RunPaused, view: View, record: Record) -> None:
    _run(view, record, {Status.running, Status.paused}, status=Status.paused)


@_means(ev.RunResumed)
def _(event: ev.RunResumed, view: View, record: Record) -> None:
    _run(view, record, {Status.running, Status.paused}, status=Status.running)


@_means(ev.RunCancelling)
def _(event: ev.RunCancelling, view: View, record: Record) -> None:
    _run(view, record, UNDER_WAY, status=Status.cancelling)


@_means(ev.RunAdjusted)
def _(event: ev.RunAdjusted, view: View, record: Record) -> None:
    run = view.runs[record.run]
    budget = {**run.budget, **event.budget}
    _run(view, record, UNDER_WAY, parallel=event.parallel or run.parallel, budget=budget)


def _run(view: View, record: Record, allowed: Collection[Status], **changes: object) -> None:
    """Change the run's row; Fenced if its status is not one of the allowed ones."""
    run = view.runs[record.run]
    if run.status not in allowed:
        raise Fenced(f"run {run.id} is {run.status}")
    view.runs[run.id] = replace(run, **changes)


@_means(ev.RunReopened)
def _(event: ev.RunReopened, view: View, record: Record) -> None:
    view.runs[record.run] = replace(view.runs[record.run], reopened=True)


@_means(ev.RunLooked, ev.RunDecided)
def _(event: ev.RunLooked | ev.RunDecided, view: View, record: Record) -> None:
    run = view.runs[record.run]
    seen = run.look.units if run.look is not None else 0
    if event.after >= 0 and event.after != seen:
        raise Fenced(f"run {run.id} was looked at after {seen} units, not {event.after}")
    view.runs[run.id] = replace(run, look=event.look)


@_means(ev.TrafficSplit)
def _(event: ev.TrafficSplit, view: View, record: Record) -> None:
    view.runs[record.run] = replace(view.runs[record.run], traffic=event.traffic)


@_means(ev.OutcomeReported)
def _(event: ev.OutcomeReported, view: View, record: Record) -> None:
    row = view.tasks.get(event.task)
    if row is None:
        raise Fenced(f"task {event.task} is unknown")
    view.tasks[row.id] = replace(row, outcomes={**row.outcomes, event.name: event.value})


@_means(ev.CommandTaken, ev.RunNoted, ev.GoalLooked, ev.Unreadable)
def _(
    event: ev.CommandTaken | ev.RunNoted | ev.GoalLooked | ev.Unreadable, view: View, record: Record
) -> None:
    """Kept in the log only."""


@_means(ev.Observed, ev.Attached, ev.Reported)
def _(event: ev.Observed | ev.Attached | ev.Reported, view: View, record: Record) -> None:
    """Only logged, but fenced like any change of an attempt."""
    _held(view, event.task, event.epoch)


def kept_rows(tasks: Iterable[Task], calls: Iterable[Call]) -> ev.RowsKept:
    """The event that leads to these rows, whatever was before it."""
    return ev.RowsKept({row.id: _json(row) for row in tasks}, {row.key: _json(row) for row in calls})


def rows_of(event: ev.RowsKept) -> tuple[list[Task], list[Call]]:
    """The rows that the event holds."""
    tasks = [msgspec.json.decode(row, type=Task) for row in event.tasks.values()]
    return tasks, [msgspec.json.decode(row, type=Call) for row in event.calls.values()]


def _json(row: Task | Call) -> msgspec.Raw:
    """A row as JSON; an absent value is left out."""
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return msgspec.Raw(msgspec.json.encode({k: v for k, v in fields.items() if v is not ev.NOTHING}))


@_means(ev.RowsKept)
def _(event: ev.RowsKept, view: View, record: Record) -> None:
    tasks, calls = rows_of(event)
    view.tasks.update((row.id, row) for row in tasks)
    view.calls.update((row.key, row) for row in calls)


@_means(ev.TasksQueued)
def _(event: ev.TasksQueued, view: View, record: Record) -> None:
    for spec in event.tasks:
        if spec.id in view.tasks:
            raise Fenced(f"task {spec.id} is queued already")
    for spec in event.tasks:
        fields = {f: getattr(spec, f) for f in spec.__struct_fields__}
        view.tasks[spec.id] = Task(**fields, state=State.queued, run=record.run)


@_means(ev.TasksClaimed)
def _(event: ev.TasksClaimed, view: View, record: Record) -> None:
    epochs = event.epochs or (1,) * len(event.tasks)
    scopes = event.scopes or ("",) * len(event.tasks)
    claimed = [
        _claim(view.tasks.get(task), task, epoch, scope, event, record.run)
        for task, epoch, scope in zip(event.tasks, epochs, scopes, strict=True)
    ]
    view.tasks.update(zip(event.tasks, claimed, strict=True))


def _claim(row: Task | None, task: str, epoch: int, scope: str, event: ev.TasksClaimed, run: str) -> Task:
    """The row of a claimed task at its new epoch; Fenced if it may not be started."""
    if row is None:
        if epoch != 1:
            raise Fenced(f"task {task} has no epoch {epoch - 1}")
        return Task(task, event.task_kind, event.cls, State.running, 1, event.owner, 1, scope=scope, run=run)
    if row.epoch != epoch - 1 or row.state not in CLAIMABLE:
        raise Fenced(f"task {task} is {row.state} at epoch {row.epoch}")
    return replace(
        row,
        state=State.running,
        epoch=epoch,
        owner=event.owner,
        attempts=row.attempts + 1,
        not_before=0.0,
        run=run,
    )


@_means(ev.TasksReleased)
def _(event: ev.TasksReleased, view: View, record: Record) -> None:
    for task, epoch in zip(event.tasks, event.epochs, strict=False):
        _held(view, task, epoch)
    _each_running(
        view, event.tasks, lambda t: replace(t, state=State.queued, owner="", attempts=t.attempts - 1)
    )


@_means(ev.TasksInterrupted)
def _(event: ev.TasksInterrupted, view: View, record: Record) -> None:
    for task, epoch in zip(event.tasks, event.epochs, strict=False):
        _held(view, task, epoch)
    _each_running(
        view,
        event.tasks,
        lambda t: replace(t, state=State.queued, owner="", interruptions=t.interruptions + 1),
    )


def _each_running(view: View, ids: Iterable[str], change: Callable[[Task], Task]) -> None:
    """Change the rows of these tasks; Fenced if one is not running."""
    rows = [view.tasks.get(task) for task in ids]
    for row in rows:
        if row is None or row.state not in RUNNING:
            raise Fenced("a task to give back is not running")
    view.tasks.update((row.id, change(row)) for row in rows if row is not None)


RUNNING = {State.running, State.cancelling}
"""The states of a task that an attempt holds."""
ENDABLE = {*RUNNING, State.waiting, State.paused}
"""The states from which a task may end: also without an attempt, at the epoch of its last one."""


def _held(view: View, task: str, epoch: int, states: Collection[State] = RUNNING) -> Task:
    """The task's row, if the attempt of this epoch still holds it; else Fenced."""
    row = view.tasks.get(task)
    if row is None or row.epoch != epoch or row.state not in states:
        raise Fenced(f"attempt {epoch} of task {task} holds it no more")
    return row


@_means(ev.TaskWaiting)
def _(event: ev.TaskWaiting, view: View, record: Record) -> None:
    row = _held(view, event.task, event.epoch, {State.running})
    if not (event.questions or event.awaits):
        raise Fenced(f"task {event.task} has nothing to wait for")
    view.tasks[row.id] = replace(
        row,
        state=State.waiting,
        owner="",
        attempts=row.attempts - 1,
        questions=event.questions,
        awaits=event.awaits,
    )


@_means(ev.TasksWoken)
def _(event: ev.TasksWoken, view: View, record: Record) -> None:
    _each(view, event.tasks, {State.waiting}, lambda row: _queued_again(row, record.run))


@_means(ev.TasksAdopted)
def _(event: ev.TasksAdopted, view: View, record: Record) -> None:
    adopted = record.run
    _each(view, event.tasks, {State.waiting}, lambda row: replace(row, run=adopted, epoch=row.epoch + 1))


def _queued_again(row: Task, run: str) -> Task:
    """A waiting task that waits for nothing any more."""
    return replace(row, state=State.queued, questions=(), awaits=(), run=run)


@_means(ev.TasksPaused)
def _(event: ev.TasksPaused, view: View, record: Record) -> None:
    pausable = {State.queued, State.waiting}
    _each(view, event.tasks, pausable, lambda row: replace(row, state=State.paused, run=record.run))


@_means(ev.TasksResumed)
def _(event: ev.TasksResumed, view: View, record: Record) -> None:
    def resumed(row: Task) -> Task:
        state = State.waiting if row.questions or row.awaits else State.queued
        return replace(row, state=state, run=record.run)

    _each(view, event.tasks, {State.paused}, resumed)


@_means(ev.TasksCancelling)
def _(event: ev.TasksCancelling, view: View, record: Record) -> None:
    _each(view, event.tasks, {State.running}, lambda row: replace(row, state=State.cancelling))


def _each(view: View, ids: Iterable[str], states: Collection[State], change: Callable[[Task], Task]) -> None:
    """Change the rows of these tasks; Fenced if one is in none of these states."""
    rows = []
    for task in ids:
        if (row := view.tasks.get(task)) is None or row.state not in states:
            raise Fenced(f"task {task} is {row.state if row else 'unknown'}")
        rows.append(row)
    view.tasks.update((row.id, change(row)) for row in rows)


@_means(ev.QuestionAsked)
def _(event: ev.QuestionAsked, view: View, record: Record) -> None:
    _held(view, event.task, event.epoch, {State.running})
    since, due, row = event.at, event.due, view.calls.get(event.key)
    if row is not None:
        before = question_row(row)
        if row.state == ASKED:
            since, due = before.since, before.due
        elif before.how != "void":
            raise Fenced(f"question {event.key} is {before.how} by {before.by}")
    value = _question_value(QuestionRow(since, event.question, due))
    view.calls[event.key] = Call(event.key, event.task, QUESTION, ASKED, value, event.blob)


@_means(ev.QuestionAnswered)
def _(event: ev.QuestionAnswered, view: View, record: Record) -> None:
    who = {"by": event.by, "at": event.at, "id": event.id}
    closed = {"how": "answered", "answer": event.value, "took": event.took, **who}
    _close_question(event.key, view, record, closed)


@_means(ev.QuestionClosed)
def _(event: ev.QuestionClosed, view: View, record: Record) -> None:
    closed = {"how": event.how, "by": event.by, "at": event.at, "id": event.id}
    _close_question(event.key, view, record, closed)


def _close_question(key: str, view: View, record: Record, changes: dict[str, Any]) -> None:
    """Close an open question; a task that waited for nothing else is queued."""
    call = view.calls.get(key)
    if call is None or call.state != ASKED:
        was = f"{(before := question_row(call)).how} by {before.by}" if call else "unknown"
        raise Fenced(f"question {key} is {was}")
    value = replace(question_row(call), **changes)
    view.calls[key] = replace(call, state=CLOSED, value=_question_value(value))
    row = view.tasks.get(record.event.task)  # type: ignore[union-attr]
    if row is None or key not in row.questions:
        return
    row = replace(row, questions=tuple(one for one in row.questions if one != key))
    done = row.state is State.waiting and not (row.questions or row.awaits)
    view.tasks[row.id] = _queued_again(row, record.run) if done else row


def _question_value(row: QuestionRow) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(row))


@_means(ev.TaskRetried)
def _(event: ev.TaskRetried, view: View, record: Record) -> None:
    row = _held(view, event.task, event.epoch)
    view.tasks[row.id] = replace(
        row, state=State.queued, owner="", not_before=event.not_before, result=event.result
    )


@_means(ev.TaskFinished)
def _(event: ev.TaskFinished, view: View, record: Record) -> None:
    row = _held(view, event.task, event.epoch, ENDABLE)
    view.tasks[row.id] = replace(
        row, state=event.state, owner="", interruptions=0, result=event.result, questions=(), awaits=()
    )


@_means(ev.TaskReused)
def _(event: ev.TaskReused, view: View, record: Record) -> None:
    source, row = view.tasks.get(event.source), view.tasks.get(event.task)
    if source is None or source.state is not State.succeeded:
        raise Fenced(f"task {event.source} has no result to reuse")
    if row is not None and row.state is State.succeeded:
        raise Fenced(f"task {event.task} has a result of its own")
    if source.lent not in ("", event.added):
        raise Fenced(f"task {event.source} stands for {source.lent} already, not for {event.added}")
    view.tasks[event.source] = replace(source, lent=event.added)
    base = row or Task(event.task, event.task_kind, event.cls, State.queued)
    view.tasks[event.task] = replace(
        base,
        state=State.succeeded,
        result=source.result,
        reused_from=event.source,
        run=record.run,
        questions=(),
        awaits=(),
    )


@_means(ev.StepRecorded)
def _(event: ev.StepRecorded, view: View, record: Record) -> None:
    _held(view, event.task, event.epoch)
    row = view.calls.get(event.key)
    if row is not None and row.state != "void":  # a merge of stores voids what both have recorded
        raise Fenced(f"step {event.name} is recorded already")
    view.calls[event.key] = Call(event.key, event.task, event.name, "recorded", event.value, event.blob)


@_means(ev.SessionWritten)
def _(event: ev.SessionWritten, view: View, record: Record) -> None:
    row = view.calls.get(event.key)
    version = session_row(row).version if row is not None and row.state == KEPT else 0
    if event.version != version + 1:
        raise Fenced(f"session {event.key} is at version {version}: {event.version} cannot follow")
    value = msgspec.Raw(msgspec.json.encode(SessionRow(event.version, event.value)))
    view.calls[event.key] = Call(event.key, event.task, SESSION, KEPT, value, event.blob)


@_means(ev.CallIntended)
def _(event: ev.CallIntended, view: View, record: Record) -> None:
    if not event.batch:
        _held(view, event.task, event.epoch)
    elif event.task not in view.tasks:
        raise Fenced(f"task {event.task} never began")
    row = view.calls.get(event.key)
    if event.send != (row.sends if row else 0) + 1 or (row is not None and row.state == "answered"):
        raise Fenced(f"call {event.key} is {row.state if row else 'new'}: send {event.send} cannot follow")
    view.calls[event.key] = Call(
        key=event.key,
        task=event.task,
        name=event.place,
        state="intended",
        model=event.model,
        request=event.request,
        sends=event.send,
        run=record.run,
        batch=event.batch,
        owner=event.owner,
        until=event.until,
    )


@_means(ev.CallAnswered)
def _(event: ev.CallAnswered, view: View, record: Record) -> None:
    row = view.calls.get(event.key)
    if row is None or row.state == "answered":
        raise Fenced(f"call {event.key} waits for no answer")
    view.calls[event.key] = replace(
        row,
        state="answered",
        value=event.answer,
        blob=event.blob,
        why="",
        input=event.input,
        output=event.output,
        cost=event.cost,
        served=event.served,
    )
    _charge(view, record.run, event.bill(row.model))


@_means(ev.CallRead)
def _(event: ev.CallRead, view: View, record: Record) -> None:
    row = view.calls.get(event.key)
    if row is None or row.state != "answered" or row.known:
        raise Fenced(f"call {event.key} has no answer that is to be read")
    view.calls[event.key] = replace(
        row, input=event.input, output=event.output, cost=event.cost, served=event.served
    )
    _charge(view, record.run, event.bill(row.model))


def _charge(view: View, id: str, more: Spent) -> None:
    """Add to the spending of a finished run, whose batches may still be answered.

    While a run goes on, its spending is not projected: RunFinished carries the total.
    """
    run = view.runs[id]
    if run.counts:
        by_model = {one.model: one for one in run.spent}
        by_model[more.model] = by_model.get(more.model, Spent(more.model)).plus(more)
        view.runs[id] = replace(run, spent=tuple(by_model[name] for name in sorted(by_model)))


@_means(ev.CallBilled)
def _(event: ev.CallBilled, view: View, record: Record) -> None:
    _charge(view, record.run, event.bill())


@_means(ev.CallLost)
def _(event: ev.CallLost, view: View, record: Record) -> None:
    row = view.calls.get(event.key)
    if row is None or row.state != "intended" or event.send not in (0, row.sends):
        raise Fenced(f"call {event.key} is not on its way")
    state = "in_doubt" if event.doubt else "lost"
    view.calls[event.key] = replace(row, state=state, why=event.why)
    if event.doubt:
        _charge(view, record.run, event.bill(row.model))


@_means(ev.CallSettled)
def _(event: ev.CallSettled, view: View, record: Record) -> None:
    row = view.calls.get(event.key)
    allowed = {"resend": ("intended", "in_doubt"), "discard": ("answered",)}[event.how]
    if row is None or row.state not in allowed:
        raise Fenced(f"call {event.key} is {row.state if row else 'unknown'}: nothing to {event.how}")
    if not all(task in view.tasks for task in event.others):
        raise Fenced(f"call {event.key} was used by none but those that are known")
    if event.how == "resend":
        view.calls[event.key] = replace(row, state="lost", why=f"settled by {event.by}")
        return
    view.calls[event.key] = replace(row, state="void", why=f"discarded by {event.by}")
    again: dict[str, Any] = {"state": State.queued, "owner": "", "not_before": 0.0, "reused_from": ""}
    for task in filter(None, map(view.tasks.get, (event.task, *event.others))):
        if task.state in TERMINAL:
            view.tasks[task.id] = replace(task, **again, result=NO_RESULT)
