"""Copying a store without some of its runs: what the others need of them is kept as rows.

The events of a deleted run are replaced by the rows that they led to, at the same place in the order of
commits, and only for tasks and calls that are kept. So the copy replays like any store, and nothing in it
depends on what was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from peira.core.contracts import Op, Retained, Store
from peira.core.log.events import AnyEvent, Record, RunFinished, RunPlanned, Status
from peira.core.log.state import Run, assumed_call, effect, kept_rows, narrowed, touched, touched_calls
from peira.errors import StoreDamaged
from peira.stores.fold import RowView

CHUNK = 200
"""Rows in one event."""
MOST_PENDING = 512


class RecordedClock:
    """A clock that says the time of the record that is being copied."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def copy_retained(history: Iterable[Record], target: Store, clock: RecordedClock, retained: Retained) -> None:
    """Commit the history to an empty store that uses this clock, without the deleted runs.

    Raises StoreDamaged if the target refuses a record.
    """
    copy = RecordCopy(target, clock)
    stubs: dict[str, _Stub] = {}
    segment: _Segment | None = None
    for record in history:
        run = retained.deleted.get(record.run)
        if segment is not None and (run is None or run.id != segment.run.id):
            copy.add(*stubs.setdefault(segment.run.id, _Stub(segment.run)).records(segment))
            segment = None
        if run is None:
            copy.add(record)
            continue
        if segment is None:
            copy.flush()  # the segment reads rows from the target
            segment = _Segment(run, target, retained)
        segment.add(record)
    if segment is not None:
        copy.add(*stubs.setdefault(segment.run.id, _Stub(segment.run)).records(segment))
    for stub in stubs.values():
        copy.add(*stub.end())
    copy.flush()


class RecordCopy:
    """Commits records to the target in order, each with its own time."""

    def __init__(self, target: Store, clock: RecordedClock) -> None:
        self._target, self._clock = target, clock
        self._pending: list[Record] = []

    def add(self, *records: Record) -> None:
        """Add records; they are committed soon."""
        self._pending += records
        if len(self._pending) >= MOST_PENDING:
            self.flush()

    def flush(self) -> None:
        """Commit what was added."""
        for at, group in groupby(self._pending, key=lambda record: record.at):
            self._clock.at = at
            for outcome in self._target.commit([Op(one.run, (one.event,)) for one in group]).result():
                if outcome is not None:
                    raise StoreDamaged(f"what is kept contradicts itself: {outcome}") from outcome
        self._pending.clear()


class _Segment:
    """Consecutive records of one deleted run, and the rows of kept tasks and calls that they change."""

    def __init__(self, run: Run, target: Store, retained: Retained) -> None:
        self.run, self.at = run, 0.0
        self._target, self._retained = target, retained
        self._view = RowView(runs={run.id: Run(run.id, "", run.study, 0, Status.running, run.planned)})
        self._tasks: dict[str, None] = {}
        self._calls: dict[str, None] = {}

    def add(self, record: Record) -> None:
        """Fold the next record, as far as it is about what is kept."""
        self.at = record.at
        event = narrowed(record.event, self._retained.tasks, self._retained.calls)
        if event is None:
            return
        self._load(event)
        effect(self._view, Record(record.run, record.seq, record.at, event))
        self._tasks.update(dict.fromkeys(touched(event)))
        self._calls.update(dict.fromkeys(touched_calls(event)))

    def _load(self, event: AnyEvent) -> None:
        """Load the rows that an event changes; all that came before is committed."""
        view, find = self._view, self._target.find
        view.tasks.update(find("task", [task for task in touched(event) if task not in view.tasks]))
        keys = [key for key in touched_calls(event) if key not in view.calls]
        view.calls.update(find("call", keys))
        if (row := assumed_call(event)) is not None and row.key not in view.calls:  # it is not kept
            view.calls[row.key] = row

    def rows(self) -> Iterator[AnyEvent]:
        """The events that lead to the rows as they are now."""
        kept = self._retained
        tasks = [self._view.tasks[id] for id in self._tasks if id in kept.tasks and id in self._view.tasks]
        calls = [self._view.calls[key] for key in self._calls if key in kept.calls]
        for start in range(0, len(tasks), CHUNK):
            yield kept_rows(tasks[start : start + CHUNK], ())
        for start in range(0, len(calls), CHUNK):
            yield kept_rows((), calls[start : start + CHUNK])


@dataclass
class _Stub:
    """What is left of a deleted run: nothing, if it spent nothing and nobody needs anything of it."""

    run: Run
    _seq: int = field(default=0)
    _at: float = field(default=0.0)

    def records(self, segment: _Segment) -> Iterator[Record]:
        """The records that stand for a segment."""
        self._at = segment.at
        for event in segment.rows():
            yield from self._begin()
            yield self._next(self._at, event)

    def end(self) -> Iterator[Record]:
        """The last record, with what the run spent: budgets count it."""
        if self.run.spent:
            yield from self._begin()
        if self._seq:
            yield self._next(self._at, RunFinished(Status.deleted, spent=self.run.spent))

    def _begin(self) -> Iterator[Record]:
        if not self._seq:
            planned: dict[str, Any] = {"generation": self.run.generation, "evaluation": self.run.evaluation}
            yield self._next(self.run.planned, RunPlanned("", self.run.study, 0, **planned))

    def _next(self, at: float, event: AnyEvent) -> Record:
        self._seq += 1
        return Record(self.run.id, self._seq, at, event)
