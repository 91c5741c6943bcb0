"""What a commit writes: the rows that its ops leave, in one durable transaction.

Rows of active tasks stay at hand, because the next event about them is near.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import apsw

from peira.core.codec import encode_event, pack
from peira.core.contracts import Op, Outcome
from peira.core.failpoints import reach
from peira.core.ids import digest_bytes
from peira.core.log.events import AnyEvent, Record, RunPlanned, State, TaskFinished
from peira.core.log.state import touched
from peira.stores.event_ranges import EventRange, extended, text
from peira.stores.fold import RowView, fold, touching
from peira.stores.rows import call_rows, is_plain, place, plain_row, run_row, submitted, task_row
from peira.stores.sqlite import reads, statements
from peira.stores.sqlite.digest_filter import DigestFilter
from peira.stores.sqlite.statements import (
    BLOBS,
    CALLS,
    EVENTS,
    PLAIN_TASKS,
    RUNS,
    TAGS,
    TASKS,
    Row,
    UpsertTarget,
)

SMALL = 512
"""Bytes that are not worth compressing: requests of models, most of all."""
UNREAD = 1024
"""Answered calls that stay at hand until what their answers say of themselves is noted."""
ACTIVE = frozenset({State.running, State.cancelling})


class TableWriter:
    """Writes commits through one connection, which nobody else of its process writes through meanwhile."""

    def __init__(
        self,
        db: apsw.Connection,
        incarnation: int,
        recorded: dict[str, DigestFilter],
        encode: Callable[[AnyEvent], bytes] = encode_event,
    ) -> None:
        """`recorded` says which tasks, and which calls and steps, may have rows, and gets those that are
        new; `encode` makes the bytes of an event, and refuses one that could not be read from them."""
        self._db, self._incarnation, self.recorded, self._encode = db, incarnation, recorded, encode
        statements.prepare(db)
        self._rows = RowView()
        self._task_n: dict[str, int] = {}
        self._ranges: dict[str, tuple[EventRange, ...]] = {}
        self._call_n: dict[str, int] = {}
        self._unread: dict[str, None] = {}  # calls at hand whose answers nobody has read yet, oldest first
        self._run_n: dict[str, int] = {}
        self._next: dict[str, int] = {
            table: db.execute(f"SELECT coalesce(max(n), 0) + 1 FROM {table}").get
            for table in ("task", "call", "run")
        }
        self.newest = reads.newest_event(db)
        """The number of the last event."""
        self._touched: tuple[Iterable[str], Collection[str]] = ((), ())  # tasks and calls of the last commit

    def commit(
        self, groups: Sequence[tuple[Sequence[Op], float]], codec: str
    ) -> tuple[list[Record], list[list[Outcome]]]:
        """Make groups of ops durable, each with its time, in one transaction.

        Blobs are compressed by `codec`. Returns the records, and for each group what became of its ops.
        """
        self._forget(*self._touched)
        ops = [op for group, _ in groups for op in group]
        self._touched = tasks, calls = touching(ops)
        self._load(ops, tasks, calls)
        reach("store.before_fold")
        records: list[Record] = []
        bodies: list[bytes] = []
        outcomes: list[list[Outcome]] = []
        for group, at in groups:
            more = fold(self._rows, group, at, self._encode)
            records += more[0]
            bodies += more[1]
            outcomes.append(more[2])
        rows = self._changed(ops, records, bodies, tasks, bool(calls), codec)
        statements.write(self._db, self._incarnation, rows, partial(reach, "store.before_commit"))
        return records, outcomes

    def _load(self, ops: Sequence[Op], tasks: Iterable[str], calls: Iterable[str]) -> None:
        """Bring the rows these ops touch to hand."""
        rows, recorded = self._rows, self.recorded
        new = recorded["task"].possible([id for id in tasks if id not in rows.tasks])
        for n, task, ranges in reads.tasks(self._db, new):
            rows.tasks[task.id], self._task_n[task.id], self._ranges[task.id] = task, n, ranges
        new = recorded["call"].possible([key for key in calls if key not in rows.calls]) if calls else []
        for n, call in reads.calls(self._db, new):
            rows.calls[call.key], self._call_n[call.key] = call, n
        for n, run in reads.runs(self._db, sorted({op.run for op in ops} - rows.runs.keys())):
            rows.runs[run.id], self._run_n[run.id] = run, n

    def _changed(
        self,
        ops: Sequence[Op],
        records: list[Record],
        bodies: list[bytes],
        touches: Iterable[str],
        calls: bool,
        codec: str,
    ) -> dict[UpsertTarget, Sequence[Row]]:
        """The rows that these records leave, by where they belong; `calls`: there are calls among them."""
        rows = self._rows
        names = dict.fromkeys([record.run for record in records])
        runs = {run: self._numbered(self._run_n, "run", run) for run in names}
        self._extend_ranges(records)
        planned = [(record.run, record.event) for record in records if type(record.event) is RunPlanned]
        tags = {(tag, rows.runs[run].planned, runs[run]) for run, event in planned for tag in event.tags}
        return {
            BLOBS: [_blob(data, codec) for op in ops if op.blobs for data in op.blobs],
            RUNS: [run_row(rows.runs[run], n) for run, n in runs.items()],
            TAGS: sorted(tags),
            **self._tasks(touches),
            CALLS: call_rows(records, rows.calls, self._run_n, self._call_number, self._run_number)
            if calls
            else (),
            EVENTS: self._events(records, bodies),
        }

    def _call_number(self, key: str) -> int:
        return self._numbered(self._call_n, "call", key)

    def _numbered(self, known: dict[str, int], table: str, key: str) -> int:
        if (number := known.get(key)) is None:
            number = known[key] = self._next[table]
            self._next[table] += 1
            if table in self.recorded:
                self.recorded[table].mark(key)
        return number

    def _extend_ranges(self, records: list[Record]) -> None:
        """Note where the events about each task are."""
        ranges, runs = self._ranges, self._run_n
        for record in records:
            run, seq, event = runs[record.run], record.seq, record.event
            if type(event) is TaskFinished:  # as most are
                known = ranges.get(event.task)
                ranges[event.task] = extended(known, run, seq) if known else ((run, seq, seq),)
                continue
            first = ((run, seq, seq),)  # one value for all that are new: most events of many tasks are claims
            for task in touched(event):
                known = ranges.get(task)
                ranges[task] = extended(known, run, seq) if known else first

    def _tasks(self, touches: Iterable[str]) -> dict[UpsertTarget, Sequence[Row]]:
        """Most tasks use few columns."""
        tasks, numbers, runs = self._rows.tasks, self._task_n, self._run_n
        narrow: list[Row] = []
        wide: list[Row] = []
        ranges: tuple[EventRange, ...] = ()
        events = ""
        for id in touches:
            if (task := tasks.get(id)) is None:  # what was refused may be about none
                continue
            n = numbers.get(id) or self._numbered(numbers, "task", id)
            run = runs.get(task.run) or self._run_number(task.run)
            if (known := self._ranges[id]) is not ranges:  # tasks that were claimed together share theirs
                ranges, events = known, text(known)
            if is_plain(task):
                narrow.append(plain_row(task, n, run, events))
            else:
                wide.append((*task_row(task, n, run, events), submitted(task)))
        return {PLAIN_TASKS: narrow, TASKS: wide}

    def _run_number(self, run: str) -> int:
        """The number of a run, also of one that is not at hand: a reused row keeps its former run."""
        if run in self._run_n:
            return self._run_n[run]
        number = int(self._db.execute("SELECT n FROM run WHERE id = ?", (run,)).get)
        self._run_n[run] = number
        return number

    def _events(self, records: list[Record], bodies: list[bytes]) -> list[Row]:
        first = self.newest + 1
        self.newest += len(records)
        runs = self._run_n
        return [
            (place(runs[record.run], record.seq), n, record.at, body)
            for n, (record, body) in enumerate(zip(records, bodies, strict=True), first)
        ]

    def _forget(self, touches: Iterable[str], keys: Collection[str]) -> None:
        """Let go of rows that the next events will hardly touch. A call that is on its way is answered soon,
        unless it is in a batch; once it is answered, what its answer says of itself is noted soon, if it says
        anything."""
        calls, tasks, unread = self._rows.calls, self._rows.tasks, self._unread
        for key in keys:
            call = calls.get(key)
            if call is None:
                continue
            unread.pop(key, None)
            if call.state == "answered" and not (call.batch or call.known):
                unread[key] = None
            elif call.batch or call.state != "intended":
                del calls[key], self._call_n[key]
        for key in list(unread)[: len(unread) - UNREAD] if len(unread) > UNREAD else ():
            del unread[key], calls[key], self._call_n[key]
        for id in touches:
            task = tasks.get(id)
            if task is not None and task.state not in ACTIVE:
                del tasks[id], self._task_n[id], self._ranges[id]


def _blob(data: bytes, codec: str) -> Row:
    """The row of a blob."""
    used = codec if len(data) > SMALL else "none"
    return bytes.fromhex(digest_bytes(data)), used, pack(data, used)


def derive(db: apsw.Connection, incarnation: int, change: Callable[[apsw.Connection], None]) -> None:
    """Change tables that nothing rests on, in a transaction, if the store still has this owner."""
    # Not `with db`, which would hold the interpreter lock during the sync.
    db.execute("BEGIN IMMEDIATE")
    try:
        if db.execute("SELECT value FROM meta WHERE key = 'incarnation'").get == incarnation:
            change(db)
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
