"""The record of one task is found by its row, whatever else the log holds."""

from __future__ import annotations

from pathlib import Path

import apsw
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Op
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.state import touched
from peira.stores.event_ranges import GAP, MOST, covers, extended, merged, parse, text
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, finished, plan_run

PLACES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20 * GAP)), max_size=3 * MOST)


@given(PLACES)
def test_every_event_is_in_the_ranges(places: list[tuple[int, int]]) -> None:
    ranges: tuple[tuple[int, int, int], ...] = ()
    for run, seq in places:
        ranges = extended(ranges, run, seq)
    assert len(ranges) <= MOST
    assert parse(text(ranges)) == ranges
    joined = text(list(merged(ranges)))
    assert all(covers(text(ranges), run, seq) and covers(joined, run, seq) for run, seq in places)
    assert {run for run, _, _ in ranges} == {run for run, _ in places}


@given(st.lists(st.integers(1, GAP), max_size=50))
def test_events_that_are_near_each_other_are_one_range(steps: list[int]) -> None:
    ranges = extended((), 1, 1)
    for step in steps:
        ranges = extended(ranges, 1, ranges[0][2] + step)
    assert ranges == ((1, 1, 1 + sum(steps)),)


def test_a_long_wait_makes_no_long_range() -> None:
    assert extended(extended((), 1, 5), 1, 6 + GAP) == ((1, 6 + GAP, 6 + GAP), (1, 5, 5))


def steps_of(store: SqliteStore, task: str) -> int:
    """How much SQLite does, in its own steps, to find the records about a task."""
    done: list[None] = []

    def count() -> bool:
        done.append(None)
        return False

    store._reader.set_progress_handler(count, 1)
    found = store.about([task])
    store._reader.set_progress_handler(None)
    assert [task in touched(record.event) for record in found] == [True, True]
    return len(done)


def test_the_record_of_a_task_costs_the_same_in_a_larger_run(tmp_path: Path) -> None:
    """It was looked for in every event of the store."""
    store = SqliteStore(tmp_path / "s.db")
    run, cost = plan_run(store), []
    for many in (2 * GAP, 10 * GAP):
        names = [f"{many} {n}" for n in range(many)]
        store.commit([Op(run, (claimed(name), finished(name))) for name in names]).result()
        cost.append(steps_of(store, digest(names[many // 2])))
    store.close()
    assert 0 < cost[1] <= 1.5 * cost[0]


def test_verify_says_where_a_row_does_not_know_its_events(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    run = plan_run(store)
    accept(store, run, claimed("a"), ev.RunNoted("between"), finished("a"))
    store.close()
    for wrong in ("1:3-4", "1:3-three", "", None):
        db = apsw.Connection(str(tmp_path / "s.db"))
        db.execute("UPDATE task SET events = ?", (wrong,))
        db.close()
        store = SqliteStore(tmp_path / "s.db", readonly=True)
        assert any("does not say that event 5 of run 1 is about it" in line for line in verify(store))
        store.close()
