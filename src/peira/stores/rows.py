"""Rows of the tables as values, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from peira.core.codec import decode_result, encode
from peira.core.log.events import (
    NOTHING,
    CallIntended,
    Failure,
    OutcomeValue,
    Record,
    Result,
    RowsKept,
    Spent,
    State,
    Status,
    Unsuccessful,
)
from peira.core.log.state import NO_RESULT, Call, Run, Task, touched_calls
from peira.core.looks import Look, Traffic
from peira.errors import StoreDamaged
from peira.stores.event_ranges import EventRange, parse

STATES = (
    State.queued,
    State.running,
    State.waiting,
    State.paused,
    State.cancelling,
    State.succeeded,
    State.failed,
    State.cancelled,
    State.blocked,
    State.exhausted,
    State.in_doubt,
)
"""States are stored as their index here: append only."""
CODES = {state: code for code, state in enumerate(STATES)}

TASK = (
    "n, id, kind, class, state, epoch, owner, attempts, interruptions, priority, not_before, run, "
    "reused_from, rest, result, events"
)
BRIEF = "n, id, kind, class, state, priority, run, rest"
"""What lists of jobs need."""
PLAIN = "n, id, kind, class, state, epoch, owner, attempts, run, result, events"
RUN = "n, id, manifest, study, trials, status, planned, next_seq, owner, incarnation, rest, name"
CALL = "n, key, task, name, state, value, blob, rest, asked, model, input, output, cost"


class TaskRest(msgspec.Struct, omit_defaults=True, array_like=True, gc=False):
    reuse_key: str = ""
    scope: str = ""
    parent: str = ""
    needs: tuple[str, ...] = ()
    payload: str = ""
    lent: str = ""
    questions: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    outcomes: dict[str, OutcomeValue] = {}


class RunRest(msgspec.Struct, omit_defaults=True):
    tags: tuple[str, ...] = ()
    provenance: str = ""
    resumes: str = ""
    started: float = 0.0
    finished: float = 0.0
    counts: dict[str, int] = {}
    reason: str = ""
    generation: int = 0
    spent: tuple[Spent, ...] = ()
    reopened: bool = False
    evaluation: str = ""
    look: Look | None = None
    unsuccessful: Unsuccessful | None = None
    parallel: int = 0
    budget: dict[str, float] = {}
    stream: str = ""
    traffic: Traffic | None = None


class CallRest(msgspec.Struct, omit_defaults=True, array_like=True):
    request: str = ""
    sends: int = 0
    why: str = ""
    served: str = ""
    batch: str = ""
    owner: str = ""
    until: float = 0.0


_call_rest = msgspec.json.Decoder(CallRest)
NO_REST = TaskRest()
_task_rest = msgspec.json.Decoder(TaskRest)
_run_rest = msgspec.json.Decoder(RunRest)


SEQ_BITS = 40


def place(run: int, seq: int) -> int:
    """Where an event is kept: by run, then by number."""
    return run << SEQ_BITS | seq


def is_plain(task: Task) -> bool:
    """Whether the PLAIN columns say everything."""
    return not (
        task.interruptions
        or task.not_before
        or task.priority
        or task.scope
        or task.reuse_key
        or task.parent
        or task.needs
        or task.payload
        or task.reused_from
        or task.lent
        or task.questions
        or task.awaits
        or task.labels
        or task.outcomes
    )


def plain_row(task: Task, n: int, run: int, events: str) -> tuple[Any, ...]:
    result = encode(task.result) if task.result is not NO_RESULT else None
    return (
        n,
        bytes.fromhex(task.id),
        task.kind,
        task.cls,
        CODES[task.state],
        task.epoch,
        task.owner or None,
        task.attempts,
        run,
        result,
        events,
    )


def task_row(task: Task, n: int, run: int, events: str) -> tuple[Any, ...]:
    rest = TaskRest(*(getattr(task, field) for field in TaskRest.__struct_fields__))
    return (
        n,
        bytes.fromhex(task.id),
        task.kind,
        task.cls,
        CODES[task.state],
        task.epoch,
        task.owner or None,
        task.attempts,
        task.interruptions or None,
        task.priority or None,
        task.not_before or None,
        run,
        bytes.fromhex(task.reused_from) if task.reused_from else None,
        None if rest == NO_REST else encode(rest),
        encode(task.result) if task.result is not NO_RESULT else None,
        events,
    )


def submitted(task: Task) -> float | None:
    """When a job was submitted; None for other tasks, and where nobody said so."""
    if task.kind != "job" or "at" not in task.labels:
        return None
    return float(task.labels["at"])


UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, IndexError, AttributeError)
"""What decoding a row raises if its bytes are not what was written."""


def damaged(what: str, problem: Exception) -> StoreDamaged:
    """The error about a row or an event that cannot be decoded."""
    return StoreDamaged(f"{what} cannot be read: {problem}")


def task_value(row: tuple[Any, ...], run_id: Callable[[int], str]) -> Task:
    """The task of a row; StoreDamaged if it cannot be read."""
    try:
        return _task_value(row, run_id)
    except UNREADABLE as problem:
        raise damaged(f"task {row[0]}", problem) from problem


def brief_task_value(row: tuple[Any, ...], run_id: Callable[[int], str]) -> Task:
    """The task of the BRIEF columns: without its result and its history."""
    _, id, kind, cls, state, priority, run, rest = row
    try:
        labels = _task_rest.decode(rest).labels if rest else {}
        return Task(
            id.hex(), kind, cls, STATES[state], priority=priority or 0, run=run_id(run), labels=labels
        )
    except UNREADABLE as problem:
        raise damaged(f"task {row[0]}", problem) from problem


def ranges_value(row: tuple[Any, ...]) -> tuple[EventRange, ...]:
    """Where the events of a row's task are; StoreDamaged if it cannot be read."""
    try:
        return parse(row[15])
    except UNREADABLE as problem:
        raise damaged(f"task {row[0]}", problem) from problem


