"""One pass over all tasks of a store says what looking them up says."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from peira import Case, exact, run, study
from peira.core.contracts import Op, TaskOutcome
from peira.core.log.events import (
    Result,
    RunPlanned,
    RunStarted,
    State,
    TaskFinished,
    TasksClaimed,
    TasksInterrupted,
    TaskWaiting,
)
from peira.results.snapshot import MANY, ScannedRows, Snapshot, as_of, outcome_of, scanned
from peira.stores.sqlite import SqliteStore


def echo(case: Case) -> object:
    if case.input == "3":
        raise ValueError("three")
    return case.input


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "s.db")


def looked_up(store: SqliteStore, ids: list[str]) -> list[TaskOutcome | None]:
    rows = store.find("task", ids)
    return [outcome_of(rows.get(id)) for id in ids]


def ids_of(store: SqliteStore) -> list[str]:
    return [row[0].hex() for row in store._reader.execute("SELECT id FROM task ORDER BY random()")]


def test_tasks_of_runs_are_found_alike(tmp_path: Path) -> None:
    cases = [Case(str(n), expected=str(n)) for n in range(300)]
    policy = {"retries": 1, "backoff": 0.0}
    run(
        study(cases=cases, evaluators=[exact()], policy=policy)(echo), store=tmp_path / "s.db", progress=False
    )
    store = SqliteStore(tmp_path / "s.db")
    ids = ids_of(store)
    assert len(ids) == 599
    scan = store.scan_tasks(MANY)
    assert scan is not None
    assert scan.find([*ids, "ab" * 32]) == store.find("task", ids)
    assert scan.find(["ab" * 32]) == {}
    assert scan.outcomes([*ids, "ab" * 32]) == [*looked_up(store, ids), None]
    assert scan.outcomes([]) == []
    assert scan.states([*ids, "ab" * 32]) == [*(row and row.state for row in looked_up(store, ids)), None]
    assert scan.states([]) == []
    assert store.scan_tasks(1) is None
    store.close()


def test_what_is_out_of_the_ordinary_and_ids_that_begin_alike_are_found_alike(store: SqliteStore) -> None:
    alike = ["aa" * 8 + end * 24 for end in ("00", "11", "22")]
    odd = ["bb" * 32, "cc" * 32]
    store.commit([Op("r", (RunPlanned("m", "s", 5), RunStarted("1", 1)))]).result()
    store.commit([Op("r", (TasksClaimed("generate", "generate", "1", (*alike[:2], *odd)),))]).result()
    store.commit([Op("r", (TaskFinished(alike[1], 1, State.succeeded, Result(0.5)),))]).result()
    store.commit([Op("r", (TasksInterrupted((odd[0],)),))]).result()
    store.commit([Op("r", (TaskWaiting(odd[1], 1, awaits=(alike[0],)),))]).result()
    scan = store.scan_tasks(MANY)
    assert scan is not None
    found = scan.find([*alike, *odd])
    assert found == store.find("task", [*alike, *odd])
    assert found.keys() == {*alike[:2], *odd}
    assert scan.outcomes([*alike, *odd]) == looked_up(store, [*alike, *odd])
    states = [row and row.state for row in looked_up(store, [*alike, *odd])]
    assert scan.states([*alike, *odd]) == states
    assert states[:3] == [State.running, State.succeeded, None]
    assert found[odd[0]].interruptions == 1
    store.close()


def test_a_run_is_read_from_a_pass_as_it_was_when_it_ended(tmp_path: Path) -> None:
    def again(case: Case) -> object:
        return case.input

    cases = [Case(str(n), expected=str(n)) for n in range(20)]
    work = study(cases=cases, evaluators=[exact()], name="a")(again)
    first = run(work, store=tmp_path / "s.db", progress=False, limit=10).run_id
    store = SqliteStore(tmp_path / "s.db")
    assert isinstance(scanned(as_of(store, first), MANY), ScannedRows)
    assert scanned(as_of(store, first), 10) is store
    ids = ids_of(store)
    store.close()
    run(work, store=tmp_path / "s.db", progress=False)
    store = SqliteStore(tmp_path / "s.db")
    rows = as_of(store, first)
    assert isinstance(rows, Snapshot)
    everything = ids_of(store)
    assert len(everything) == 2 * len(ids) == 40
    assert scanned(rows, MANY).find("task", everything) == rows.find("task", everything)
    assert scanned(rows, MANY).find("task", everything).keys() == set(ids)
    assert scanned(rows, MANY).outcomes(everything) == rows.outcomes(everything)
    assert sum(one is not None for one in rows.outcomes(everything)) == len(ids)
    store.close()


def test_an_empty_store_is_not_scanned(store: SqliteStore) -> None:
    assert store.scan_tasks(MANY) is None
    store.close()


def test_a_result_that_is_damaged_or_missing_does_not_change_what_is_read_of_the_others(
    store: SqliteStore,
) -> None:
    ids = [f"{n:02x}" * 32 for n in range(1, 7)]
    store.commit([Op("r", (RunPlanned("m", "s", 6), RunStarted("1", 1)))]).result()
    store.commit([Op("r", (TasksClaimed("generate", "generate", "1", tuple(ids)),))]).result()
    ends = tuple(TaskFinished(id, 1, State.succeeded, Result(float(n))) for n, id in enumerate(ids[:5]))
    store.commit([Op("r", ends)]).result()
    store._writer._db.execute("UPDATE task SET result = ? WHERE n = 3", (b'{"took": "long"}',))
    scan = store.scan_tasks(MANY)
    assert scan is not None
    found = scan.outcomes(ids)
    assert found == looked_up(store, ids)
    states = [one.state for one in found if one is not None]
    assert states == [*[State.succeeded] * 2, State.failed, *[State.succeeded] * 2, State.running]
    store.close()


def test_results_that_are_too_long_to_be_joined_are_read_a_few_at_a_time(store: SqliteStore) -> None:
    ids = [f"{n:02x}" * 32 for n in range(1, 41)]
    store.commit([Op("r", (RunPlanned("m", "s", 40), RunStarted("1", 1)))]).result()
    store.commit([Op("r", (TasksClaimed("generate", "generate", "1", tuple(ids)),))]).result()
    ends = tuple(
        TaskFinished(id, 1, State.succeeded, Result(1.0, metrics={"x" * 50 * n: 1.0}))
        for n, id in enumerate(ids)
    )
    store.commit([Op("r", ends)]).result()
    most = store._reader.limit(apsw.SQLITE_LIMIT_LENGTH, 5_000)
    scan = store.scan_tasks(MANY)
    store._reader.limit(apsw.SQLITE_LIMIT_LENGTH, most)
    assert scan is not None
    assert scan.outcomes(ids) == looked_up(store, ids)
    store.close()
