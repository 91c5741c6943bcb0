"""Listing runs costs what is listed, however many there are: counted in steps of SQLite, not in time."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from peira.core.contracts import RunQuery
from peira.core.ids import compose
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore, reads
from peira.stores.sqlite.schema import migrate
from peira.testing.fakes import ManualClock
from peira.testing.stores.actions import plan_only

FEW, MANY = 1_000, 100_000
FIELDS = "n, id, manifest, study, trials, status, planned, next_seq, owner, incarnation, rest"


def filled(path: Path, runs: int) -> apsw.Connection:
    """A store of so many runs, a second apart. The oldest three and the newest three are special, and a few
    old ones of a common study have a rare status."""
    db = apsw.Connection(str(path))
    migrate(db)
    special = {1, 2, 3, runs - 2, runs - 1, runs}
    mixed = {57, 107, 157}

    def row(n: int) -> tuple[object, ...]:
        mark = "rare" if n in special else f"common {n % 50}"
        status = "running" if n in special else "interrupted" if n in mixed else "completed"
        return (
            n,
            compose("run", n),
            "m" * 64,
            mark,
            10,
            status,
            float(n),
            7,
            "owner",
            1,
            b'{"reason":"%d"}' % n,
        )

    with db:
        marks = ",".join("?" * 11)
        db.executemany(f"INSERT INTO run({FIELDS}) VALUES({marks})", map(row, range(1, runs + 1)))
        db.executemany(
            "INSERT INTO run_tag(tag, at, run) VALUES(?, ?, ?)",
            (("rare" if n in special else f"common {n % 50}", float(n), n) for n in range(1, runs + 1)),
        )
    return db


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, apsw.Connection]:
    folder = tmp_path_factory.mktemp("listing")
    return {runs: filled(folder / f"{runs}.db", runs) for runs in (FEW, MANY)}


def steps(db: apsw.Connection, query: RunQuery) -> tuple[int, list[str]]:
    """How many steps the listing took, and what it listed."""
    taken = 0

    def count(event: dict) -> None:
        nonlocal taken
        taken += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    try:
        listed = [run.id for run in reads.listing(db, query)]
    finally:
        db.trace_v2(0, None)
    return taken, listed


QUERIES = {
    "newest": lambda runs: RunQuery(limit=20),
    "study": lambda runs: RunQuery(study="common 7", limit=20),
    "rare study": lambda runs: RunQuery(study="rare"),
    "unknown study": lambda runs: RunQuery(study="nobody's"),
    "status": lambda runs: RunQuery(status="completed", limit=20),
    "rare status": lambda runs: RunQuery(status="running"),
    "tag": lambda runs: RunQuery(tag="common 7", limit=20),
    "rare tag": lambda runs: RunQuery(tag="rare"),
    "since": lambda runs: RunQuery(since=float(runs - 9)),
    "until": lambda runs: RunQuery(until=10.0),
    "between": lambda runs: RunQuery(since=runs / 2, until=runs / 2 + 9),
    "prefix": lambda runs: RunQuery(prefix=compose("run", runs // 2)[:12]),
    "common study and rare status": lambda runs: RunQuery(study="common 7", status="interrupted"),
    "rare study and common status": lambda runs: RunQuery(study="rare", status="completed"),
    "tag and time": lambda runs: RunQuery(tag="common 7", until=600.0),
    "study and time": lambda runs: RunQuery(study="common 7", until=600.0),
    "rare status and study": lambda runs: RunQuery(status="running", study="rare"),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_listing_of_many_costs_what_one_of_few_does(stores, query) -> None:
    few, listed = steps(stores[FEW], query(FEW))
    many, also = steps(stores[MANY], query(MANY))
    assert len(also) == len(listed)
    assert many <= 4 * few, f"{few} steps with {FEW} runs, {many} with {MANY}"


def test_steps_are_counted(stores) -> None:
    """A listing that reads everything would be seen."""
    costs = [steps(db, RunQuery(limit=1_000_000))[0] for db in stores.values()]
    assert costs[1] > 50 * costs[0]


@pytest.mark.parametrize("make", [SqliteStore, lambda path, clock: MemoryStore(clock=clock)])
def test_the_newest_run_began_last_whatever_the_clock_said(tmp_path: Path, make) -> None:
    clock = ManualClock()
    store = make(tmp_path / "store.db", clock=clock)
    first = plan_only(store, study="a", tags=("nightly",))
    clock.advance(-3600)
    second = plan_only(store, study="a", tags=("nightly",))
    for query in (RunQuery(), RunQuery(study="a"), RunQuery(status="planned"), RunQuery(tag="nightly")):
        assert [run.id for run in store.runs(query)] == [second, first]
    store.close()
