"""How ops become records: shared by every store, so that a backend holds only what is specific to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from peira.core.codec import encode_event
from peira.core.contracts import Op, Outcome
from peira.core.log.events import AnyEvent, Record, TaskFinished
from peira.core.log.state import Call, Run, Task, advance, effect, touched, touched_calls
from peira.errors import Fenced


class RowView(msgspec.Struct):
    """The rows of tasks, calls and runs that are in memory."""

    tasks: dict[str, Task] = msgspec.field(default_factory=dict)
    calls: dict[str, Call] = msgspec.field(default_factory=dict)
    runs: dict[str, Run] = msgspec.field(default_factory=dict)


def touching(ops: Iterable[Op]) -> tuple[dict[str, None], dict[str, None]]:
    """The tasks, and the calls and steps, that folding these ops may read or replace, in order."""
    tasks: dict[str, None] = {}
    calls: dict[str, None] = {}
    for op in ops:
        for event in op.events:
            if type(event) is TaskFinished:  # as most are
                tasks[event.task] = None
                continue
            tasks.update(dict.fromkeys(touched(event)))
            if keys := touched_calls(event):
                calls.update(dict.fromkeys(keys))
    return tasks, calls


def fold(
    view: RowView, ops: Sequence[Op], at: float, encode: Callable[[AnyEvent], bytes] = encode_event
) -> tuple[list[Record], list[bytes], list[Outcome]]:
    """Apply each op to the view, whole or not at all.

    Returns the records to keep, their events as bytes, and what became of each op. An event that could not be
    read again is refused, by `encode`.
    """
    records: list[Record] = []
    bodies: list[bytes] = []
    outcomes: list[Outcome] = []
    counters = {op.run: view.runs[op.run].next_seq if op.run in view.runs else 1 for op in ops}
    for op in ops:
        run, events = op.run, op.events
        try:
            if len(events) == 1:  # one event is atomic by itself; only several need a rollback
                [event] = events
                body, record = encode(event), Record(run, counters[run], at, event)
                effect(view, record)
                records.append(record)
                bodies.append(body)
            else:
                encoded = list(map(encode, events))
                records += _fold_several(view, op, counters[run], at)
                bodies += encoded
            outcomes.append(None)
            counters[run] += len(events)
        except Fenced as refusal:
            outcomes.append(refusal)
    for run in {record.run for record in records}:
        advance(view, run, counters[run])
    return records, bodies, outcomes


def _fold_several(view: RowView, op: Op, seq: int, at: float) -> list[Record]:
    """Apply one op and return its records; Fenced, with the view unchanged, if an event is refused."""
    before = [_remember(view, op.run, event) for event in op.events]
    records = [Record(op.run, seq + i, at, event) for i, event in enumerate(op.events)]
    try:
        for record in records:
            effect(view, record)
    except Fenced:
        for memory in reversed(before):
            _restore(view, memory)
        raise
    return records


Memory = list[tuple[dict[str, object], str, object]]


def _remember(view: RowView, run: str, event: AnyEvent) -> Memory:
    """The rows that an event may replace, for a rollback."""
    memory: Memory = [(view.runs, run, view.runs.get(run))]  # type: ignore[list-item]
    memory += [(view.tasks, task, view.tasks.get(task)) for task in touched(event)]  # type: ignore[misc]
    memory += [(view.calls, key, view.calls.get(key)) for key in touched_calls(event)]  # type: ignore[misc]
    return memory


def _restore(view: RowView, memory: Memory) -> None:
    """Put the rows back."""
    for table, key, row in memory:
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row
