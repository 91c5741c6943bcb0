"""The writer: a thread that folds whatever is queued and commits it with one call of the function `put`.

Rows are folded in memory, without locks; `put` compares their versions and refuses everything if one has
changed meanwhile. Then, and wherever an op is refused or changes a run's own row, the rows are locked in
order, read and folded again: a refusal writes nothing, so no version would show that it came from old rows.

A lost connection is opened again. Each commit has a number, which `put` leaves in the row of its process: so
it is known whether the last one was made. Answers of models that come meanwhile are spooled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg

from peira.core.clock import Clock
from peira.core.codec import pack
from peira.core.contracts import Op, Outcome, PoolRequest
from peira.core.failpoints import reach
from peira.core.ids import digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import Record, State
from peira.core.log.state import Run, replace
from peira.errors import (
    Fenced,
    InsufficientPool,
    Invalid,
    LeaseLost,
    NotGranted,
    StaleRows,
    StoreFault,
    StoreInUse,
)
from peira.stores.blobs import StoredBlob
from peira.stores.commit_thread import CommitThread, WriteRequest, acknowledge, claims
from peira.stores.fold import RowView, fold, touching
from peira.stores.postgres import arrays, members, reads
from peira.stores.postgres.address import Address
from peira.stores.postgres.columns import Blob, blob_columns, call_columns, spans_of, task_columns
from peira.stores.postgres.connection import DRY, FENCED, LOSSES, PAUSE, STALE, Connection, connect, is_broken
from peira.stores.postgres.sharing import LOST_LEASE
from peira.stores.postgres.spool import AnswerSpool
from peira.stores.rows import call_value, run_row, run_value, task_value

SMALL = 512
"""Bytes that are not worth compressing."""
ACTIVE = frozenset({State.running, State.waiting, State.cancelling, State.paused})
UNTIMED = frozenset(
    {
        ev.TasksQueued,
        ev.TasksClaimed,
        ev.TasksReleased,
        ev.TasksInterrupted,
        ev.TaskRetried,
        ev.TaskFinished,
        ev.TaskReused,
        ev.StepRecorded,
        ev.CallIntended,
        ev.CallAnswered,
        ev.CallRead,
        ev.CallBilled,
        ev.CallLost,
        ev.Observed,
        ev.Attached,
        ev.Reported,
        ev.RunNoted,
        ev.CommandTaken,
    }
)
"""Events that leave no time of their own in a row; all others are folded under locks, with the time known."""
MOST_TRIES = 1000
"""Folds of one group; each means that another process has committed meanwhile."""
ANSWERS = frozenset({ev.CallAnswered, ev.CallRead, ev.CallBilled})
"""Events that a process may record whose lease has run out: what was paid for is kept, however late."""
LAST_WORDS = 30.0
"""Seconds for which such a process may do so."""
JOB = "job"
"""The kind of tasks that are queued before their first attempt."""
TAKEN_OVER = "another process has taken the store over"
PUT = f"SELECT * FROM put({', '.join(['%s'] * 52)})"
PUT_DRAWING = (
    f"SELECT p.*, d.* FROM put({', '.join(['%s'] * 52)}) AS p, "
    "LATERAL draw_shares(%s, p.o_at, %s, %s, %s::double precision[], %s::double precision[], "
    "%s::double precision[]) AS d"
)
"""As `PUT`, with shares of pools that are taken in the same transaction."""


class PostgresWriter(CommitThread):
    """Commits ops as one member of a store."""

    def __init__(
        self,
        db: Connection,
        address: Address,
        me: int,
        shared: bool,
        idle: float,
        clock: Clock | None,
        codec: str,
        on_commit: Callable[[list[Record]], None] | None,
        spool: AnswerSpool,
    ) -> None:
        """`db` holds the lock of the store; who does nothing for `idle` seconds within a transaction loses
        its connection. `clock` replaces the database's clock."""
        self._spool, self._away, self._spooling = spool, False, threading.Lock()
        self._batch: list[WriteRequest] = []
        self._on_commit, self._committed = on_commit, list[Record]()
        self._db, self._address, self.me, self._shared = db, address, me, shared
        self._clock, self._codec, self._idle = clock, codec, idle
        self._token, self._lost = 0, False
        self._rows = RowView()
        self._task_version: dict[str, int] = {}
        self._call_version: dict[str, int] = {}
        self._run_version: dict[str, int] = {}
        self._run_n: dict[str, int] = {}
        self._run_id = reads.RunNumbers(db)
        super().__init__()

    @property
    def db(self) -> Connection:
        """The connection, for use after the thread has ended."""
        return self._db

    def submit(self, request: WriteRequest) -> Future[list[Outcome]]:
        with self._spooling:
            if self._away:  # also if it is refused now, because the server stayed away for too long
                self._spool.add(request.ops, request.done)
            return super().submit(request)

    def close(self) -> None:
        super().close()
        self._spool.tidy()
        self._spool.close()

    def _commit(self, batch: list[WriteRequest]) -> None:
        self._batch = batch
        self._commit_batch(batch)
        self._spool.tidy()

    def _commit_batch(self, batch: list[WriteRequest]) -> None:
        chooser = batch[-1].choose
        if chooser and len(batch) > 1:
            self._commit_batch(batch[:-1])
            batch = batch[-1:]
        if batch[-1].choose is not None:
            groups: list[Sequence[Op]] = []
            outcomes = self._surely(lambda: self._chosen(batch[-1].choose, groups))
        else:
            groups = [request.ops for request in batch]
            ops = [op for group in groups for op in group]
            outcomes = [outcome for part in _parts(ops) for outcome in self._granted(part)]
        reach("store.after_commit")
        if self._on_commit:
            self._on_commit(self._committed)
            self._committed = []
        acknowledge(batch, groups, outcomes)

    def _granted(self, ops: Sequence[Op]) -> list[Outcome]:
        """Commit ops; those that draw on pools are refused, and may ask again, if one of these is dry."""
        try:
            return self._surely(partial(self._folded, ops))
        except InsufficientPool as problem:
            rest = [op for op in ops if not op.draws]
            others = iter(self._surely(partial(self._folded, rest)) if rest else ())
            return [NotGranted(str(problem)) if op.draws else next(others) for op in ops]

    def _surely(self, commit: Callable[[], list[Outcome]]) -> list[Outcome]:
        """Commit; if the connection is lost, open it again, and commit again unless that was done."""
        while True:
            self._token += 1
            self._outcomes: list[Outcome] | None = None
            try:
                return commit()
            except LeaseLost:
                self._drop_all()
                self._outlive_lease()
            except LOSSES as problem:
                if not is_broken(self._db, problem):
                    raise
                self._drop_all()
                self._spool_queue()
                done = self._reconnect(problem)
                with self._spooling:
                    self._away = False
                if done >= self._token and self._outcomes is not None:
                    return self._outcomes

    def _spool_queue(self) -> None:
        """Spool what waits to be committed, and from now on whatever is queued."""
        with self._spooling:
            if not self._away:
                self._away = True
                for request in (*self._batch, *self.waiting()):
                    if not request.done.done():
                        self._spool.add(request.ops, request.done)

    def _reconnect(self, problem: Exception) -> int:
        """Open the connection again, as the same member; the number of its last commit."""
        self._db.close()
        deadline = time.monotonic() + self._address.reconnect
        while True:
            try:
                return self._rejoined(deadline)
            except (StoreFault, Invalid, psycopg.OperationalError) as again:
                if isinstance(again, StoreInUse) or time.monotonic() > deadline:
                    raise again from problem
                time.sleep(PAUSE)

    def _rejoined(self, deadline: float) -> int:
        """Connect, and take the lock again as the same member; the number of its last commit."""
        self._db = db = connect(self._address, look_up=True, idle=self._idle)
        self._run_id = reads.RunNumbers(db)
        # The server may need a moment to notice that the old connection is gone, and free its lock.
        while not members.try_lock(db, self._address, self._shared):
            if members.rejoin(db, self.me) is None or time.monotonic() > deadline:
                raise StoreInUse(TAKEN_OVER)
            time.sleep(PAUSE)
        token = members.rejoin(db, self.me)
        if token is None and self._shared:
            self._outlive_lease()
            return 0
        if token is None:
            raise StoreInUse(TAKEN_OVER)
        return token

    def _outlive_lease(self) -> None:
        """The lease of this process has run out: as a new member it only records answers that were paid for.

        Everything else is refused from now on; others have taken it over.
        """
        self._lost = True
        self.me = members.join(self._db, LAST_WORDS)

    def _chosen(self, choose: Callable[[], Sequence[Op]] | None, groups: list[Sequence[Op]]) -> list[Outcome]:
        """Commit ops that are chosen under locks; none once the lease is lost."""
        if self._lost:
            groups[:] = [[]]
            return []
        return self._locked([], choose, groups)

    def _folded(self, ops: Sequence[Op]) -> list[Outcome]:
        """Commit ops; once the lease is lost, only those that record answers."""
        if not self._lost:
            return self._accepted(ops)
        late = [op for op in ops if all(type(event) in ANSWERS for event in op.events)]
        outcomes = iter(self._accepted(late) if late else ())
        kept = {id(op) for op in late}
        return [next(outcomes) if id(op) in kept else Fenced(LOST_LEASE) for op in ops]

    def _accepted(self, ops: Sequence[Op]) -> list[Outcome]:
        """Commit ops from the rows at hand where that is possible, else from locked rows."""
        if not any(op.events for op in ops):
            if blobs := self._blobs(ops):
                self._put(RowView(), {}, [], [], [], blobs, ())
            return [None] * len(ops)
        if all(type(event) in UNTIMED for op in ops for event in op.events):
            try:
                outcomes = self._unlocked(ops)
                if outcomes is not None:
                    return outcomes
            except (StaleRows, psycopg.errors.DeadlockDetected):
                pass
        return self._locked(ops)

    def _unlocked(self, ops: Sequence[Op]) -> list[Outcome] | None:
        """Commit ops that are all accepted and change no run's own row; None if they are not such."""
        tasks, calls = touching(ops)
        new = _first_mentions(ops)
        self._load(ops, [id for id in tasks if id not in new], [key for key in calls if key not in new])
        before = self._remember(ops, tasks, calls)
        reach("store.before_fold")
        try:
            records, bodies, outcomes = fold(self._rows, ops, 0.0)  # `put` says the time
            changed = any(
                replace(self._rows.runs[run], next_seq=0) != replace(row, next_seq=0)
                for run, row in before.runs.items()
            )
            if changed or any(outcomes):
                self._drop(ops, tasks, calls)
                return None
            self._outcomes = outcomes
            self._put(
                before, before.runs, records, bodies, list(tasks), self._blobs(ops), calls, draws=_draws(ops)
            )
        except BaseException:
            self._drop(ops, tasks, calls)
            raise
        self._forget(tasks, calls)
        return outcomes

    def _locked(
        self,
        ops: Sequence[Op],
        choose: Callable[[], Sequence[Op]] | None = None,
        groups: list[Sequence[Op]] | None = None,
    ) -> list[Outcome]:
        """Commit ops from rows that are locked until the commit."""
        for _ in range(MOST_TRIES):
            try:
                with self._db.transaction():
                    self._db.execute("SELECT 1 FROM member WHERE n = %s FOR UPDATE", (self.me,))
                    if choose is not None and groups is not None:
                        groups[:] = [choose()]
                        [ops] = groups
                    return self._fold_locked(ops)
            except (StaleRows, psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation) as problem:
                again = problem
        raise StoreFault(f"a commit met changed rows {MOST_TRIES} times: {again}")

    def _fold_locked(self, ops: Sequence[Op]) -> list[Outcome]:
        """Lock the rows of these ops, fold and write them, within a transaction."""
        tasks, calls = touching(ops)
        self._drop(ops, tasks, calls)
        blobs = self._blobs(ops)
        if blobs:
            self._insert_blobs(blobs)
        try:
            self._load(ops, tasks, calls, "FOR UPDATE")
            before = self._remember(ops, tasks, calls)
            reach("store.before_fold")
            at = self._now()
            records, bodies, outcomes = fold(self._rows, ops, at)
            known = self._write_runs(before, records)
            self._outcomes = outcomes
            accepted = [op for op, refusal in zip(ops, outcomes, strict=True) if refusal is None]
            self._put(before, known, records, bodies, list(tasks), [], calls, at, _draws(accepted))
            return outcomes
        finally:
            self._drop(ops, tasks, calls)

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> Sequence[Op]:
        """Choose the tasks of a claim; called by the writer's thread, within the transaction."""
        return claims(run, owner, reads.ready(self._db, classes, n, self._now()))

    def _now(self) -> float:
        """The time, by the database's clock unless there is another."""
        if self._clock is not None:
            return self._clock.now()
        row = self._db.execute("SELECT extract(epoch FROM clock_timestamp())::double precision").fetchone()
        assert row is not None
        return float(row[0])

    def _load(self, ops: Sequence[Op], tasks: Iterable[str], calls: Iterable[str], lock: str = "") -> None:
        """Read the rows that these ops touch and that are not at hand; with `lock`, lock them."""
        rows = self._rows
        if missing := sorted({op.run for op in ops if op.run} - rows.runs.keys()):
            for row in reads.runs(self._db, missing, lock):
                run = run_value(row[:-1])
                rows.runs[run.id], self._run_version[run.id] = run, row[-1]
                self._run_n[run.id] = row[0]
        if missing := [id for id in tasks if id not in rows.tasks]:
            for row in reads.tasks(self._db, missing, lock):
                task = task_value(row[:-1], self._run_id)
                rows.tasks[task.id], self._task_version[task.id] = task, row[-1]
        if missing := [key for key in calls if key not in rows.calls]:
            for row in reads.calls(self._db, missing, lock):
                call = call_value(row[:-1], self._run_id)
                rows.calls[call.key], self._call_version[call.key] = call, row[-1]

    def _remember(self, ops: Sequence[Op], tasks: Iterable[str], calls: Iterable[str]) -> RowView:
        """The rows as they are before the fold."""
        rows = self._rows
        return RowView(
            {id: rows.tasks[id] for id in tasks if id in rows.tasks},
            {key: rows.calls[key] for key in calls if key in rows.calls},
            {op.run: rows.runs[op.run] for op in ops if op.run in rows.runs},
        )

    def _drop(self, ops: Sequence[Op], tasks: Iterable[str], calls: Iterable[str]) -> None:
        """Forget the rows that these ops touch."""
        for id in tasks:
            self._rows.tasks.pop(id, None)
            self._task_version.pop(id, None)
        for key in calls:
            self._rows.calls.pop(key, None)
            self._call_version.pop(key, None)
        for op in ops:
            self._rows.runs.pop(op.run, None)
            self._run_version.pop(op.run, None)

    def _drop_all(self) -> None:
        """Forget every row."""
        self._rows = RowView()
        for versions in (self._task_version, self._call_version, self._run_version):
            versions.clear()

    def _forget(self, tasks: Iterable[str], calls: Iterable[str]) -> None:
        """Forget rows that the next events will hardly touch; a call on its way is answered soon."""
        for key in calls:
            call = self._rows.calls.get(key)
            if call is not None and (call.state != "intended" or call.batch):
                del self._rows.calls[key], self._call_version[key]
        for id in tasks:
            task = self._rows.tasks.get(id)
            if task is not None and task.state not in ACTIVE:
                del self._rows.tasks[id], self._task_version[id]

    def _blobs(self, ops: Sequence[Op]) -> list[Blob]:
        """The blobs of these ops, each once, in the order of their digests."""
        found: dict[bytes, Blob] = {}
        for op in ops:
            for data in op.blobs:
                if isinstance(data, StoredBlob):
                    found[data.digest] = (data.digest, self._codec, None, data.size)
                    continue
                codec = self._codec if len(data) > SMALL else "none"
                packed = pack(data, codec)
                digest = bytes.fromhex(digest_bytes(data))
                found[digest] = (digest, codec, packed, len(packed))
        return [found[digest] for digest in sorted(found)]

    def _insert_blobs(self, blobs: Sequence[Blob]) -> None:
        """Insert blobs before any other row is locked, as `put` does."""
        self._db.execute(
            "INSERT INTO blob (digest, codec, data, size) SELECT * FROM unnest(%s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING",
            blob_columns(blobs),
        )

    def _write_runs(self, before: RowView, records: Sequence[Record]) -> dict[str, Run]:
        """Insert new runs and update changed ones; the runs of these records, as the table had them.

        The rows of known runs are locked.
        """
        found: dict[str, Run] = {}
        for id in dict.fromkeys(record.run for record in records):
            run, old = self._rows.runs[id], before.runs.get(id)
            _, _, manifest, study, trials, status, planned, _, owner, incarnation, rest, name = run_row(
                run, 0
            )
            if old is None:
                row = self._db.execute(
                    "INSERT INTO run (id, manifest, study, trials, status, planned, owner, incarnation, "
                    "rest, name) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING n",
                    (id, manifest, study, trials, status, planned, owner, incarnation, rest, name),
                ).fetchone()
                assert row is not None
                self._run_n[id], self._run_version[id] = row[0], 0
                self._db.execute("INSERT INTO head VALUES (%s, 1, 0)", (row[0],))
                for tag in run.tags:
                    self._db.execute("INSERT INTO run_tag VALUES (%s, %s, %s)", (tag, planned, row[0]))
                found[id] = replace(run, next_seq=1)
            else:
                if replace(run, next_seq=0) != replace(old, next_seq=0):
                    self._db.execute(
                        "UPDATE run SET status = %s, owner = %s, incarnation = %s, rest = %s WHERE n = %s",
                        (status, owner, incarnation, rest, self._run_n[id]),
                    )
                found[id] = old
        return found

    def _number(self, run: str) -> int:
        """The number of a run, also of one that is not at hand: a reused row keeps its former run."""
        if run not in self._run_n:
            row = self._db.execute("SELECT n FROM run WHERE id = %s", (run,)).fetchone()
            self._run_n[run] = int(row[0]) if row else 0
        return self._run_n[run]

    def _put(
        self,
        before: RowView,
        runs: dict[str, Run],
        records: Sequence[Record],
        bodies: Sequence[bytes],
        touched: Sequence[str],
        blobs: Sequence[Blob],
        calls: Iterable[str],
        at: float | None = None,
        draws: Sequence[tuple[str, PoolRequest]] = (),
    ) -> None:
        """Write what the fold has changed; StaleRows if rows have changed meanwhile.

        `runs` are the runs of the records as they are in the tables; `draws` are what pools of runs are to
        give for this: InsufficientPool if one of them has less.
        """
        heads = sorted(dict.fromkeys(record.run for record in records), key=self._number)
        index = {run: i for i, run in enumerate(heads, 1)}
        first = {run: runs[run].next_seq for run in heads}
        counts = {run: sum(record.run == run for record in records) for run in heads}
        changed = [id for id in touched if self._rows.tasks.get(id) is not before.tasks.get(id)]
        spans = spans_of(records, index, first)
        seen = [id for id in spans if id in before.tasks and self._rows.tasks.get(id) is before.tasks[id]]
        versions = [self._run_version[run] for run in heads]
        moved = [
            int(replace(self._rows.runs[run], next_seq=0) != replace(runs[run], next_seq=0)) for run in heads
        ]
        values: list[Any] = [self.me, self._token, self._clock.now() if self._clock and at is None else at]
        values += blob_columns(blobs)
        values += task_columns(self._rows, changed, self._number, self._task_version, spans)
        values += (
            [
                arrays.integer([self._run_n[run] for run in heads]),
                arrays.integer([counts[run] for run in heads]),
                arrays.integer(versions),
                arrays.integer(moved),
            ]
            if heads
            else [None] * 4
        )
        values += (
            [
                reads.keys_of(seen),
                arrays.integer([self._task_version[id] for id in seen]),
                *(arrays.integer(column) for column in zip(*map(spans.__getitem__, seen), strict=True)),
            ]
            if seen
            else [None] * 5
        )
        values += call_columns(self._rows, records, before, index, first, self._call_version)
        values += (
            [
                arrays.integer([index[record.run] for record in records]),
                arrays.integer([record.seq - first[record.run] for record in records]),
                arrays.bytea(bodies),
            ]
            if records
            else [None] * 3
        )
        reach("store.before_commit")
        at, firsts = self._execute(values, draws)
        if self._on_commit:
            begins = dict(zip(heads, firsts or (), strict=True))
            self._committed += [
                replace(record, seq=record.seq - first[record.run] + begins[record.run], at=at)
                for record in records
            ]
        for id in changed:
            self._task_version[id] = self._task_version.get(id, 0) + 1
        for run, up in zip(heads, moved, strict=True):
            self._run_version[run] += up
        for key in calls:
            if key in self._rows.calls and self._rows.calls[key] is not before.calls.get(key):
                self._call_version[key] = self._call_version.get(key, 0) + 1

    def _execute(
        self, values: Sequence[Any], draws: Sequence[tuple[str, PoolRequest]]
    ) -> tuple[float, list[int] | None]:
        """Call `put`, and draw on pools; the time of the commit, and the first number of each run."""
        try:
            if draws:
                return self._put_and_draw(values, draws)
            row = self._db.execute(PUT, values, prepare=True).fetchone()
            assert row is not None
            return row[0], row[1]
        except psycopg.Error as problem:
            if problem.sqlstate == DRY:
                raise InsufficientPool(problem.diag.message_primary) from None
            if problem.sqlstate == STALE or _is_known(problem):
                raise StaleRows(str(problem)) from None
            if problem.sqlstate == FENCED and self._shared:
                raise LeaseLost(LOST_LEASE) from None
            if problem.sqlstate == FENCED:
                raise Fenced(TAKEN_OVER) from None
            raise

    def _put_and_draw(
        self, values: Sequence[Any], draws: Sequence[tuple[str, PoolRequest]]
    ) -> tuple[float, list[int] | None]:
        """As `put` in one round trip, with one draw for each pool, in an order that all keep."""
        pools: dict[tuple[str, str], list[PoolRequest]] = {}
        for run, request in draws:
            request.given = request.need  # if the answer is lost, and the commit was made
            pools.setdefault((run, request.scope), []).append(request)
        places = sorted(pools)
        columns = [
            [run for run, _ in places],
            [scope for _, scope in places],
            [pools[place][-1].most for place in places],
            [pools[place][-1].before for place in places],
            [sum(request.need for request in pools[place]) for place in places],
        ]
        row = self._db.execute(PUT_DRAWING, [*values, self.me, *columns]).fetchone()
        assert row is not None
        for place, given in zip(places, row[2], strict=True):
            first, *others = pools[place]
            first.given = given - sum(request.need for request in others)
        return row[0], row[1]


