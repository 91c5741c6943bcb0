"""Questions to the tables, in bulk. Each is one short read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import apsw

from peira.core.codec import decode_event
from peira.core.contracts import CallQuery, CallTotals, JobQuery, RunQuery
from peira.core.ids import short
from peira.core.log.events import Record, State, Status, Unreadable
from peira.core.log.rows import CALL_STATES
from peira.core.log.state import Call, Run, Task, touched
from peira.errors import StoreDamaged
from peira.stores.event_ranges import EventRange, covers, merged, parse
from peira.stores.rows import (
    BRIEF,
    CALL,
    CODES,
    RUN,
    SEQ_BITS,
    STATES,
    TASK,
    UNREADABLE,
    brief_task_value,
    call_value,
    damaged,
    place,
    plain_task_value,
    ranges_value,
    run_value,
    task_value,
    unreadable_call,
    unreadable_run,
    unreadable_task,
)

ROOMS = (8, 32, 128, 500)
CHUNK = ROOMS[-1]
AT_ONCE = 100
"""Calls that are looked for in one pass over all results."""
FEW = 20
"""Tasks whose ids SQLite looks for in the bytes of events; for more of them, each event is decoded."""


def _in(db: apsw.Connection, sql: str, keys: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows whose key is among the keys; the last chunk is padded so that few statements serve all."""
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        room = next(room for room in ROOMS if room >= len(chunk))
        yield from db.execute(_among(sql, room), [*chunk, *([None] * (room - len(chunk)))]).fetchall()


@cache
def _among(sql: str, room: int) -> str:
    return f"{sql} IN ({','.join('?' * room)})"


def _run_ids(db: apsw.Connection) -> Callable[[int], str]:
    known: dict[int, str] = {}

    def look(n: int) -> str:
        if n not in known:
            known[n] = db.execute("SELECT id FROM run WHERE n = ?", (n,)).get
        return known[n]

    return look


_TASKS_BY_DIGEST = f"SELECT {TASK} FROM task WHERE substr(id, 1, 8)"


def tasks(db: apsw.Connection, ids: Sequence[str]) -> Iterator[tuple[int, Task, tuple[EventRange, ...]]]:
    """The tasks of these ids, with their numbers and where their events are.

    StoreDamaged if one cannot be read.
    """
    run_id = _run_ids(db)
    for row in _by_digest(db, _TASKS_BY_DIGEST, ids):
        yield row[0], task_value(row, run_id), ranges_value(row)


def tasks_by_id(db: apsw.Connection, ids: Sequence[str]) -> dict[str, Task]:
    """The tasks of these ids, for those who only look. Very many are asked for: no generators in between."""
    run_id, runs = _run_ids(db), dict[int, str]()
    wanted = dict(zip(map(bytes.fromhex, ids), ids, strict=True))
    found: dict[str, Task] = {}
    for row in _in(db, _TASKS_BY_DIGEST, [key[:8] for key in wanted]):
        id = wanted.get(row[1])
        if id is None:
            continue
        try:
            if (run := runs.get(row[11])) is None:
                run = runs[row[11]] = run_id(row[11])
            found[id] = plain_task_value(row, id, run) or task_value(row, run_id)
        except StoreDamaged as problem:
            found[id] = unreadable_task(row, problem)
        except UNREADABLE as problem:
            found[id] = unreadable_task(row, damaged(f"task {row[0]}", problem))
    return found


def calls(db: apsw.Connection, keys: Sequence[str]) -> Iterator[tuple[int, Call]]:
    run_id = _run_ids(db)
    for row in _by_digest(db, f"SELECT {CALL} FROM call WHERE substr(key, 1, 8)", keys):
        yield row[0], call_value(row, run_id)


