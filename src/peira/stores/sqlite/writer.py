"""The one writer: a thread that drains whatever is queued into one durable commit.

Callers are acknowledged after the commit's sync and not before; there is no added delay. Rows of
active tasks stay at hand, because the next event about them is near. On any error of the disk the
writer ends for good: it never retries a sync.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import apsw

from peira.core.clock import Clock
from peira.core.codec import pack
from peira.core.contracts import Op, Outcome
from peira.core.failpoints import reach
from peira.core.ids import digest_bytes
from peira.core.log.events import Record, RunPlanned, State, TasksClaimed
from peira.errors import StoreFault
from peira.stores.fold import RowView, fold, touching
from peira.stores.sqlite import reads, statements
from peira.stores.sqlite.rows import call_rows, is_plain, place, plain_row, run_row, task_row
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

MOST_OPS = 512
SMALL = 512
"""Bytes that are not worth compressing: requests of models, most of all."""
ACTIVE = frozenset({State.running, State.waiting, State.cancelling, State.paused})


@dataclass(frozen=True)
class WriteRequest:
    """Ops to commit, or (with `choose`) ops to be chosen on the writer's own thread."""

    ops: Sequence[Op]
    choose: Callable[[], Sequence[Op]] | None = None
    done: Future[list[Outcome]] = field(default_factory=Future)


