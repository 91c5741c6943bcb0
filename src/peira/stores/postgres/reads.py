"""Queries over the tables, in bulk; each method is one short read, or a stream from one snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from operator import itemgetter
from typing import Any, Literal, TypeVar

import psycopg
import zstandard

from peira.core.codec import decode_event, unpack
from peira.core.contracts import CallQuery, CallTotals, JobQuery, RunQuery
from peira.core.ids import digest_bytes, short
from peira.core.log.events import Record, State, Status, Unreadable
from peira.core.log.rows import CALL_STATES
from peira.core.log.state import Call, Run, Task, touched
from peira.errors import StoreDamaged, StoreFault, Unknown
from peira.stores.blobs import LargeBlobs
from peira.stores.event_ranges import GAP, EventRange, merged
from peira.stores.postgres import arrays
from peira.stores.postgres.address import Address
from peira.stores.postgres.connection import PAUSE, Connection, Row, connect, is_broken, translated
from peira.stores.postgres.schema import SUBMITTED
from peira.stores.postgres.sharing import shared_runs
from peira.stores.rows import (
    BRIEF,
    CALL,
    CODES,
    RUN,
    STATES,
    brief_task_value,
    call_value,
    place,
    run_value,
    task_value,
    unreadable_call,
    unreadable_run,
    unreadable_task,
)
from peira.stores.sharing import SharedRun

Found = TypeVar("Found")
TASK = (
    "n, id, kind, class, state, epoch, owner, attempts, interruptions, priority, not_before, run, "
    "reused_from, rest, result"
)
"""The columns of a task as `task_value` takes them."""
CALLS = "0, " + CALL.partition(", ")[2]
"""The columns of a call as `call_value` takes them; calls have no numbers here."""
RUNS = f"SELECT {RUN} FROM run JOIN head ON head.run = run.n"
FEW = 20
"""Tasks whose events are found by the server; for more of them, all events are decoded."""
AT_ONCE = 2000
"""Rows of a stream that are fetched together."""


def keys_of(digests: Sequence[str]) -> arrays.ByteaArray:
    """Ids or keys as a parameter."""
    return arrays.bytea([bytes.fromhex(digest) for digest in digests])


class RunNumbers:
    """The ids of runs by their numbers; they never change, so they are kept."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._known: dict[int, str] = {}

    def __call__(self, n: int) -> str:
        if n not in self._known:
            row = self._db.execute("SELECT id FROM run WHERE n = %s", (n,)).fetchone()
            if row is None:
                return ""
            self._known[n] = row[0]
        return self._known[n]


def tasks(db: Connection, ids: Sequence[str], lock: str = "") -> list[Row]:
    """The rows of these tasks, each with its version at the end, in the order of their ids."""
    cursor = db.cursor(binary=True)
    ordered = f"ORDER BY id {lock}" if lock else ""
    cursor.execute(f"SELECT {TASK}, version FROM task WHERE id = ANY(%s) {ordered}", (keys_of(ids),))
    return cursor.fetchall()


def calls(db: Connection, keys: Sequence[str], lock: str = "") -> list[Row]:
    """The rows of these calls and steps, each with its version at the end, in the order of their keys."""
    cursor = db.cursor(binary=True)
    ordered = f"ORDER BY key {lock}" if lock else ""
    cursor.execute(f"SELECT {CALLS}, version FROM call WHERE key = ANY(%s) {ordered}", (keys_of(keys),))
    return cursor.fetchall()


def runs(db: Connection, ids: Sequence[str], lock: str = "") -> list[Row]:
    """The rows of these runs, each with its version at the end, in the order of their numbers.

    With `lock`, what every commit to them changes is locked first, by a statement of its own: one that waits
    for a lock goes on with the locked row as it is then, and with all others as they were before.
    """
    cursor = db.cursor(binary=True)
    if lock:
        cursor.execute(
            f"SELECT 1 FROM head WHERE run IN (SELECT n FROM run WHERE id = ANY(%s)) ORDER BY run {lock}",
            (arrays.text(ids),),
        )
    cursor.execute(
        f"SELECT {RUN}, head.version FROM run JOIN head ON head.run = run.n WHERE id = ANY(%s) "
        "ORDER BY run.n",
        (arrays.text(ids),),
    )
    return cursor.fetchall()


