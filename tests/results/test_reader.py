"""Trials as they are read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import peira
from peira import Case, run, study
from peira.core.log.events import State
from peira.plan.manifest import layout_of, read
from peira.results.reader import ResultReader
from peira.results.snapshot import MANY, as_of, scanned
from peira.results.trials import StoredTrials, TrialResult
from peira.stores.sqlite import SqliteStore


def test_tables_are_the_same_from_brief_and_from_whole_trials(tmp_path: Path) -> None:
    def agent(case: Any, style: str) -> str:
        if case.input == "3" and style == "long":
            raise OSError("not this one")
        return str(case.input) * (2 if style == "long" else 1)

    cases = [Case(str(n), expected=str(n), metadata={"odd": n % 2}) for n in range(12)]
    studied = study(agent=agent, cases=cases, factors={"style": ["short", "long"]}, evaluators=["exact"])
    results = run(studied, store=tmp_path / "s.db", progress=False)
    asked = [(), ("style",), ("case",), ("odd", "style")]
    brief = [str(results.table(*by)) for by in asked]
    assert [*results.trials]  # from here on tables are computed from these
    assert [str(results.table(*by)) for by in asked] == brief


def _graded(output: Any, expected: Any) -> Any:
    number = int(output) if str(output).isdigit() else 0
    if number % 7 == 5:
        raise ValueError("not this one")
    return {"value": number / 10, "kind": "odd" if number % 2 else "even"}


@pytest.mark.parametrize("transform", [None, "last_number"])
def test_what_is_read_in_one_pass_is_what_is_looked_up_one_by_one(
    tmp_path: Path, transform: str | None
) -> None:
    def agent(case: Any, style: str) -> str:
        if case.input == "3" and style == "long":
            raise OSError("not this one")
        return str(case.input) * (2 if style == "long" else 1)

    cases = [Case(str(n), expected=str(n), metadata={"odd": n % 2}) for n in range(12)]
    given = {} if transform is None else {"transform": transform}
    studied = study(
        agent=agent,
        cases=cases,
        factors={"style": ["short", "long"]},
        evaluators=["exact", _graded],
        repeats=2,
        policy={"retries": 0},
        **given,
    )
    first = run(studied, store=tmp_path / "s.db", progress=False, limit=30).run_id
    second = run(studied, store=tmp_path / "s.db", progress=False).run_id
    store = SqliteStore(tmp_path / "s.db")
    for id in (first, second):
        manifest = read(store.find("run", [id])[id].manifest, store.get)
        rows = as_of(store, id)
        for brief in (False, True):
            whole, passed = (
                [*ResultReader(manifest, source, id, brief=brief)] for source in (rows, scanned(rows, MANY))
            )
            assert passed == whole
            assert len(whole) == (30 if id == first else 48)
        layout = layout_of(manifest, store.get)
        assert [*layout.places()] == [*map(layout.place, layout.indexes())]
    store.close()
    _check_means(peira.open(tmp_path / "s.db").results(second))


def _check_means(results: Any) -> None:
    """The means of a table are those of the trials, added up in the simplest way."""
    trials: list[TrialResult] = results.trials
    for row in results.table("style").rows:
        values = [
            float(trial.scores["exact"].value)
            for trial in trials
            if trial.condition["style"] == row["style"]
            and trial.state is State.succeeded
            and trial.scores["exact"].state is State.succeeded
        ]
        if row["score"] == "exact":
            assert row["n"] == len(values)
            assert row["mean"] == sum(values) / len(values)


def test_trials_are_counted_before_they_are_read(tmp_path: Path) -> None:
    cases = [Case(str(n), expected=str(n)) for n in range(7)]
    work = study(cases=cases, evaluators=["exact"])(lambda case: case.input)
    results = run(work, store=tmp_path / "s.db", progress=False)
    trials = results.trials
    assert isinstance(trials, StoredTrials)
    assert (len(trials), len(results), bool(trials), trials.are_read) == (7, 7, True, False)
    assert trials[-1].case_id == [*trials][-1].case_id
    assert trials.are_read
    assert [one.id for one in trials[2:4]] == [one.id for one in [*results][2:4]]
    assert trials == [*trials]
    assert trials + trials == [*trials, *trials]
    assert trials[0] is results.trials[0]
    first = run(work, store=tmp_path / "s.db", progress=False, limit=3)
    assert len(first.trials) == len([*first.trials]) == 3
    assert len(results.where("case != '0'").trials) == len([*results.where("case != '0'")])
