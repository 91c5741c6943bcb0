"""Commits of any size use statements that stay prepared, and calls under way are not read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira.core.contracts import CallWords, Op
from peira.core.ids import digest
from peira.core.log.events import CallRead
from peira.stores.sqlite import SqliteStore
from peira.stores.sqlite.statements import LONGEST, SIZES
from peira.stores.sqlite.table_writer import UNREAD
from peira.testing.stores.actions import accept, claimed, find_call, finished, plan_run
from peira.testing.stores.calls import answered, intended

Executed = list[str]


@pytest.fixture
def store(tmp_path: Path):
    made = SqliteStore(tmp_path / "s.db")
    yield made
    made.close()


@pytest.fixture
def executed(store: SqliteStore) -> Executed:
    """The statements that the writer executes from now on."""
    found: Executed = []
    store._db.exec_trace = lambda _cursor, statement, _bound: not found.append(statement)
    return found


@pytest.mark.parametrize("tasks", [1, *SIZES, 2 * SIZES[-1]])
def test_the_statements_of_a_commit_stay_prepared(store: SqliteStore, executed: Executed, tasks: int) -> None:
    run, names = plan_run(store), [f"task {n}" for n in range(tasks)]
    ops = [Op(run, (claimed(name),)) for name in names] + [Op(run, (finished(name),)) for name in names]
    assert set(store.commit(ops).result()) == {None}
    assert max(map(len, executed)) <= LONGEST
    before = store._db.cache_stats()
    for again in ("a", "b", "c"):
        ops = [Op(run, (claimed(f"{again} {name}"),)) for name in names]
        assert set(store.commit(ops).result()) == {None}
    after = store._db.cache_stats()
    assert after["too_big"] == before["too_big"]


def test_a_call_is_not_read_back_when_what_its_answer_says_is_noted_later(
    store: SqliteStore, executed: Executed
) -> None:
    run = plan_run(store)
    accept(store, run, claimed("t"), intended("t", "first"), answered("t", "first"))
    for n in range(3):
        accept(store, run, intended("t", f"other {n}"))
    executed.clear()
    accept(store, run, CallRead(digest("t"), digest("first"), input=7, output=2))
    assert not [one for one in executed if one.startswith("SELECT")]
    assert (find_call(store, "first").input, find_call(store, "first").output) == (7, 2)


def test_of_many_answers_that_say_nothing_the_last_ones_stay_at_hand(
    store: SqliteStore, executed: Executed
) -> None:
    run, names = plan_run(store), [f"call {n}" for n in range(UNREAD + 1)]
    accept(store, run, claimed("t"))
    ops = [Op(run, (event("t", name),)) for name in names for event in (intended, answered)]
    assert set(store.commit(ops).result()) == {None}
    for name, known in ((names[-1], True), (names[0], False)):
        executed.clear()
        accept(store, run, CallRead(digest("t"), digest(name), input=1))
        assert (not [one for one in executed if one.startswith("SELECT")]) is known
        assert find_call(store, name).input == 1


def test_the_words_of_more_calls_than_fit_a_statement_are_listed(store: SqliteStore) -> None:
    run, names = plan_run(store), [f"call {n}" for n in range(SIZES[-1] + 2)]
    accept(store, run, claimed("t"))
    ops = [Op(run, (event("t", name),)) for name in names for event in (intended, answered)]
    assert set(store.commit(ops).result()) == {None}
    unknown = CallWords(digest("of no call"), "?", "!")
    store.list_calls([*(CallWords(digest(one), f"say {one}", one) for one in names), unknown]).result()
    assert store.unlisted_calls() == []
    found = store._reader.execute("SELECT call, prompt, reply FROM calls").fetchall()
    assert sorted(found) == sorted((digest(one), f"say {one}", one) for one in names)
