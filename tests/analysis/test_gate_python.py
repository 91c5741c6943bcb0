"""A gate in Python says what the command says, about all trials or about a part of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Case, Study, exact, run
from peira.analysis.results import Results
from peira.errors import Invalid


def agent(case: Any, model: str) -> str:
    return "yes" if model == "good" or case.metadata["src"] == "easy" else "no"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    cases = [
        Case(str(n), "yes", metadata={"src": "easy" if n % 2 else "hard"}, slice="odd" if n % 2 else "even")
        for n in range(40)
    ]
    study = Study(
        name="s", cases=cases, factors={"model": ["good", "bad"]}, agent=agent, evaluators=[exact()]
    )
    return run(study, store=tmp_path_factory.mktemp("gate") / "s.db", progress=False)


def test_a_gate_asks_about_a_condition_a_slice_or_metadata(results: Results) -> None:
    assert not results.gate(min={"exact": 0.8}).met
    assert results.gate(min={"exact": 0.8}, where="model == 'good'").met
    assert results.gate(min={"exact": 0.8}, where="slice == 'odd'").met
    found = results.gate(min={"exact": 0.8}, where="model == 'bad' and src == 'hard'")
    assert not found.met
    assert "where model == 'bad' and src == 'hard'" in str(found)
    assert "where model" in found.junit("s")


def test_the_other_run_is_restricted_too(results: Results) -> None:
    good = results.where("model == 'good'")
    assert not results.gate(no_worse_than=[(good, "exact", 0.01)]).met
    assert results.gate(no_worse_than=[(good, "exact", 0.01)], where="model == 'good'").met
    assert results.gate(max={"took": 60.0}).met


def test_a_part_of_results_is_results(results: Results) -> None:
    part = results.where("metadata.src == 'easy' and repeat == 0")
    assert len(part) == 40
    assert "only where metadata.src == 'easy' and repeat == 0" in part.notes
    assert [row["n"] for row in part.table().rows] == [20, 20]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "name at least one demand"),
        ({"min": {"exact": 0.5}, "where": "modle == 1"}, "there is no 'modle'; did you mean 'model'"),
        ({"min": {"exact": 0.5}, "where": "model =="}, "where: not an expression"),
        ({"min": {"exact": 0.5}, "level": 0.3}, "level: must lie between 0.5 and 1"),
    ],
)
def test_what_is_wrong_is_said(
    results: Results, options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(Invalid, match=problem):
        results.gate(**options)