def _first_mentions(ops: Sequence[Op]) -> set[str]:
    """The tasks, calls and steps that these ops create, by what the events say: they need not be looked up.

    Where another process has created one of them, `put` cannot insert it, and the ops are folded again.
    """
    new: set[str] = set()
    for op in ops:
        for event in op.events:
            if type(event) is ev.TasksClaimed and event.task_kind != JOB:
                epochs = event.epochs or (1,) * len(event.tasks)
                new.update(id for id, epoch in zip(event.tasks, epochs, strict=True) if epoch == 1)
            elif type(event) is ev.StepRecorded or (type(event) is ev.CallIntended and event.send == 1):
                new.add(event.key)
    return new


def _is_known(problem: psycopg.Error) -> bool:
    """Whether a row that was to be new exists already."""
    return isinstance(problem, psycopg.errors.UniqueViolation) and problem.diag.table_name in ("task", "call")


def _draws(ops: Sequence[Op]) -> list[tuple[str, PoolRequest]]:
    """What ops need of pools, each with its run."""
    return [(op.run, request) for op in ops for request in op.draws]


def _parts(ops: Sequence[Op]) -> Iterator[Sequence[Op]]:
    """The ops in groups in which each task is touched by one run only; nearly always one group."""
    if len({op.run for op in ops}) < 2:
        yield ops
        return
    runs: dict[str, str] = {}
    start = 0
    for at, op in enumerate(ops):
        tasks, _ = touching([op])
        if any(runs.get(task, op.run) != op.run for task in tasks):
            yield ops[start:at]
            start, runs = at, {}
        runs.update(dict.fromkeys(tasks, op.run))
    yield ops[start:]
