"""The one writer: a thread that drains whatever is queued into one durable commit.

Callers are acknowledged after the commit's sync and not before; there is no added delay. Rows of
active tasks stay at hand, because the next event about them is near. On any error of the disk the
writer ends for good: it never retries a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import apsw

from peira.core.clock import Clock
from peira.core.codec import pack
from peira.core.contracts import Op
from peira.core.failpoints import reach
from peira.core.ids import digest_bytes
from peira.core.log.events import Record, RunPlanned, State, TaskFinished
from peira.core.log.state import touched
from peira.stores.commit_thread import CommitThread, WriteRequest, acknowledge, claims
from peira.stores.event_ranges import EventRange, extended, text
from peira.stores.fold import RowView, fold, touching
from peira.stores.rows import call_rows, is_plain, place, plain_row, run_row, submitted, task_row
from peira.stores.sqlite import reads, statements
from peira.stores.sqlite._digest_filter import DigestFilter
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


class Writer(CommitThread):
    def __init__(
        self,
        db: apsw.Connection,
        incarnation: int,
        check_file: Callable[[], None],
        mark: Callable[[int], None],
        clock: Clock,
        codec: str,
        on_commit: Callable[[list[Record]], None] | None,
    ) -> None:
        """`check_file` raises if the store's file is no longer the one that was opened; `mark` is called with
        the number of the last event that is durable."""
        self._incarnation, self._check_file, self._mark = incarnation, check_file, mark
        self._db, self._clock, self._codec, self._on_commit = db, clock, codec, on_commit
        statements.prepare(db)
        self._rows = RowView()
        self._task_n: dict[str, int] = {}
        self._ranges: dict[str, tuple[EventRange, ...]] = {}
        self._call_n: dict[str, int] = {}
        self._unread: dict[str, None] = {}  # calls at hand whose answers nobody has read yet, oldest first
        self._run_n: dict[str, int] = {}
        self._next = {
            table: db.execute(f"SELECT coalesce(max(n), 0) + 1 FROM {table}").get
            for table in ("task", "call", "run")
        }
        self._next["event"] = reads.newest_event(db) + 1
        self.recorded = {"task": DigestFilter(db, "task", "id"), "call": DigestFilter(db, "call", "key")}
        """Which tasks, and which calls and steps, have rows; any thread may look."""
        super().__init__()

    def compress(self, codec: str) -> None:
        """Compress payloads from now on like this."""
        self._codec = codec

    def _commit(self, batch: list[WriteRequest]) -> None:
        chooser = batch[-1].choose
        if chooser and len(batch) > 1:
            self._commit(batch[:-1])
            batch = batch[-1:]
        groups = [request.choose() if request.choose else request.ops for request in batch]
        ops = [op for group in groups for op in group]
        tasks, calls = touching(ops)
        self._load(ops, tasks, calls)
        reach("store.before_fold")
        records, bodies, outcomes = fold(self._rows, ops, self._clock.now())
        rows = self._changed(ops, records, bodies, tasks, bool(calls))
        self._check_file()
        statements.write(self._db, self._incarnation, rows, partial(reach, "store.before_commit"))
        self._mark(self._next["event"] - 1)
        reach("store.after_commit")
        if self._on_commit:
            self._on_commit(records)
        acknowledge(batch, groups, outcomes)
        self._forget(tasks, calls)

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
    ) -> dict[UpsertTarget, Sequence[Row]]:
        """The rows that these records leave, by where they belong; `calls`: there are calls among them."""
        rows = self._rows
        names = dict.fromkeys([record.run for record in records])
        runs = {run: self._numbered(self._run_n, "run", run) for run in names}
        self._extend_ranges(records)
        planned = [(record.run, record.event) for record in records if type(record.event) is RunPlanned]
        tags = {(tag, rows.runs[run].planned, runs[run]) for run, event in planned for tag in event.tags}
        return {
            BLOBS: [self._blob(data) for op in ops if op.blobs for data in op.blobs],
            RUNS: [run_row(rows.runs[run], n) for run, n in runs.items()],
            TAGS: sorted(tags),
            **self._tasks(touches),
            CALLS: call_rows(records, rows.calls, self._run_n, self._call_number, self._run_number)
            if calls
            else (),
            EVENTS: self._events(records, bodies),
        }

    def _blob(self, data: bytes) -> Row:
        codec = self._codec if len(data) > SMALL else "none"
        return bytes.fromhex(digest_bytes(data)), codec, pack(data, codec)

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
        first = self._next["event"]
        self._next["event"] = first + len(records)
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


def claim_ops(
    db: apsw.Connection, run: str, owner: str, classes: Sequence[str], n: int, now: float
) -> list[Op]:
    """The claims of the first n ready tasks, as ops."""
    return claims(run, owner, reads.ready(db, classes, n, now))
