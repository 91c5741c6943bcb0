"""How ops become records: shared by every store, so that a backend holds only its differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from peira.core.contracts import Op, Outcome
from peira.core.events import AnyEvent, Record
from peira.core.state import Call, Run, Task, advance, effect, touched, touched_call
from peira.errors import Fenced


@dataclass
class Rows:
    """A view over the rows at hand."""

    tasks: dict[str, Task] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)


def touching(ops: Iterable[Op]) -> tuple[dict[str, None], dict[str, None]]:
    """The tasks, and the calls and steps, that folding these ops may look at or replace, in their order."""
    tasks: dict[str, None] = {}
    calls: dict[str, None] = {}
    for op in ops:
        for event in op.events:
            for task in touched(event):
                tasks[task] = None
            if key := touched_call(event):
                calls[key] = None
    return tasks, calls


def fold(view: Rows, ops: Sequence[Op], at: float) -> tuple[list[Record], list[Outcome]]:
    """Apply each op to the view, whole or not at all; the records to keep and what became of each op."""
    records: list[Record] = []
    outcomes: list[Outcome] = []
    counters = {op.run: view.runs[op.run].next_seq if op.run in view.runs else 1 for op in ops}
    for op in ops:
        try:
            records += _fold_one(view, op, counters[op.run], at)
            outcomes.append(None)
            counters[op.run] += len(op.events)
        except Fenced as refusal:
            outcomes.append(refusal)
    for run in {record.run for record in records}:
        advance(view, run, counters[run])
    return records, outcomes


def _fold_one(view: Rows, op: Op, seq: int, at: float) -> list[Record]:
    if len(op.events) == 1:  # an effect is all or nothing for one event; only several need a way back
        record = Record(op.run, seq, at, op.events[0])
        effect(view, record)
        return [record]
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


def _remember(view: Rows, run: str, event: AnyEvent) -> Memory:
    memory: Memory = [(view.runs, run, view.runs.get(run))]  # type: ignore[list-item]
    memory += [(view.tasks, task, view.tasks.get(task)) for task in touched(event)]  # type: ignore[misc]
    if key := touched_call(event):
        memory.append((view.calls, key, view.calls.get(key)))  # type: ignore[arg-type]
    return memory


def _restore(view: Rows, memory: Memory) -> None:
    for table, key, row in memory:
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row