class Writer:
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
        self._call_n: dict[str, int] = {}
        self._run_n: dict[str, int] = {}
        self._next = {
            table: db.execute(f"SELECT coalesce(max(n), 0) + 1 FROM {table}").get
            for table in ("task", "call", "run")
        }
        self._next["event"] = reads.newest_event(db) + 1
        self._queue: queue.SimpleQueue[WriteRequest | None] = queue.SimpleQueue()
        self._fault: StoreFault | None = None
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="peira-writer", daemon=True)
        self._thread.start()

    def submit(self, request: WriteRequest) -> Future[list[Outcome]]:
        with self._gate:
            if self._fault or self._closed:
                raise self._fault or StoreFault("the store is closed")
            self._queue.put(request)
        return request.done

    def close(self) -> None:
        with self._gate:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        for batch in self._batches():
            try:
                self._commit(batch)
            except Exception as problem:  # whatever it was, nobody may be left waiting
                self._fail(batch, problem)
                return

    def _batches(self) -> Iterator[list[WriteRequest]]:
        """What is queued right now, up to MOST_OPS; a choosing request closes its batch."""
        while (request := self._queue.get()) is not None:
            batch, size = [request], len(request.ops)
            while size < MOST_OPS and batch[-1].choose is None and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    yield batch
                    return
                batch.append(following)
                size += len(following.ops)
            yield batch

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
        rows = self._changed(ops, records, bodies, tasks)
        self._check_file()
        statements.write(self._db, self._incarnation, rows, lambda: reach("store.before_commit"))
        self._mark(self._next["event"] - 1)
        reach("store.after_commit")
        self._acknowledge(batch, groups, outcomes, records)
        self._forget(tasks, calls)

    def _load(self, ops: Sequence[Op], tasks: Iterable[str], calls: Iterable[str]) -> None:
        """Bring the rows these ops touch to hand."""
        rows = self._rows
        for n, task in reads.tasks(self._db, [id for id in tasks if id not in rows.tasks]):
            rows.tasks[task.id], self._task_n[task.id] = task, n
        for n, call in reads.calls(self._db, [key for key in calls if key not in rows.calls]):
            rows.calls[call.key], self._call_n[call.key] = call, n
        for n, run in reads.runs(self._db, sorted({op.run for op in ops} - self._rows.runs.keys())):
            self._rows.runs[run.id], self._run_n[run.id] = run, n

    def _changed(
        self, ops: Sequence[Op], records: list[Record], bodies: list[bytes], touches: Iterable[str]
    ) -> dict[UpsertTarget, Sequence[Row]]:
        """The rows that these records leave, by where they belong."""
        rows = self._rows
        runs = [(run, self._number(run)) for run in dict.fromkeys(record.run for record in records)]
        planned = [(record.run, record.event) for record in records if isinstance(record.event, RunPlanned)]
        tags = {
            (tag, rows.runs[run].planned, self._number(run)) for run, event in planned for tag in event.tags
        }
        return {
            BLOBS: [self._blob(data) for op in ops for data in op.blobs],
            RUNS: [run_row(rows.runs[run], n) for run, n in runs],
            TAGS: sorted(tags),
            **self._tasks(touches),
            CALLS: call_rows(records, rows.calls, self._run_n, self._call_number),
            EVENTS: self._events(records, bodies),
        }

    def _blob(self, data: bytes) -> Row:
        codec = self._codec if len(data) > SMALL else "none"
        return bytes.fromhex(digest_bytes(data)), codec, pack(data, codec)

    def _number(self, run: str) -> int:
        return self._numbered(self._run_n, "run", run)

    def _call_number(self, key: str) -> int:
        return self._numbered(self._call_n, "call", key)

    def _numbered(self, known: dict[str, int], table: str, key: str) -> int:
        if key not in known:
            known[key] = self._next[table]
            self._next[table] += 1
        return known[key]

    def _tasks(self, touches: Iterable[str]) -> dict[UpsertTarget, Sequence[Row]]:
        """Most tasks use few columns."""
        tasks, numbers, runs = self._rows.tasks, self._task_n, self._run_n
        narrow: list[Row] = []
        wide: list[Row] = []
        for id in touches:
            if (task := tasks.get(id)) is None:  # what was refused may be about none
                continue
            n = numbers.get(id) or self._numbered(numbers, "task", id)
            run = runs.get(task.run) or self._owning_run(task.run)
            if is_plain(task):
                narrow.append(plain_row(task, n, run))
            else:
                wide.append(task_row(task, n, run))
        return {PLAIN_TASKS: narrow, TASKS: wide}

    def _owning_run(self, run: str) -> int:
        """The number of a run that is not at hand: a reused row keeps its former run."""
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

    def _acknowledge(
        self,
        batch: list[WriteRequest],
        groups: list[Sequence[Op]],
        outcomes: list[Outcome],
        records: list[Record],
    ) -> None:
        if self._on_commit:
            self._on_commit(records)
        start = 0
        for request, group in zip(batch, groups, strict=True):
            request.done.set_result(outcomes[start : start + len(group)])
            start += len(group)
        reach("store.after_acknowledge")

    def _forget(self, touches: Iterable[str], keys: Iterable[str]) -> None:
        """Let go of rows that the next events will hardly touch. A call that is on its way is answered soon,
        unless it is in a batch."""
        calls, tasks = self._rows.calls, self._rows.tasks
        for key in keys:
            call = calls.get(key)
            if call is not None and (call.state != "intended" or call.batch):
                del calls[key], self._call_n[key]
        for id in touches:
            task = tasks.get(id)
            if task is not None and task.state not in ACTIVE:
                del tasks[id], self._task_n[id]

    def _fail(self, batch: list[WriteRequest], problem: Exception) -> None:
        fault = StoreFault(f"the store cannot be written ({problem}); what was acknowledged is kept")
        with self._gate:
            self._fault = fault
            while not self._queue.empty():
                if (request := self._queue.get()) is not None:
                    batch.append(request)
        for request in batch:
            if not request.done.done():
                request.done.set_exception(fault)


def claim_ops(
    db: apsw.Connection, run: str, owner: str, classes: Sequence[str], n: int, now: float
) -> list[Op]:
    """The claims of the first n ready tasks, as ops."""
    ready = reads.ready(db, classes, n, now)
    return [Op(run, (TasksClaimed(t.kind, t.cls, owner, (t.id,), (t.epoch + 1,)),)) for t in ready]


def claimed(ops: Sequence[Op]) -> Iterator[str]:
    """The tasks that claiming ops take."""
    for op in ops:
        for event in op.events:
            if isinstance(event, TasksClaimed):
                yield from event.tasks