def ready(db: Connection, classes: Sequence[str], n: int, now: float) -> list[Task]:
    """Queued tasks whose time has come and whose needs have succeeded, best first.

    They are locked for the transaction; what another process is about to claim is left out.
    """
    if n <= 0 or not classes:
        return []
    run_id, found = RunNumbers(db), list[Task]()
    cursor = db.cursor(binary=True)
    cursor.execute(
        f"SELECT {TASK} FROM task WHERE state = 0 AND class = ANY(%s) AND coalesce(not_before, 0) <= %s "
        "ORDER BY -coalesce(priority, 0), n FOR UPDATE SKIP LOCKED",
        (arrays.text(classes), now),
    )
    for row in cursor:
        task = task_value(row, run_id)
        if not task.needs or _met(db, task.needs):
            found.append(task)
            if len(found) == n:
                break
    return found


def _met(db: Connection, needs: Sequence[str]) -> bool:
    """Whether all of these tasks have succeeded."""
    run_id = RunNumbers(db)
    met = sum(task_value(row[:-1], run_id).state is State.succeeded for row in tasks(db, needs))
    return met == len(set(needs))


class StoreReader:
    """Reads a store through one connection, which threads use in turn.

    With `snapshot`, all reads show the store as it was at one moment.
    """

    def __init__(self, address: Address, files: LargeBlobs | None, snapshot: bool = False) -> None:
        self._address, self._files = address, files
        self._lock = threading.RLock()
        self._names = count()
        self._frozen = snapshot
        self._closed = False
        self._connect()
        if snapshot:
            self._db.autocommit = False
            self._db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _connect(self) -> None:
        self._db = connect(self._address, look_up=not self._frozen, readonly=True)
        self._run_id = RunNumbers(self._db)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._closed = True
        self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """The connection, for one thread at a time."""
        with self._lock, translated(self._address):
            yield self._db

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows of a query."""
        return self._surely(lambda db: db.cursor(binary=True).execute(query, values).fetchall())

    def _surely(self, read: Callable[[Connection], Found]) -> Found:
        """What `read` gives; a lost connection is opened again, unless it holds a snapshot."""
        deadline = time.monotonic() + self._address.reconnect
        with self._reading() as db:
            while True:
                try:
                    return read(db)
                except psycopg.OperationalError as problem:
                    if self._frozen or self._closed or not is_broken(db, problem):
                        raise
                    db = self._again(deadline)

    def _again(self, deadline: float) -> Connection:
        """Open the connection again, as soon as the server takes it."""
        self._db.close()
        while True:
            try:
                self._connect()
                return self._db
            except StoreFault:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    def _number(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The only value of a query; None if there is no row."""
        rows = self._rows(query, values)
        return rows[0][0] if rows else None

    def _run_number(self, run: str) -> int | None:
        return self._number("SELECT n FROM run WHERE id = %s", (run,))  # type: ignore[no-any-return]

    def _stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a query one after another, from one snapshot, on a connection of their own."""
        if self._frozen:
            with self._reading() as db, db.cursor(f"stream{next(self._names)}", binary=True) as cursor:
                cursor.itersize = AT_ONCE
                cursor.execute(query, values)
                yield from cursor
            return
        other = StoreReader(self._address, self._files, snapshot=True)
        try:
            yield from other._stream(query, values)
        finally:
            other.close()

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        return self._surely(lambda db: self._found(db, kind, keys)) if keys else {}

    def _found(self, db: Connection, kind: str, keys: Sequence[str]) -> dict[str, Any]:
        if kind == "run":
            return {row[1]: _run(row[:-1]) for row in runs(db, keys)}
        if kind == "call":
            return {row[1].hex(): call_value(row[:-1], self._run_id) for row in calls(db, keys)}
        return {row[1].hex(): self._task(row[:-1]) for row in tasks(db, keys)}

    def _task(self, row: Row) -> Task:
        """The task, also one whose row is damaged: those who look see it as failed."""
        try:
            return task_value(row, self._run_id)
        except StoreDamaged as problem:
            return unreadable_task(row, problem)

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        rows = self._rows(
            "SELECT seq, at, body FROM event WHERE run = (SELECT n FROM run WHERE id = %s) AND seq > %s "
            "ORDER BY seq LIMIT %s",
            (run, after, limit),
        )
        return [Record(run, seq, at, decode_event(body)) for seq, at, body in rows]

    def get(self, digest: str) -> bytes:
        rows = self._rows("SELECT codec, data FROM blob WHERE digest = %s", (bytes.fromhex(digest),))
        if not rows:
            raise Unknown(f"no blob {digest} in this store")
        codec, data = rows[0]
        try:
            found = unpack(data, codec) if data is not None else self._file(digest)
        except zstandard.ZstdError as problem:
            raise StoreDamaged(f"the bytes of blob {digest} cannot be unpacked: {problem}") from problem
        if digest_bytes(found) != digest:
            raise StoreDamaged(f"the bytes of blob {digest} do not match it")
        return found

    def _file(self, digest: str) -> bytes:
        """The bytes of a large blob."""
        try:
            if self._files is not None:
                return self._files.read(digest)
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise StoreFault(f"blob {digest} cannot be read: {problem}") from problem
        where = self._files.where if self._files else "the place that held it"
        raise StoreDamaged(f"blob {digest} is not in {where}")

    def runs(self, query: RunQuery) -> list[Run]:
        """Newest first: in the order in which they began, or by the clock where a time is asked for."""
        tagged = "JOIN run_tag ON run_tag.run = run.n" if query.tag else ""
        hidden = (Status.frozen.value, Status.deleted.value)
        asked = query.status or query.prefix or query.name or query.after
        where: dict[str, Any] = {
            "study = %s": query.study,
            "status = %s": query.status,
            "status NOT IN (%s, %s)": () if asked else hidden,
            "tag = %s": query.tag,
            "name = %s": query.name,
            "run.n > (SELECT n FROM run WHERE id = %s)": query.after,
            "planned >= %s": query.since,
            "planned <= %s": query.until,
            'id COLLATE "C" >= %s': query.prefix,
            'id COLLATE "C" < %s': query.prefix and query.prefix + "g",
        }
        given = {sql: value for sql, value in where.items() if value}
        order = "planned DESC, run.n DESC" if query.since or query.until else "run.n DESC"
        values = (value if isinstance(value, tuple) else (value,) for value in given.values())
        sql = f"{RUNS} {tagged} WHERE {' AND '.join(given) or 'true'} ORDER BY {order} LIMIT %s"
        return [_run(row) for row in self._rows(sql, (*chain.from_iterable(values), query.limit))]

    def calls(self, query: CallQuery) -> list[Call]:
        clause, values = self._called(query)
        sql = f"SELECT {CALLS} FROM call WHERE {clause} ORDER BY asked DESC LIMIT %s"
        return [self._call(row) for row in self._rows(sql, (*values, query.limit))]

    def _call(self, row: Row) -> Call:
        """The call, also one whose row is damaged."""
        try:
            return call_value(row, self._run_id)
        except StoreDamaged as problem:
            return unreadable_call(row, problem)

    def tally(self, query: CallQuery) -> CallTotals:
        clause, values = self._called(query)
        counts = ", ".join(f"count(*) FILTER (WHERE state = '{state}')" for state in CALL_STATES)
        [row] = self._rows(
            "SELECT coalesce(sum(greatest(input, 0)), 0)::bigint, "
            "coalesce(sum(greatest(output, 0)), 0)::bigint, coalesce(sum(greatest(cost, 0)), 0), "
            f"count(*) FILTER (WHERE cost < 0 AND state IN ('answered', 'void')), {counts} "
            f"FROM call WHERE {clause}",
            values,
        )
        input, output, cost, unpriced, *found = row
        states = {state: n for state, n in zip(CALL_STATES, found, strict=True) if n}
        return CallTotals(states, input, output, cost, unpriced)

    def _called(self, query: CallQuery) -> tuple[str, list[Any]]:
        """The condition of a query of calls, and its values."""
        where: dict[str, Sequence[Any]] = {"asked IS NOT NULL": ()}
        if query.run:
            n = self._run_number(query.run) or 0
            where["asked BETWEEN %s AND %s"] = place(n, 0), place(n + 1, 0)
        for column, value in (("state", query.state), ("model", query.model)):
            if value:
                where[f"{column} = %s"] = (value,)
        for column, digits in (("task", query.task), ("key", query.prefix)):
            if digits:
                ends = (bytes.fromhex(digits.ljust(64, filler)) for filler in ("0", "f"))
                where[f"{column} BETWEEN %s AND %s"] = tuple(ends)
        return " AND ".join(where), list(chain.from_iterable(where.values()))

    def about(self, tasks: Sequence[str], until: str = "") -> list[Record]:
        """Only the ranges of events that the rows of these tasks name are read."""
        last = self._run_number(until) if until else None
        rows = self._rows("SELECT events FROM task WHERE id = ANY(%s)", (keys_of(tasks),))
        ranges = (one for (events,) in rows for one in _ranges(events) if last is None or one[0] <= last)
        names = [task.encode() for task in tasks] if len(tasks) <= FEW else []
        holds = " OR ".join(["position(%s::bytea in body) > 0"] * len(names)) or "true"
        sql = f"SELECT n, seq, at, body FROM event WHERE run = %s AND seq BETWEEN %s AND %s AND ({holds})"
        wanted, found = set(tasks), list[tuple[int, Record]]()
        for run, first, end in merged(ranges):
            for n, seq, at, body in self._rows(sql, (run, first, end, *names)):
                event = decode_event(body)
                if not wanted.isdisjoint(touched(event)):
                    found.append((n, Record(self._run_id(run), seq, at, event)))
        return [record for _, record in sorted(found, key=itemgetter(0))]

    def changed_since(self, run: str) -> list[str]:
        """Those with a single range have events in one run only."""
        last = self._run_number(run) or 0
        rows = self._rows("SELECT id, events FROM task WHERE cardinality(events) > 3")
        return [id.hex() for id, events in rows if min(events[::3]) <= last < max(events[::3])]

    def active(self) -> list[Task]:
        return self._in_progress("state IN (1, 4)")

    def waiting(self) -> list[Task]:
        return self._in_progress("state = 2")

    def _in_progress(self, which: str) -> list[Task]:
        """Tasks that have begun and not ended, oldest first: those of the states that `which` says."""
        where = f"state BETWEEN 1 AND 4 AND {which}"
        rows = self._rows(f"SELECT {TASK} FROM task WHERE {where} ORDER BY n")
        return [task_value(row, self._run_id) for row in rows]

    def jobs(self, query: JobQuery) -> list[Task]:
        state = "" if query.state is None else f"AND state = {CODES[query.state]} "
        since = f"AND {SUBMITTED} >= {query.since!r} " if query.since else ""
        columns, value = (BRIEF, brief_task_value) if query.brief else (TASK, task_value)
        rows = self._rows(
            f"SELECT {columns} FROM task WHERE kind = 'job' AND class = %s {state}{since}"
            f"ORDER BY n {'ASC' if query.oldest else 'DESC'} LIMIT %s OFFSET %s",
            (query.cls, query.limit, query.skip),
        )
        return [value(row, self._run_id) for row in rows]

    def job_counts(self, cls: str) -> dict[State, int]:
        rows = self._rows(
            "SELECT state, count(*) FROM task WHERE kind = 'job' AND class = %s GROUP BY state", (cls,)
        )
        return {STATES[state]: n for state, n in rows}

    def queued(self, cls: str) -> list[Task]:
        rows = self._rows(f"SELECT {TASK} FROM task WHERE state = 0 AND class = %s ORDER BY n", (cls,))
        return [task_value(row, self._run_id) for row in rows]

    def using(self, calls: Sequence[str]) -> list[Task]:
        """The server passes over all results as bytes; only those that hold a key are decoded."""
        found: dict[str, Task] = {}
        for start in range(0, len(calls), FEW):
            some = calls[start : start + FEW]
            holds = " OR ".join(["position(%s::bytea in result) > 0"] * len(some))
            for row in self._stream(f"SELECT {TASK} FROM task WHERE {holds}", [key.encode() for key in some]):
                task = task_value(row, self._run_id)
                found[task.id] = task
        return [task for task in found.values() if not set(calls).isdisjoint(task.result.calls)]

    def history(self) -> Iterator[Record]:
        for run, seq, at, body in self._stream("SELECT run, seq, at, body FROM event ORDER BY n"):
            yield Record(self._run_id(run), seq, at, decode_event(body))

    def rows(self) -> Iterator[Task | Call | Run]:
        if not self._frozen:
            yield from self._from_snapshot(lambda other: other.rows())
            return
        for row in self._stream(f"SELECT {TASK} FROM task"):
            yield task_value(row, self._run_id)
        for row in self._stream(f"SELECT {CALLS} FROM call"):
            yield call_value(row, self._run_id)
        yield from map(run_value, self._stream(RUNS))

    def _from_snapshot(self, read: Callable[[StoreReader], Iterator[Any]]) -> Iterator[Any]:
        """What `read` gives on a snapshot of its own."""
        other = StoreReader(self._address, self._files, snapshot=True)
        try:
            yield from read(other)
        finally:
            other.close()

    def blobs(self) -> Iterator[tuple[str, int, str]]:
        if not self._frozen:
            yield from self._from_snapshot(lambda other: other.blobs())
            return
        files: set[str] = set()
        for digest, size, here in self._stream("SELECT digest, size, data IS NOT NULL FROM blob"):
            name = digest.hex()
            if not here:
                files.add(name)
            yield name, size, self._wrong(name)
        if self._files is not None:
            for name, size in self._files.unfinished():
                yield name, size, "was begun and never finished"

    def _wrong(self, digest: str) -> str:
        try:
            self.get(digest)
        except (StoreDamaged, OSError) as problem:
            return str(problem)
        return ""

    def damage(self) -> list[str]:
        """What cannot be decoded; the pages of the database are checked by its own tools."""
        if not self._frozen:
            return list(self._from_snapshot(lambda other: iter(other.damage())))
        found: list[str] = []
        known = {id.hex(): _ranges(events) for id, events in self._stream("SELECT id, events FROM task")}
        for run, seq, body in self._stream("SELECT run, seq, body FROM event ORDER BY n"):
            event, where = decode_event(body), f"run {short(self._run_id(run) or '?')}, event {seq}"
            if isinstance(event, Unreadable):
                found.append(f"{where} cannot be read: {event.why}")
            for task in touched(event):
                ranges = known.get(task, [(run, seq, seq)])
                if not any(of == run and first <= seq <= last for of, first, last in ranges):
                    found.append(f"task {short(task)}: its row does not say that {where} is about it")
        values: tuple[tuple[str, Callable[..., object]], ...] = (
            (f"SELECT {TASK} FROM task", partial(task_value, run_id=self._run_id)),
            (f"SELECT {CALLS} FROM call", partial(call_value, run_id=self._run_id)),
            (RUNS, run_value),
        )
        for sql, value in values:
            for row in self._stream(sql):
                try:
                    value(row)
                except StoreDamaged as problem:
                    found.append(str(problem))
        return found

    def losses(self) -> list[str]:
        """None are known: the server's own log is not peira's to check."""
        return []

    def size(self, run: str = "") -> int:
        if run:
            sql = (
                "SELECT coalesce(sum(length(body) + 20), 0)::bigint FROM event "
                "WHERE run = (SELECT n FROM run WHERE id = %s)"
            )
            return int(self._number(sql, (run,)))
        tables = self._number(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = %s AND c.relkind = 'r'",
            (self._address.schema,),
        )
        files = self._number("SELECT coalesce(sum(size), 0)::bigint FROM blob WHERE data IS NULL")
        return int(tables) + int(files)

    def owner_row(self) -> Row | None:
        """Number, host and process of the member that holds the store's lock; None if nobody does.

        Of several that share it, the last one that came.
        """
        rows = self._rows(
            "SELECT member.n, host, member.pid FROM pg_locks JOIN member ON backend = pg_locks.pid "
            "WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
            "AND (classid::bigint << 32 | objid::bigint) = %s "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND state = 'alive' ORDER BY member.n DESC LIMIT 1",
            (self._address.lock_key,),
        )
        return rows[0] if rows else None

    def shared_runs(self, run: str = "") -> list[SharedRun]:
        """The shared runs that have not ended, oldest first; or only this one, ended or not."""
        return shared_runs(self._rows, run)

    def command_queued(self, id: str) -> bool:
        return bool(self._rows("SELECT 1 FROM command WHERE id = %s", (id,)))


def _ranges(events: Sequence[int]) -> list[EventRange]:
    """Where the events of a task are, as its row says; see the function `extended` in `put.sql`."""
    return [
        (run, first, last + GAP)
        for run, first, last in zip(events[::3], events[1::3], events[2::3], strict=True)
    ]


def _run(row: Row) -> Run:
    """The run, also one whose row is damaged: a listing shows it with the rest."""
    try:
        return run_value(row)
    except StoreDamaged as problem:
        return unreadable_run(row, problem)
