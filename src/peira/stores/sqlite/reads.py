"""Questions to the tables, in bulk. Each is one short read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import apsw

from peira.core.codec import decode_event
from peira.core.contracts import RunQuery
from peira.core.events import Record, State
from peira.core.state import Call, Run, Task
from peira.stores.sqlite.rows import CALL, RUN, TASK, call_value, run_value, task_value

CHUNK = 500


def _in(db: apsw.Connection, sql: str, keys: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows whose key is among the keys; the last chunk is padded so that one statement serves all."""
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        room = 10 if len(chunk) <= 10 else 100 if len(chunk) <= 100 else CHUNK
        padded = [*chunk, *([None] * (room - len(chunk)))]
        yield from db.execute(f"{sql} IN ({','.join('?' * room)})", padded)


def _run_ids(db: apsw.Connection) -> Callable[[int], str]:
    known: dict[int, str] = {}

    def look(n: int) -> str:
        if n not in known:
            known[n] = db.execute("SELECT id FROM run WHERE n = ?", (n,)).get
        return known[n]

    return look


def tasks(db: apsw.Connection, ids: Sequence[str]) -> Iterator[tuple[int, Task]]:
    run_id = _run_ids(db)
    keys = [bytes.fromhex(task) for task in ids]
    for row in _in(db, f"SELECT {TASK} FROM task WHERE id", keys):
        yield row[0], task_value(row, run_id)


def calls(db: apsw.Connection, keys: Sequence[str]) -> dict[str, Call]:
    rows = _in(db, f"SELECT {CALL} FROM call WHERE key", [bytes.fromhex(key) for key in keys])
    return {call.key: call for call in map(call_value, rows)}


def runs(db: apsw.Connection, ids: Sequence[str]) -> Iterator[tuple[int, Run]]:
    for row in _in(db, f"SELECT {RUN} FROM run WHERE id", ids):
        yield row[0], run_value(row)


def ready(db: apsw.Connection, classes: Sequence[str], n: int, now: float) -> list[Task]:
    """Queued tasks whose time has come and whose needs have succeeded, best first."""
    marks = ",".join("?" * len(classes))
    sql = (
        f"SELECT {TASK} FROM task WHERE state = 0 AND class IN ({marks}) AND coalesce(not_before, 0) <= ? "
        "ORDER BY coalesce(priority, 0) DESC, n"
    )
    run_id = _run_ids(db)
    found = (task_value(row, run_id) for row in db.execute(sql, (*classes, now)))
    return list(islice((task for task in found if _met(db, task.needs)), n))


def _met(db: apsw.Connection, needs: Sequence[str]) -> bool:
    return sum(task.state is State.succeeded for _, task in tasks(db, needs)) == len(set(needs))


def records(db: apsw.Connection, run: str, after: int, limit: int) -> list[Record]:
    sql = (
        "SELECT seq, at, body FROM event WHERE run = (SELECT n FROM run WHERE id = ?) AND seq > ? "
        "ORDER BY seq LIMIT ?"
    )
    return [
        Record(run, seq, at, decode_event(body)) for seq, at, body in db.execute(sql, (run, after, limit))
    ]


def history(db: apsw.Connection) -> Iterator[Record]:
    run_id, after = _run_ids(db), 0
    sql = "SELECT n, run, seq, at, body FROM event WHERE n > ? ORDER BY n LIMIT 1000"
    rows: list[tuple[Any, ...]]
    while rows := db.execute(sql, (after,)).fetchall():
        for number, run, seq, at, body in rows:
            after = number
            yield Record(run_id(run), seq, at, decode_event(body))


def active(db: apsw.Connection) -> list[Task]:
    run_id = _run_ids(db)
    rows = db.execute(
        f"SELECT {TASK} FROM task INDEXED BY task_active WHERE state BETWEEN 1 AND 4 AND state <> 3"
    )
    return [task_value(row, run_id) for row in rows]


def every_row(db: apsw.Connection) -> Iterator[Task | Call | Run]:
    run_id = _run_ids(db)
    for row in db.execute(f"SELECT {TASK} FROM task"):
        yield task_value(row, run_id)
    yield from map(call_value, db.execute(f"SELECT {CALL} FROM call"))
    yield from map(run_value, db.execute(f"SELECT {RUN} FROM run"))


def listing(db: apsw.Connection, query: RunQuery) -> list[Run]:
    """Newest first; every filter has an index or stops at the limit."""
    where: list[tuple[str, Any]] = []
    if query.study:
        where.append(("study = ?", query.study))
    if query.status:
        where.append(("status = ?", query.status))
    if query.tag:
        where.append(("n IN (SELECT run FROM run_tag WHERE tag = ?)", query.tag))
    if query.since:
        where.append(("planned >= ?", query.since))
    if query.until:
        where.append(("planned <= ?", query.until))
    if query.prefix:
        where += [("id >= ?", query.prefix), ("id < ?", query.prefix + "g")]
    clause = " AND ".join(sql for sql, _ in where) or "1"
    values = [value for _, value in where]
    rows = db.execute(f"SELECT {RUN} FROM run WHERE {clause} ORDER BY n DESC LIMIT ?", (*values, query.limit))
    return [run_value(row) for row in rows]


def size(db: apsw.Connection, run: str) -> int:
    """The bytes of a run's events."""
    sql = "SELECT coalesce(sum(length(body) + 20), 0) FROM event WHERE run = (SELECT n FROM run WHERE id = ?)"
    return int(db.execute(sql, (run,)).get)
