"""The rows of a commit in as few statements as can be.

A statement steps outside the interpreter's lock, and waits to get back in: with busy event loops beside it, a
commit of ten statements took five times as long as the disk and SQLite needed. So the rows of a commit are
inserted into one view of this connection's own, whose triggers put each where it belongs, and that statement
is the transaction. Triggers take their time, too: a large commit is one statement a table, which costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import apsw

from peira.stores.sqlite.rows import CALL, PLAIN, RUN, TASK

Row = tuple[Any, ...]


class Target(NamedTuple):
    """A table, the columns that a row brings, and what becomes of one that is there already."""

    table: str
    columns: str
    conflict: str = ""

    @property
    def width(self) -> int:
        return self.columns.count(",") + 1


BLOBS = Target("blob", "digest, codec, data", "ON CONFLICT DO NOTHING")
RUNS = Target(
    "run",
    RUN,
    "ON CONFLICT(n) DO UPDATE SET status=excluded.status, next_seq=excluded.next_seq, owner=excluded.owner, "
    "incarnation=excluded.incarnation, rest=excluded.rest",
)
TAGS = Target("run_tag", "tag, at, run")
PLAIN_TASKS = Target(
    "task",
    PLAIN,
    "ON CONFLICT(n) DO UPDATE SET state=excluded.state, epoch=excluded.epoch, owner=excluded.owner, "
    "attempts=excluded.attempts, interruptions=NULL, not_before=NULL, run=excluded.run, "
    "result=excluded.result",
)
TASKS = Target(
    "task",
    TASK,
    "ON CONFLICT(n) DO UPDATE SET state=excluded.state, epoch=excluded.epoch, owner=excluded.owner, "
    "attempts=excluded.attempts, interruptions=excluded.interruptions, not_before=excluded.not_before, "
    "run=excluded.run, reused_from=excluded.reused_from, rest=excluded.rest, result=excluded.result",
)
CALLS = Target(
    "call",
    CALL,
    "ON CONFLICT(n) DO UPDATE SET task=excluded.task, state=excluded.state, value=excluded.value, "
    "blob=excluded.blob, rest=excluded.rest, asked=coalesce(excluded.asked, asked), "
    "model=excluded.model, input=excluded.input, output=excluded.output, cost=excluded.cost",
)
EVENTS = Target("event", "place, n, at, body")
TARGETS = (BLOBS, RUNS, TAGS, PLAIN_TASKS, TASKS, CALLS, EVENTS)
NUMBERS = {target: number for number, target in enumerate(TARGETS)}
WIDTH = 1 + max(target.width for target in TARGETS)
SIZES = (8, 32, 128, 448)
"""Rows of a statement; few sizes, and none of more text than a prepared statement is kept for (16 KiB)."""


def prepare(db: apsw.Connection) -> None:
    """Make the view and its triggers; they are this connection's, and gone with it."""
    names = ", ".join(f"NULL AS c{i}" for i in range(WIDTH))
    db.execute(f"PRAGMA temp_store = MEMORY; CREATE TEMP VIEW written AS SELECT {names}")
    for target, number in NUMBERS.items():
        values = ", ".join(f"new.c{i + 1}" for i in range(target.width))
        db.execute(
            f"CREATE TEMP TRIGGER put_{number} INSTEAD OF INSERT ON written WHEN new.c0 = {number} BEGIN "
            f"INSERT INTO {target.table}({target.columns}) VALUES ({values}) {target.conflict}; END"
        )


def write(db: apsw.Connection, rows: Mapping[Target, Sequence[Row]], reach: Callable[[], None]) -> None:
    """Make all rows durable, or none; `reach` is called when only the end of the transaction is left."""
    if sum(map(len, rows.values())) <= SIZES[-1]:
        bound = _together(rows)
        reach()
        db.execute(_mixed(len(bound) // WIDTH), bound)
        return
    # As statements and not as `with db`, which would hold the interpreter's lock through the sync.
    db.execute("BEGIN IMMEDIATE")
    for target, given in rows.items():
        for start in range(0, len(given), SIZES[-1]):
            _insert(db, target, given[start : start + SIZES[-1]])
    reach()
    db.execute("COMMIT")


def _together(rows: Mapping[Target, Sequence[Row]]) -> list[Any]:
    """Rows of all tables, each behind the number of its own and as wide as any, up to one of the sizes."""
    bound: list[Any] = []
    for target, given in rows.items():
        first, rest = (NUMBERS[target],), (None,) * (WIDTH - 1 - target.width)
        for row in given:
            bound += first
            bound += row
            bound += rest
    return bound + [None] * (_size(len(bound) // WIDTH) * WIDTH - len(bound))


def _insert(db: apsw.Connection, target: Target, rows: Sequence[Row]) -> None:
    size = _size(len(rows))
    bound = list(chain.from_iterable(rows))
    bound += [None] * (size * target.width - len(bound))
    db.execute(_alike(target, size), bound)


def _size(n: int) -> int:
    return next(size for size in SIZES if size >= n)


def _places(width: int, size: int) -> str:
    return ",".join([f"({','.join('?' * width)})"] * size)


@cache
def _mixed(size: int) -> str:
    """For up to so many rows of any tables: those that only fill it up are for none."""
    return f"INSERT INTO written VALUES {_places(WIDTH, size)}"


@cache
def _alike(target: Target, size: int) -> str:
    """For up to so many rows of a table: those that only fill it up have no key, and are left out."""
    rows = f"SELECT * FROM (VALUES {_places(target.width, size)}) WHERE column1 IS NOT NULL"
    return f"INSERT INTO {target.table}({target.columns}) {rows} {target.conflict}"
