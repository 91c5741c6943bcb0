"""Ids that have no row are known without a query, and none that has one is ever taken for absent."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import apsw

from peira.core.contracts import Op
from peira.core.log.events import NOTHING, Result, RunPlanned, RunStarted, State, TaskFinished, TasksClaimed
from peira.errors import Fenced
from peira.stores.sqlite.digest_filter import DIGITS, DigestFilter
from peira.stores.sqlite.store import SqliteStore


def ids(n: int) -> list[str]:
    return [sha256(str(i).encode()).hexdigest() for i in range(n)]


def finish(store: SqliteStore, run: str, tasks: list[str]) -> None:
    claim = Op(run, (TasksClaimed("generate", "generate", "me", tuple(tasks)),))
    ends = [Op(run, (TaskFinished(task, 1, State.succeeded, Result(0.0, NOTHING)),)) for task in tasks]
    planned = Op(run, (RunPlanned("m", "s", len(tasks)), RunStarted("me", 1)))
    assert store.commit([planned, claim, *ends]).result() == [None] * (2 + len(ends))


def empty_table() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE task (n INTEGER PRIMARY KEY, id BLOB)")
    return db


def test_ended_tasks_are_found_by_all_who_ask(tmp_path: Path) -> None:
    tasks, others = ids(400)[:200], ids(400)[200:]
    store = SqliteStore(tmp_path / "store.db")
    try:
        finish(store, "r1", tasks)
        assert store.find("task", [*others, *tasks]).keys() == set(tasks)
    finally:
        store.close()
    store = SqliteStore(tmp_path / "store.db")  # the marks of rows that were there before
    try:
        assert store.find("task", [*others, *tasks]).keys() == set(tasks)
        assert store.find("task", others) == {}
        again = Op("r1", (TasksClaimed("generate", "generate", "me", tuple(tasks[:1])),))
        [refusal] = store.commit([again]).result()
        assert isinstance(refusal, Fenced)  # the writer finds its row, too
        finish(store, "r2", others)
        assert store.find("task", [*others, *tasks]).keys() == {*others, *tasks}
    finally:
        store.close()


def test_ids_that_share_their_bits_are_told_apart(tmp_path: Path) -> None:
    first, other = ids(2)
    same_bits = first[:DIGITS] + "f" * (64 - DIGITS)
    one_bit = first[: DIGITS // 2] + other[DIGITS // 2 :]
    store = SqliteStore(tmp_path / "store.db")
    try:
        finish(store, "r1", [first])
        assert store.find("task", [first, same_bits, one_bit, other]).keys() == {first}
        finish(store, "r2", [same_bits, one_bit])
        assert store.find("task", [first, same_bits, one_bit, other]).keys() == {first, same_bits, one_bit}
    finally:
        store.close()


def test_marks_stay_when_they_are_shared() -> None:
    held, absent = ids(4000)[:2000], ids(4000)[2000:]
    marks = DigestFilter.of_table(empty_table(), "task", "id")
    for id in held[:1000]:
        marks.mark(id)
    file = marks.share()
    try:
        theirs = DigestFilter.of_file(file)
    finally:
        os.close(file)
    for id in held[1000:]:
        theirs.mark(id)
    for one in (marks, theirs):
        assert one.possible(held) == held
        assert len(one.possible(absent)) < 10


def test_a_table_of_many_rows_is_not_read_for_its_marks() -> None:
    db = empty_table()
    held, absent = ids(20)[:10], ids(20)[10:]
    db.executemany("INSERT INTO task(id) VALUES (?)", [(bytes.fromhex(id),) for id in held])
    marks, unread = DigestFilter.of_table(db, "task", "id"), DigestFilter.of_table(db, "task", "id", most=10)
    assert marks.possible([*held, *absent]) == [*held, *absent]  # nothing was read yet
    for one in (marks, unread):
        one.mark(absent[0])
    assert marks.possible([*held, *absent]) == [*held, absent[0]]
    assert unread.possible([*held, *absent]) == [*held, *absent]
