"""Listing calls: it reads no call that it does not show, and stores of before there were listings have it."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import pytest

from peira.core.contracts import CallQuery, Op
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.errors import StoreInUse
from peira.stores.sqlite import SqliteStore, reads
from peira.stores.sqlite.lock import OwnerLock
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, find_call, plan_run, recorded
from peira.testing.stores.calls import answered, intended, lost

from .former_schemas import turn_back

MANY = 3_000


def asked(path: Path, calls: int, answer: bytes = b'"yes"') -> list[str]:
    """A closed store of two runs with so many calls each; their keys in the order of asking. In either run
    the third is in doubt, and the fifth is another model's."""
    store, keys = SqliteStore(path), []
    for n in range(2):
        run = plan_run(store)
        accept(store, run, claimed(f"task {n}"), recorded(f"task {n}", f"step {n}"))
        names = [f"{n} {i}" for i in range(calls)]
        ops = []
        for i, name in enumerate(names):
            model = "m:rare" if i == 5 else "m:a"
            end = lost(f"task {n}", name, doubt=True) if i == 3 else answered(f"task {n}", name)
            if i != 3:
                end = msgspec.structs.replace(end, answer=msgspec.Raw(answer))
            ops += [Op(run, (intended(f"task {n}", name, model=model),)), Op(run, (end,))]
        assert set(store.commit(ops).result()) == {None}
        keys += map(digest, names)
    store.close()
    return keys


@pytest.mark.parametrize("readonly", [False, True])
def test_a_store_of_before_opens_and_its_calls_are_listed(tmp_path: Path, readonly: bool) -> None:
    keys = asked(tmp_path / "s.db", 20)
    turn_back(tmp_path / "s.db", 1)
    store = SqliteStore(tmp_path / "s.db", readonly=readonly)
    assert [call.key for call in store.calls(CallQuery())] == keys[::-1]
    [call] = store.calls(CallQuery(model="m:rare", run=find_call(store, "0 5").run))
    assert (call.key, call.state, call.sends, call.cost) == (digest("0 5"), "answered", 1, -1.0)
    assert find_call(store, "step 1").state == "recorded"
    assert store.tally(CallQuery()).states == {"answered": 38, "in_doubt": 2}
    assert verify(store) == []
    store.close()


def test_a_store_of_before_that_is_in_use_is_let_alone(tmp_path: Path) -> None:
    asked(tmp_path / "s.db", 20)
    turn_back(tmp_path / "s.db", 1)
    before = (tmp_path / "s.db").read_bytes()
    lock = OwnerLock(tmp_path / "s.db.lock")
    with pytest.raises(StoreInUse):
        SqliteStore(tmp_path / "s.db", readonly=True)
    lock.free()
    assert (tmp_path / "s.db").read_bytes() == before


def test_the_tokens_of_a_call_that_is_asked_again_are_not_those_of_before(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    run = plan_run(store)
    accept(store, run, claimed("t"), intended("t", "c"), answered("t", "c", input=5, cost=0.5))
    accept(store, run, ev.CallSettled(digest("t"), digest("c"), "discard"))
    assert store.tally(CallQuery()).cost == 0.5
    accept(store, run, intended("t", "c", send=2))
    assert (store.tally(CallQuery()).cost, store.tally(CallQuery()).input) == (0.0, 0)
    assert verify(store) == []
    store.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "large.db"
    asked(path, MANY, answer=b'"' + b"x" * 1500 + b'"')
    return path


def pages(path: Path, query: CallQuery, tally: bool = False) -> tuple[int, int]:
    """How many pages of the file are read for it, and how many calls are listed."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = [reads.tally(db, query)] if tally else reads.called(db, query)
    missed = db.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    db.close()
    return missed, len(found)


QUERIES = {
    "newest": (CallQuery(limit=20), 20),
    "state": (CallQuery(state="in_doubt"), 2),
    "model": (CallQuery(model="m:rare"), 2),
    "task": (CallQuery(task=digest("task 0")[:8], limit=20), 20),
    "key": (CallQuery(prefix=digest("0 7")[:12]), 1),
}


@pytest.mark.parametrize(("query", "many"), QUERIES.values(), ids=QUERIES.keys())
def test_a_listing_reads_no_call_that_it_does_not_show(large: Path, query: CallQuery, many: int) -> None:
    read, listed = pages(large, query)
    assert listed == many
    assert read < MANY / 8
    assert pages(large, query, tally=True)[0] < MANY / 8


def test_pages_are_counted(large: Path) -> None:
    """A listing that reads every call would be seen."""
    assert pages(large, CallQuery(limit=MANY))[0] > MANY / 2
