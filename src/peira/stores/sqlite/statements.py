"""Writing the rows of a commit in as few SQL statements as possible.

A statement releases the interpreter lock and waits to get it back: next to busy event loops, a commit of ten
statements took five times as long as the disk and SQLite needed. So the rows of a commit are inserted into
one temporary view, whose triggers put each into its table, and that statement is the transaction. Triggers
have a cost, too: for a large commit, one statement per table is faster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import apsw

from peira.stores.rows import CALL, PLAIN, RUN, SEQ_BITS, TASK

Row = tuple[Any, ...]


OWNER = -1
"""The target number of the first row of every statement, which carries the writer's incarnation."""
TAKEN = "another process has taken the store over"


class UpsertTarget(NamedTuple):
    """A table, the columns of its rows, and what happens if a row exists already."""

    table: str
    columns: str
    conflict: str = ""

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.columns.count(",") + 1


def _same(key: str, column: str) -> str:
    """SQL for the new value of a column, or NULL if the row number belongs to another key.

    The column is NOT NULL, so that the statement, and with it the transaction, fails.
    """
    return f"CASE WHEN {key} = excluded.{key} THEN excluded.{column} END"


_ASKED = (
    f"CASE WHEN excluded.asked & {2**SEQ_BITS - 1} = 0 "
    f"AND asked >> {SEQ_BITS} = excluded.asked >> {SEQ_BITS} THEN asked "
    "ELSE coalesce(excluded.asked, asked) END"
)
"""SQL for where a call was asked: what is known of its run stays where the new row does not say the event."""
BLOBS = UpsertTarget("blob", "digest, codec, data", "ON CONFLICT DO NOTHING")
RUNS = UpsertTarget(
    "run",
    RUN,
    f"ON CONFLICT(n) DO UPDATE SET status={_same('id', 'status')}, next_seq=excluded.next_seq, "
    "owner=excluded.owner, incarnation=excluded.incarnation, rest=excluded.rest",
)
TAGS = UpsertTarget("run_tag", "tag, at, run")
PLAIN_TASKS = UpsertTarget(
    "task",
    PLAIN,
    f"ON CONFLICT(n) DO UPDATE SET state={_same('id', 'state')}, epoch=excluded.epoch, owner=excluded.owner, "
    "attempts=excluded.attempts, interruptions=NULL, not_before=NULL, run=excluded.run, "
    "reused_from=NULL, rest=NULL, result=excluded.result, events=excluded.events",
)
TASKS = UpsertTarget(  # when a job was submitted never changes
    "task",
    f"{TASK}, submitted",
    f"ON CONFLICT(n) DO UPDATE SET state={_same('id', 'state')}, epoch=excluded.epoch, owner=excluded.owner, "
    "attempts=excluded.attempts, interruptions=excluded.interruptions, not_before=excluded.not_before, "
    "run=excluded.run, reused_from=excluded.reused_from, rest=excluded.rest, result=excluded.result, "
    "events=excluded.events",
)
CALLS = UpsertTarget(
    "call",
    CALL,
    f"ON CONFLICT(n) DO UPDATE SET task=excluded.task, state={_same('key', 'state')}, value=excluded.value, "
    f"blob=excluded.blob, rest=excluded.rest, asked={_ASKED}, "
    "model=excluded.model, input=excluded.input, output=excluded.output, cost=excluded.cost",
)
EVENTS = UpsertTarget("event", "place, n, at, body")
TARGETS = (BLOBS, RUNS, TAGS, PLAIN_TASKS, TASKS, CALLS, EVENTS)
NUMBERS = {target: number for number, target in enumerate(TARGETS)}
WIDTH = 1 + max(target.width for target in TARGETS)
SIZES = (8, 16, 32, 64, 96, 192, 384)
"""Numbers of rows of a statement: few, and within `LONGEST` for every table, so that statements stay
prepared. Rows that only fill a statement up cost nearly as much as others."""
LONGEST = 16 * 1024
"""Bytes of a statement that stays prepared; apsw parses a longer one each time."""
MIXED = 192
"""Rows of a commit, with the owner's, from which on there is one statement per table."""


