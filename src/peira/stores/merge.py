"""Adding the runs of another store to a store, so that each run shows afterwards what it showed before.

The records of the other store that this one does not have are committed to it as they are, after its own. A
task or call that both stores have made is first set back to how the other store knew it (`rows.kept`, in a
run of the status *deleted* that is not listed), so that the other's records hold; after them it is set to
what this store keeps: its own result if it has one, else the other's. So nothing is there twice, every run is
replayed exactly, and what each run spent counts once. Merging again, or back, adds what is new and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any

from peira.core.codec import encode_event
from peira.core.contracts import Merged, OpenStore, RunQuery, Store
from peira.core.ids import short
from peira.core.log.events import Record, Result, RunFinished, RunPlanned, State, Status
from peira.core.log.state import Call, Run, Task, apply, kept_rows, replace, touched, touched_calls
from peira.errors import Fenced, Invalid, StoreDamaged
from peira.stores.fold import RowView
from peira.stores.retention import CHUNK, RecordCopy, RecordedClock

PAGE = 5000
ALL = 2**31
MOST_LINES = 50
"""Conflicts that are named one by one."""


@dataclass
class MergePlan:
    """What a merge brings: the records that are new, and what both stores have made."""

    new: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    """The runs of the other store that this one does not have."""
    tasks: dict[str, Task | None] = field(default_factory=dict)
    """The tasks that new records are about, as the other store knew them before the first of those."""
    calls: dict[str, Call | None] = field(default_factory=dict)
    shared: int = 0
    """Tasks with a result in both stores."""

    @property
    def brought(self) -> Merged:
        """The summary of what the merge adds."""
        return Merged(tuple(self.runs.values()), self.new, self.shared)


def plan_merge(target: OpenStore, other: OpenStore, ours: bool = False) -> MergePlan:
    """What adding the other store to the target brings; Invalid, a line for each conflict, if it cannot be.

    A conflict is a run that has gone on differently in both stores, a name that two runs have, and a task
    with different results; with `ours`, the target's results are kept.
    """
    plan, problems = MergePlan(), list[str]()
    seen = _View()
    for record, is_new in _records(target, other, problems):
        if is_new:
            plan.new += 1
            for task in touched(record.event):
                plan.tasks.setdefault(task, seen.rows.tasks.get(task))
            for key in touched_calls(record.event):
                plan.calls.setdefault(key, seen.rows.calls.get(key))
            if isinstance(record.event, RunPlanned):
                plan.runs.setdefault(record.run, Run(record.run, "", "", 0, Status.planned, record.at))
        seen.take(record)
    plan.runs.update((run, seen.rows.runs[run]) for run in plan.runs)
    problems += _name_conflicts(target, plan.runs.values())
    problems += _result_conflicts(target, seen.rows, plan, ours)
    if problems:
        more = [f"and {len(problems) - MOST_LINES:,} more"] if len(problems) > MOST_LINES else []
        raise Invalid([*problems[:MOST_LINES], *more])
    return plan


class _View:
    """The rows of the other store, as its history is read."""

    def __init__(self) -> None:
        self.rows = RowView()

    def take(self, record: Record) -> None:
        try:
            apply(self.rows, record)
        except Fenced as problem:
            raise StoreDamaged(f"the other store contradicts itself: {problem}") from problem


def _records(target: OpenStore, other: OpenStore, problems: list[str]) -> Iterator[tuple[Record, bool]]:
    """Every record of the other store in order, and whether the target does not have it."""
    known: dict[str, Iterator[Record]] = {}
    differing: set[str] = set()
    for record in other.history():
        if record.run not in known:
            known[record.run] = _events(target, record.run)
        ours = next(known[record.run], None)
        if ours is None:
            yield record, True
            continue
        same = ours.at == record.at and encode_event(ours.event) == encode_event(record.event)
        if not same and record.run not in differing and not _is_deleted(other, record.run):
            differing.add(record.run)
            how = "was deleted here" if _is_deleted(target, record.run) else "has gone on differently here"
            problems.append(
                f"run {short(record.run)} {how}: event {record.seq} is not the same in both stores"
            )
        yield record, False


def _is_deleted(store: Store, run: str) -> bool:
    found = store.find("run", [run]).get(run)
    return found is not None and found.status is Status.deleted


def _events(store: Store, run: str) -> Iterator[Record]:
    """The records of a run."""
    after = 0
    while records := store.events(run, after, PAGE):
        after = records[-1].seq
        yield from records


def _name_conflicts(target: OpenStore, runs: Iterable[Run]) -> Iterator[str]:
    """Names of new runs that runs of the target have."""
    for run in runs:
        for taken in target.runs(RunQuery(name=run.name, limit=1)) if run.name else ():
            yield f"run {short(run.id)} is named {run.name!r}, as run {short(taken.id)} here is"


def _result_conflicts(target: OpenStore, rows: RowView, plan: MergePlan, ours: bool) -> Iterator[str]:
    """Tasks with another result in the target; counts those with the same."""
    for chunk in _chunks(list(plan.tasks), PAGE):
        for id, row in target.find("task", chunk).items():
            theirs = rows.tasks.get(id)
            if row.state is not State.succeeded or theirs is None or theirs.state is not State.succeeded:
                continue
            if plan.tasks[id] == row:  # the other store went on where this one is
                continue
            plan.shared += 1
            if not ours and _content(row.result) != _content(theirs.result):
                yield f"{row.kind} {short(id)} has another result there (run {short(theirs.run)})"


def _content(result: Result) -> str:
    """What a result says, wherever it is kept."""
    return result.blob or sha256(bytes(result.output)).hexdigest()


def _chunks(keys: list[str], size: int) -> Iterator[list[str]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))


def merge_records(draft: OpenStore, clock: RecordedClock, other: OpenStore, plan: MergePlan) -> None:
    """Commit what is new to a copy of the target that uses this clock.

    Raises StoreDamaged if it refuses a record.
    """
    before = _Rows(draft.find("task", list(plan.tasks)), draft.find("call", list(plan.calls)))
    copy = RecordCopy(draft, clock)
    writing = _Merging(copy, before, plan)
    seen = _View()
    for record, is_new in _records(draft, other, []):
        if is_new:
            writing.prepare(record, seen.rows)
            copy.add(record)
        seen.take(record)
        if is_new:
            writing.follow(record, seen.rows)
        else:
            writing.skip(record)
    writing.restore()
    copy.flush()


@dataclass
class _Rows:
    tasks: dict[str, Task]
    calls: dict[str, Call]


class _Merging:
    """Sets rows to what the next record of the other store expects, and in the end to what is kept."""

    def __init__(self, copy: RecordCopy, before: _Rows, plan: MergePlan) -> None:
        self._copy, self._before, self._plan = copy, before, plan
        self._now = _Rows(dict(before.tasks), dict(before.calls))
        self._reset: set[str] = set()
        self._skipped: set[str] = set()
        self._began = False
        self._at = 0.0

    def prepare(self, record: Record, theirs: RowView) -> None:
        """Set the rows that a record is about to those of the other store, where they differ."""
        self._at = record.at
        if not self._began:  # all that is known beforehand at once, ahead of the first of its runs
            self._began = True
            self._set(self._plan.tasks, self._plan.calls, record)
        ids = {*touched(record.event), *(self._skipped & self._plan.tasks.keys())}
        keys = {*touched_calls(record.event), *(self._skipped & self._plan.calls.keys())}
        self._skipped.clear()
        tasks = {id: theirs.tasks.get(id) for id in sorted(ids)}
        self._set(tasks, {key: theirs.calls.get(key) for key in sorted(keys)}, record)

    def skip(self, record: Record) -> None:
        """Note what a record is about that both stores have: it changed rows there, after new ones."""
        if self._began:
            self._skipped.update(touched(record.event), touched_calls(record.event))

    def _set(self, tasks: dict[str, Task | None], calls: dict[str, Call | None], record: Record) -> None:
        stub = token_hex(32)
        wrong = [id for id, row in tasks.items() if self._now.tasks.get(id) != row]
        asked = [key for key, row in calls.items() if self._now.calls.get(key) != row]
        if not wrong and not asked:
            return
        rows = [tasks[id] or _unmade(self._now.tasks[id], stub) for id in wrong]
        answers = [calls[key] or _unasked(self._now.calls[key], stub) for key in asked]
        self._write(stub, rows, answers, record.at)
        self._reset.update(wrong, asked)

    def _write(self, stub: str, tasks: list[Task], calls: list[Call], at: float) -> None:
        """Write rows, as a run of which nothing else is left."""
        events: list[Any] = [RunPlanned("", "", 0)]
        events += (kept_rows(tasks[n : n + CHUNK], ()) for n in range(0, len(tasks), CHUNK))
        events += (kept_rows((), calls[n : n + CHUNK]) for n in range(0, len(calls), CHUNK))
        events.append(RunFinished(Status.deleted))
        self._copy.add(*(Record(stub, seq, at, event) for seq, event in enumerate(events, 1)))
        self._now.tasks.update((row.id, row) for row in tasks)
        self._now.calls.update((row.key, row) for row in calls)

    def follow(self, record: Record, theirs: RowView) -> None:
        """Note the rows after a record: in both stores the same."""
        for id in touched(record.event):
            if id in theirs.tasks:
                self._now.tasks[id] = theirs.tasks[id]
        for key in touched_calls(record.event):
            if key in theirs.calls:
                self._now.calls[key] = theirs.calls[key]

    def restore(self) -> None:
        """Set each row that was set back to what is kept: ours if it has a result, else theirs if it has."""
        mine = {id for id, row in self._before.tasks.items() if id in self._reset and self._is_ours(row)}
        tasks = [self._kept(self._before.tasks[id]) for id in sorted(mine)]
        calls = [
            row
            for key, row in self._before.calls.items()
            if key in self._reset and self._call_is_ours(row, self._now.calls[key], mine)
        ]
        tasks = [row for row in tasks if row != self._now.tasks[row.id]]
        calls = [row for row in calls if row != self._now.calls[row.key]]
        if tasks or calls:
            self._write(token_hex(32), tasks, calls, self._at)

    def _is_ours(self, row: Task) -> bool:
        return row.state is State.succeeded or self._now.tasks[row.id].state is not State.succeeded

    def _kept(self, row: Task) -> Task:
        return replace(row, lent=row.lent or self._now.tasks[row.id].lent)

    def _call_is_ours(self, ours: Call, theirs: Call, mine: set[str]) -> bool:
        """A call goes with the result that used it, if that store has its answer."""
        answered = [row.state in ("answered", "recorded") for row in (ours, theirs)]
        return (
            answered[0] if answered[0] != answered[1] else ours.task in mine or theirs.task not in self._reset
        )


def _unmade(row: Task, run: str) -> Task:
    """A task that has not begun."""
    return Task(row.id, row.kind, row.cls, State.queued, run=run)


def _unasked(row: Call, run: str) -> Call:
    """A call that was not sent, or a step that was not recorded."""
    if not row.model:
        return Call(row.key, row.task, row.name, "void")
    return Call(row.key, row.task, row.name, "lost", model=row.model, request=row.request, run=run)
