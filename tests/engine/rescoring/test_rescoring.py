"""Many stored outputs are scored in processes, and what is stored is what the engine would have stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from peira import Case, evaluate, exact, generate, run, study
from peira.core.contracts import Evaluator
from peira.engine.rescoring.messages import ScoringItem
from peira.engine.rescoring.pool import ScoringPool, setup_of
from peira.engine.rescoring.source import FEWEST
from peira.evaluators.function import from_function
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

MODULE = """
import os, signal, sys, time

def in_child():
    return "rescoring" in sys.argv[0]

def parity(output, expected):
    if output == 13:
        raise ValueError("not this one")
    return {"even": output % 2 == 0, "near": abs(output - expected) / 10}

def spelled(output):
    return "one " * (output if output % 1000 == 700 else 1)

def even(output):
    return output % 2 == 0

def deadly(output):
    if in_child() and output == 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return output % 2 == 0

def stuck(output):
    if in_child() and output == 5:
        time.sleep(600)
    return output % 2 == 0
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "scoring_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import importlib
    import sys

    sys.modules.pop("scoring_functions", None)
    return importlib.import_module("scoring_functions")


def echo(case: Case) -> object:
    return case.input % 9000 if case.input != 77 else 1 / 0


def large(*evaluators: Any) -> Any:
    """Some outputs are equal, one trial fails, and expected values differ from outputs."""
    cases = [Case(n, expected=n % 3000) for n in range(FEWEST)]
    return study(cases=cases, evaluators=list(evaluators), name="large", policy={"retries": 0})(echo)


def rows(store: Path, kind: str) -> list[Any]:
    """What is stored of the tasks of a kind but times and owners."""
    with sqlite3.connect(store) as db:
        result = "json_remove(CAST(result AS TEXT), '$.took', '$.failure.trace')"
        sql = f"SELECT id, class, state, epoch, attempts, {result} FROM task WHERE kind = ? ORDER BY id"
        return db.execute(sql, (kind,)).fetchall()


def scored_counts(store: Path) -> dict[str, int]:
    """What the newest run of a store counted of its scores, whoever made them."""
    with sqlite3.connect(store) as db:
        [(rest,)] = db.execute("SELECT CAST(rest AS TEXT) FROM run ORDER BY n DESC LIMIT 1")
    return {key: n for key, n in json.loads(rest)["counts"].items() if key.startswith("evaluate.")}


@pytest.mark.timeout(240)
def test_scores_in_bulk_are_those_of_the_engine(tmp_path: Path, functions: Any) -> None:
    bulk, usual = tmp_path / "bulk.db", tmp_path / "usual.db"
    work = large(exact(), functions.parity, functions.spelled)
    generate(work, store=bulk, progress=False)
    scored = evaluate(work, store=bulk, progress=False)
    whole = run(work, store=usual, progress=False)
    assert rows(bulk, "evaluate") == rows(usual, "evaluate")
    assert len(rows(bulk, "evaluate")) > FEWEST
    assert str(scored.table().rows) == str(whole.table().rows)
    assert scored_counts(bulk) == scored_counts(usual)
    assert sum("blob" in row[5] for row in rows(bulk, "evaluate")) == 9  # scores too large for an event
    with sqlite3.connect(bulk) as db:
        claims = "SELECT count(*) FROM event WHERE instr(body, 'tasks.claimed') AND instr(body, 'evaluate')"
        assert db.execute(claims).fetchone()[0] < 50
        listed = "SELECT count(*) FROM scores WHERE run = ?"
        assert db.execute(listed, (scored.run_id,)).fetchone()[0] == 3 * (FEWEST - 1)
    with closing(SqliteStore(bulk)) as store:
        assert verify(store) == []
    again = evaluate(work, store=bulk, progress=False)
    assert again.table().rows == scored.table().rows


@pytest.mark.timeout(240)
def test_a_process_that_is_killed_loses_nothing(tmp_path: Path, functions: Any) -> None:
    store = tmp_path / "s.db"
    work = large(functions.deadly)
    generate(work, store=store, progress=False)
    results = evaluate(work, store=store, progress=False)
    assert results.counts["planned"] == FEWEST
    [row] = results.table().rows
    assert (row["n"], row["failed"]) == (FEWEST - 1, 1)
    assert len(rows(store, "evaluate")) == 9000 - 1 + (FEWEST > 77 + 9000)


@pytest.mark.timeout(240)
def test_a_score_that_a_trial_left_to_the_engine_shares_is_made_once(tmp_path: Path, functions: Any) -> None:
    store = tmp_path / "s.db"
    own = {5: [functions.spelled]}  # the case 9005 has the same output and expected value
    cases = [Case(n, expected=n % 3000, evaluators=own.get(n, [])) for n in range(FEWEST)]
    work = study(cases=cases, evaluators=[functions.even], name="own")(lambda case: case.input % 9000)
    generate(work, store=store, progress=False)
    results = evaluate(work, store=store, progress=False)
    assert results.counts["planned"] == results.counts["reused"] == FEWEST
    assert len(rows(store, "evaluate")) == 9000 + 1
    assert {row[2] for row in rows(store, "evaluate")} == {5}  # succeeded


def pool_of(patience: float, *functions: Callable[..., Any]) -> ScoringPool[list[int]]:
    evaluators: list[Evaluator] = [from_function(one) for one in functions]
    setup = setup_of(evaluators)
    assert setup is not None
    made = partial(map, lambda n: ScoringItem(0, str(n).encode(), False))
    return ScoringPool(setup, "test", lambda batch: list(made(batch)), patience)


@pytest.mark.timeout(60)
def test_a_process_that_does_not_answer_is_given_up(functions: Any) -> None:
    pool = pool_of(1.0, functions.stuck)
    try:
        pool.start(2)
        assert pool.ready()
        batches = [[1, 2], [3, 4, 5], [6], [7]]
        found = {tuple(batch): scores for batch, scores in pool.scored(batches)}
    finally:
        pool.close()
    assert found.keys() == set(map(tuple, batches))
    assert found[3, 4, 5] is None
    assert [one.score for one in found[1, 2] or ()] == [b"false", b"true"]


@pytest.mark.timeout(60)
def test_evaluators_that_another_process_cannot_have_stay_where_they_are(
    tmp_path: Path, functions: Any
) -> None:
    assert setup_of([from_function(lambda output: True)]) is None
    (tmp_path / "scoring_functions.py").write_text(MODULE.replace("output % 2 == 0", "output % 3 == 0"))
    pool = pool_of(1.0, functions.deadly)  # has other code there
    pool.start(1)
    assert not pool.ready()
    assert [*pool.scored([[1]])] == [([1], None)]