def prepare(db: apsw.Connection) -> None:
    """Create the temporary view and its triggers, which exist for this connection only."""
    names = ", ".join(f"NULL AS c{i}" for i in range(WIDTH))
    db.execute(f"PRAGMA temp_store = MEMORY; CREATE TEMP VIEW written AS SELECT {names}")
    db.execute(
        f"CREATE TEMP TRIGGER check_owner INSTEAD OF INSERT ON written WHEN new.c0 = {OWNER} BEGIN "
        f"SELECT RAISE(ABORT, '{TAKEN}') FROM meta WHERE key = 'incarnation' AND value IS NOT new.c1; END"
    )
    for target, number in NUMBERS.items():
        values = ", ".join(f"new.c{i + 1}" for i in range(target.width))
        db.execute(
            f"CREATE TEMP TRIGGER put_{number} INSTEAD OF INSERT ON written WHEN new.c0 = {number} BEGIN "
            f"INSERT INTO {target.table}({target.columns}) VALUES ({values}) {target.conflict}; END"
        )


def write(
    db: apsw.Connection,
    incarnation: int,
    rows: Mapping[UpsertTarget, Sequence[Row]],
    reach: Callable[[], None],
) -> None:
    """Make all rows durable, or none; `reach` is called just before the transaction is completed.

    Nothing is written if the store has another owner than the one of this incarnation: the statement fails.
    """
    if sum(map(len, rows.values())) < MIXED:
        bound = _bind_mixed(incarnation, rows)
        reach()
        db.execute(_insert_mixed(len(bound) // WIDTH), bound)
        return
    # Not `with db`, which would hold the interpreter lock during the sync.
    db.execute("BEGIN IMMEDIATE")
    db.execute(_insert_mixed(SIZES[0]), _bind_mixed(incarnation, {}))
    for target, given in rows.items():
        insert(db, target, given)
    reach()
    db.execute("COMMIT")


def insert(db: apsw.Connection, target: UpsertTarget, rows: Sequence[Row]) -> None:
    """Insert rows into one table, many with each statement. Called within a transaction."""
    width = target.width
    for start in range(0, len(rows), SIZES[-1]):
        some = rows[start : start + SIZES[-1]]
        size = SIZES[bisect_left(SIZES, len(some))]
        bound = list(chain.from_iterable(some))
        bound += [None] * (size * width - len(bound))
        db.execute(_insert_into(target, size), bound)


def _bind_mixed(incarnation: int, rows: Mapping[UpsertTarget, Sequence[Row]]) -> list[Any]:
    """The values of one mixed statement: the owner's row, then the rows of all tables, padded.

    Each row starts with the number of its target, and is padded to the common width.
    """
    bound: list[Any] = [OWNER, incarnation, *[None] * (WIDTH - 2)]
    for target, given in rows.items():
        first, rest = (NUMBERS[target],), (None,) * (WIDTH - 1 - target.width)
        for row in given:
            bound += first
            bound += row
            bound += rest
    size = SIZES[bisect_left(SIZES, len(bound) // WIDTH)]
    return bound + [None] * (size * WIDTH - len(bound))


def _placeholders(width: int, size: int) -> str:
    """The SQL placeholders for this many rows."""
    return ",".join([f"({','.join('?' * width)})"] * size)


@cache
def _insert_mixed(size: int) -> str:
    """The statement for this many rows of any tables; padding rows match no trigger."""
    return f"INSERT INTO written VALUES {_placeholders(WIDTH, size)}"


@cache
def _insert_into(target: UpsertTarget, size: int) -> str:
    """The statement for this many rows of one table; padding rows have no key and are left out."""
    rows = f"SELECT * FROM (VALUES {_placeholders(target.width, size)}) WHERE column1 IS NOT NULL"
    return f"INSERT INTO {target.table}({target.columns}) {rows} {target.conflict}"