def unreadable_task(row: tuple[Any, ...], problem: StoreDamaged) -> Task:
    """What stands for a task whose row is damaged, for those who look: failed, and why."""
    failure = Failure(type(problem).__name__, str(problem))
    return Task(row[1].hex(), row[2], row[3], State.failed, row[5], result=Result(failure=failure))


def plain_task_value(row: tuple[Any, ...], id: str, run: str) -> Task | None:
    """The task of a row without anything out of the ordinary, as most are; None for any other."""
    _, _, kind, cls, state, epoch, owner, attempts, a, b, c, _, d, e, stored, *_ = row
    if a is b is c is d is e is None:
        return plain_task(id, kind, cls, state, epoch, owner, attempts, run, stored)
    return None


def plain_task(
    id: str,
    kind: str,
    cls: str,
    state: int,
    epoch: int,
    owner: str | None,
    attempts: int,
    run: str,
    stored: bytes | None,
) -> Task:
    """A task without anything out of the ordinary; `stored` is its result."""
    plain = id, kind, cls, STATES[state], epoch, owner or "", attempts
    result = decode_result(stored) if stored else NO_RESULT
    return Task(*plain, 0, 0, 0.0, "", "", "", (), "", run, "", result)


def _task_value(row: tuple[Any, ...], run_id: Callable[[int], str]) -> Task:
    if (plain := plain_task_value(row, row[1].hex(), run_id(row[11]))) is not None:
        return plain
    result = decode_result(row[14]) if row[14] else NO_RESULT
    rest = _task_rest.decode(row[13]) if row[13] else NO_REST
    return Task(
        row[1].hex(),
        row[2],
        row[3],
        STATES[row[4]],
        row[5],
        row[6] or "",
        row[7],
        row[8] or 0,
        row[9] or 0,
        row[10] or 0.0,
        rest.reuse_key,
        rest.scope,
        rest.parent,
        rest.needs,
        rest.payload,
        run_id(row[11]),
        row[12].hex() if row[12] else "",
        result,
        rest.lent,
        rest.questions,
        rest.awaits,
        rest.labels,
        rest.outcomes,
    )