def _by_digest(db: apsw.Connection, sql: str, digests: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows whose second column is among the digests, of those that begin like one of them."""
    keys = [bytes.fromhex(digest) for digest in digests]
    wanted = set(keys)
    return (row for row in _in(db, sql, [key[:8] for key in keys]) if row[1] in wanted)


def runs(db: apsw.Connection, ids: Sequence[str], looking: bool = False) -> Iterator[tuple[int, Run]]:
    """The runs of these ids. StoreDamaged if one cannot be read, except for those who only look."""
    for row in _in(db, f"SELECT {RUN} FROM run WHERE id", ids):
        yield row[0], (_run if looking else run_value)(row)


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
    return sum(task.state is State.succeeded for _, task, _ in tasks(db, needs)) == len(set(needs))


def records(db: apsw.Connection, run: str, after: int, limit: int) -> list[Record]:
    n = db.execute("SELECT n FROM run WHERE id = ?", (run,)).get
    if n is None:
        return []
    sql = "SELECT place, at, body FROM event WHERE place > ? AND place < ? ORDER BY place LIMIT ?"
    rows = db.execute(sql, (place(n, after), place(n + 1, 0), limit))
    return [Record(run, at - place(n, 0), _moment(when), decode_event(body)) for at, when, body in rows]


LAST_MOMENT = 253402300799.0
"""The end of the year 9999, beyond which there are no dates."""


def _moment(when: object) -> float:
    """A stored time; 0 for what damage has put in its place, so that everything else can be shown."""
    return when if isinstance(when, (int, float)) and 0 <= when <= LAST_MOMENT else 0.0


def about(db: apsw.Connection, tasks: Sequence[str], until: str) -> list[Record]:
    """The records about these tasks, in commit order; only the ranges that their rows name are read."""
    last = db.execute("SELECT n FROM run WHERE id = ?", (until,)).get if until else None
    rows = _by_digest(db, "SELECT n, id, events FROM task WHERE substr(id, 1, 8)", tasks)
    ranges = (one for row in rows for one in parse(row[2]) if last is None or one[0] <= last)
    where = "place BETWEEN ? AND ?"
    names = [task.encode() for task in tasks] if len(tasks) <= FEW else []
    if names:
        where += f" AND ({' OR '.join(['instr(body, ?)'] * len(names))})"
    sql = f"SELECT n, place, at, body FROM event WHERE {where}"
    wanted, run_id, found = set(tasks), _run_ids(db), list[tuple[int, Record]]()
    for run, first, end in merged(ranges):
        for n, at, when, body in db.execute(sql, (place(run, first), place(run, end), *names)):
            event = decode_event(body)
            if not wanted.isdisjoint(touched(event)):
                found.append((n, Record(run_id(run), at - place(run, 0), _moment(when), event)))
    return [record for _, record in sorted(found, key=itemgetter(0))]


def changed_since(db: apsw.Connection, run: str) -> list[str]:
    """The tasks with events in runs after this one and in it or before; one with a single range has not."""
    last = db.execute("SELECT n FROM run WHERE id = ?", (run,)).get or 0
    rows = db.execute("SELECT id, events FROM task INDEXED BY task_ranges WHERE instr(events, ' ')")
    found = ((id, [of for of, _, _ in parse(events)]) for id, events in rows)
    return [id.hex() for id, runs in found if min(runs) <= last < max(runs)]


def unreadable(db: apsw.Connection) -> Iterator[str]:
    """Every event and every row whose bytes are not what was written, one line each."""
    run_id = _run_ids(db)
    ranges = {id.hex(): events for id, events in db.execute("SELECT id, events FROM task")}
    for at, when, body in db.execute("SELECT place, at, body FROM event ORDER BY n"):
        event, run = decode_event(body), at >> SEQ_BITS
        seq = at - place(run, 0)
        if isinstance(event, Unreadable):
            yield f"run {short(run_id(run) or '?')}, event {seq} cannot be read: {event.why}"
        if _moment(when) != when:
            yield f"run {short(run_id(run) or '?')}, event {seq}: {when!r} is no time"
        for task in touched(event):
            if task in ranges and not covers(ranges[task], run, seq):
                yield f"task {short(task)}: its row does not say that event {seq} of run {run} is about it"
    values: tuple[tuple[str, Callable[..., object]], ...] = (
        (f"SELECT {TASK} FROM task", partial(task_value, run_id=run_id)),
        (f"SELECT {CALL} FROM call", partial(call_value, run_id=run_id)),
        (f"SELECT {RUN} FROM run", run_value),
    )
    for sql, value in values:
        for row in db.execute(sql):
            try:
                value(row)
            except StoreDamaged as problem:
                yield str(problem)


def history(db: apsw.Connection) -> Iterator[Record]:
    run_id = _run_ids(db)
    for at, when, body in db.execute("SELECT place, at, body FROM event ORDER BY n"):
        run = at >> SEQ_BITS
        yield Record(run_id(run), at - place(run, 0), _moment(when), decode_event(body))


ACTIVE, WAITING = (1, 4), (2,)
"""The codes of states of tasks that have begun and not ended: those under way, and those that wait."""


def begun(db: apsw.Connection, states: tuple[int, ...]) -> list[Task]:
    """The tasks in these states, of those that have begun and not ended, oldest first."""
    run_id, which = _run_ids(db), ", ".join(map(str, states))
    rows = db.execute(
        f"SELECT {TASK} FROM task INDEXED BY task_active "
        f"WHERE state BETWEEN 1 AND 4 AND state IN ({which}) ORDER BY n"
    )
    return [task_value(row, run_id) for row in rows]


def jobs(db: apsw.Connection, query: JobQuery) -> list[Task]:
    """Jobs, newest or oldest first; the first of each state, or those of a window, are found by an index.

    One statement, and so one moment: a job whose state changes meanwhile is listed once.
    """
    state = None if query.state is None else CODES[query.state]
    if query.since:
        found = (
            "SELECT n AS job FROM task INDEXED BY task_submitted WHERE kind = 'job' AND class = ?1 "
            f"AND submitted >= ?4 {'' if state is None else f'AND state = {state}'}"
        )
    else:
        found = " UNION ALL ".join(  # merged in the order of the index, as far as the limit
            "SELECT n AS job FROM task INDEXED BY task_job WHERE kind = 'job' AND class = ?1 "
            f"AND state = {one}"
            for one in (range(len(STATES)) if state is None else (state,))
        )
    order = "ASC" if query.oldest else "DESC"
    columns, value = (BRIEF, brief_task_value) if query.brief else (TASK, task_value)
    rows = db.execute(
        f"SELECT {columns} FROM ({found} ORDER BY job {order} LIMIT ?2 OFFSET ?3) CROSS JOIN task ON n = job",
        (query.cls, query.limit, query.skip, *([query.since] if query.since else ())),
    ).fetchall()
    rows.sort(key=itemgetter(0), reverse=not query.oldest)
    run_id = _run_ids(db)
    return [value(row, run_id) for row in rows]


def job_counts(db: apsw.Connection, cls: str) -> dict[State, int]:
    found = db.execute(
        "SELECT state, count(*) FROM task INDEXED BY task_job WHERE kind = 'job' AND class = ? "
        "GROUP BY state",
        (cls,),
    )
    return {STATES[state]: n for state, n in found}


def queued(db: apsw.Connection, cls: str) -> list[Task]:
    run_id = _run_ids(db)
    rows = db.execute(f"SELECT {TASK} FROM task WHERE state = 0 AND class = ? ORDER BY n", (cls,))
    return [task_value(row, run_id) for row in rows]


def using(db: apsw.Connection, calls: Sequence[str]) -> list[Task]:
    """No index says who used a call: it would cost every result, and is asked for once in a blue moon. SQLite
    passes over the results as bytes, and only those are read that hold a key."""
    run_id, found = _run_ids(db), dict[str, Task]()
    for start in range(0, len(calls), AT_ONCE):
        some = calls[start : start + AT_ONCE]
        holds = " OR ".join(["instr(result, ?)"] * len(some))
        rows = db.execute(f"SELECT {TASK} FROM task WHERE {holds}", [key.encode() for key in some])
        found.update((task.id, task) for task in (task_value(row, run_id) for row in rows))
    return [task for task in found.values() if not set(calls).isdisjoint(task.result.calls)]


def every_row(db: apsw.Connection) -> Iterator[Task | Call | Run]:
    run_id = _run_ids(db)
    for row in db.execute(f"SELECT {TASK} FROM task"):
        yield task_value(row, run_id)
    for row in db.execute(f"SELECT {CALL} FROM call"):
        yield call_value(row, run_id)
    yield from map(run_value, db.execute(f"SELECT {RUN} FROM run"))


def listing(db: apsw.Connection, query: RunQuery) -> list[Run]:
    """Newest first: in the order in which they began, or by the clock where a time is asked for. Every filter
    has an index that is in this order, so a listing stops at its limit."""
    at, n, table = "planned", "n", "run"
    if query.tag:
        at, n, table = "at", "run", "run_tag CROSS JOIN run ON run.n = run_tag.run"
    asked = query.status or query.prefix or query.name or query.after
    where: dict[str, Any] = {
        "study = ?": query.study,
        "status = ?": query.status,
        "status NOT IN (?, ?)": () if asked else (Status.frozen.value, Status.deleted.value),
        "tag = ?": query.tag,
        "name = ?": query.name,
        "run.n > (SELECT n FROM run WHERE id = ?)": query.after,
        f"{at} >= ?": query.since,
        f"{at} <= ?": query.until,
        "id >= ?": query.prefix,
        "id < ?": query.prefix and query.prefix + "g",
    }
    given = {sql: value for sql, value in where.items() if value}
    clause = " AND ".join(given) or "1"
    order = f"{at} DESC, {n} DESC" if query.since or query.until else f"{n} DESC"
    sql = f"SELECT {RUN} FROM {table} WHERE {clause} ORDER BY {order} LIMIT ?"
    values = (value if isinstance(value, tuple) else (value,) for value in given.values())
    return [_run(row) for row in db.execute(sql, (*chain.from_iterable(values), query.limit))]


def _run(row: tuple[Any, ...]) -> Run:
    """The run, also one whose row is damaged: a listing shows it with the rest."""
    try:
        return run_value(row)
    except StoreDamaged as problem:
        return unreadable_run(row, problem)


def called(db: apsw.Connection, query: CallQuery) -> list[Call]:
    """Calls, last asked first. Found in the index alone; only those that are shown are read."""
    table, clause, values = _called(db, query)
    chosen = f"SELECT n FROM {table} WHERE {clause} ORDER BY asked DESC LIMIT ?"
    run_id = _run_ids(db)
    rows = db.execute(
        f"SELECT {CALL} FROM call WHERE n IN ({chosen}) ORDER BY asked DESC", (*values, query.limit)
    )
    return [_call(row, run_id) for row in rows]


def _call(row: tuple[Any, ...], run_id: Callable[[int], str]) -> Call:
    try:
        return call_value(row, run_id)
    except StoreDamaged as problem:
        return unreadable_call(row, problem)


def tally(db: apsw.Connection, query: CallQuery) -> CallTotals:
    table, clause, values = _called(db, query)
    counts = ", ".join(f"coalesce(sum(state = '{state}'), 0)" for state in CALL_STATES)
    [row] = db.execute(
        f"SELECT coalesce(sum(max(input, 0)), 0), coalesce(sum(max(output, 0)), 0), total(max(cost, 0)), "
        f"coalesce(sum(cost < 0 AND state IN ('answered', 'void')), 0), {counts} "
        f"FROM {table} WHERE {clause}",
        values,
    )
    input, output, cost, unpriced, *found = row
    states = {state: n for state, n in zip(CALL_STATES, found, strict=True) if n}
    return CallTotals(states, input, output, cost, unpriced)


def _called(db: apsw.Connection, query: CallQuery) -> tuple[str, str, list[Any]]:
    """Where to look for calls, on which condition, with which values."""
    where: dict[str, Sequence[Any]] = {"asked IS NOT NULL": ()}
    if query.run:
        n = db.execute("SELECT n FROM run WHERE id = ?", (query.run,)).get or 0
        where["asked BETWEEN ? AND ?"] = place(n, 0), place(n + 1, 0)
    for column, value in (("state", query.state), ("model", query.model)):
        if value:
            where[f"{column} = ?"] = (value,)
    for column, digits in (("task", query.task), ("key", query.prefix)):
        if digits:
            first, last = (bytes.fromhex(digits.ljust(64, filler)) for filler in ("0", "f"))
            where[f"{column} BETWEEN ? AND ?"] = first, last
            if column == "key":
                where["substr(key, 1, 8) BETWEEN ? AND ?"] = first[:8], last[:8]
    table = "call" if query.prefix else "call INDEXED BY call_asked"
    return table, " AND ".join(where), list(chain.from_iterable(where.values()))


def size(db: apsw.Connection, run: str) -> int:
    """The bytes of a run's events."""
    n = db.execute("SELECT n FROM run WHERE id = ?", (run,)).get
    sql = "SELECT coalesce(sum(length(body) + 20), 0) FROM event WHERE place > ? AND place < ?"
    return 0 if n is None else int(db.execute(sql, (place(n, 0), place(n + 1, 0))).get)


NEWEST_EVENT = f"""
SELECT coalesce(max((
    SELECT n FROM event WHERE place >= run.n << {SEQ_BITS} AND place < (run.n + 1) << {SEQ_BITS}
    ORDER BY place DESC LIMIT 1
)), 0) FROM run
"""
"""The last event of each run is found by its place: not all events are read to find the newest."""


def newest_event(db: apsw.Connection) -> int:
    """The number of the last event in the order of commits; 0 if there is none."""
    return int(db.execute(NEWEST_EVENT).get)