def run_row(run: Run, n: int) -> tuple[Any, ...]:
    rest = RunRest(*(getattr(run, field) for field in RunRest.__struct_fields__))
    return (
        n,
        run.id,
        run.manifest,
        run.study,
        run.trials,
        run.status.value,
        run.planned,
        run.next_seq,
        run.owner,
        run.incarnation,
        encode(rest),
        run.name or None,
    )


def run_value(row: tuple[Any, ...]) -> Run:
    """The run of a row; StoreDamaged if it cannot be read."""
    try:
        rest: Mapping[str, Any] = msgspec.structs.asdict(_run_rest.decode(row[10]))
        return Run(
            row[1],
            row[2],
            row[3],
            row[4],
            Status(row[5]),
            row[6],
            row[7],
            owner=row[8],
            incarnation=row[9],
            name=row[11] or "",
            **rest,
        )
    except UNREADABLE as problem:
        raise damaged(f"run {row[0]}", problem) from problem


def unreadable_run(row: tuple[Any, ...], problem: StoreDamaged) -> Run:
    """What stands for a run whose row is damaged, for those who look: interrupted, and why."""
    return Run(
        row[1],
        row[2],
        row[3],
        row[4],
        Status.interrupted,
        row[6],
        row[7],
        reason=str(problem),
        name=row[11] or "",
    )


def call_rows(
    records: Iterable[Record],
    calls: Mapping[str, Call],
    runs: Mapping[str, int],
    number: Callable[[str], int],
    run_number: Callable[[str], int] | None = None,
) -> list[tuple[Any, ...]]:
    """The rows of the calls and steps that these records touch, now that they were applied.

    Of a row that is kept for another run than that of its record, the place in that run is not known: it is 0
    if there is a `run_number`.
    """
    asked: dict[str, int | None] = {}
    for record in records:
        event = record.event
        if type(event) is CallIntended:
            asked[event.key] = place(runs[record.run], record.seq)
        elif type(event) is RowsKept:
            for key in event.calls:
                asked.setdefault(key, None)
                if (of := calls[key].run) == record.run:
                    asked[key] = place(runs[of], record.seq)
                elif of and run_number:
                    asked[key] = place(run_number(of), 0)
        else:
            asked.update((key, asked.get(key)) for key in touched_calls(event))
    return [_call_row(calls[key], number(key), at) for key, at in asked.items()]


def _call_row(call: Call, n: int, asked: int | None) -> tuple[Any, ...]:
    row = (
        n,
        bytes.fromhex(call.key),
        bytes.fromhex(call.task),
        call.name,
        call.state,
        bytes(call.value) or None,
        call.blob or None,
    )
    if not call.model:
        return *row, None, None, None, None, None, None
    rest = encode(
        CallRest(call.request, call.sends, call.why, call.served, call.batch, call.owner, call.until)
    )
    return *row, rest, asked, call.model, call.input, call.output, call.cost


def call_value(row: tuple[Any, ...], run_id: Callable[[int], str]) -> Call:
    """The call or step of a row; StoreDamaged if it cannot be read."""
    try:
        return _call_value(row, run_id)
    except UNREADABLE as problem:
        raise damaged(f"call {row[0]}", problem) from problem


def unreadable_call(row: tuple[Any, ...], problem: StoreDamaged) -> Call:
    """What stands for a call whose row is damaged, for those who look: in its state, and why."""
    return Call(row[1].hex(), row[2].hex(), row[3], row[4], model=row[9] or "", why=str(problem))


def _call_value(row: tuple[Any, ...], run_id: Callable[[int], str]) -> Call:
    _, key, task, name, state, value, blob, rest, asked, model, input, output, cost = row
    common = key.hex(), task.hex(), name, state, msgspec.Raw(value) if value else NOTHING, blob or ""
    if rest is None:
        return Call(*common)
    of = _call_rest.decode(rest)
    run = run_id(asked >> SEQ_BITS)
    counted = run, input, output, cost
    return Call(
        *common, model, of.request, of.sends, of.why, *counted, of.served, of.batch, of.owner, of.until
    )
