"""Judges in runs: through the ledger, scored again exactly where something changed, and never in vain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira import Case, evaluate, judge, pairwise, panel, study
from peira.errors import Invalid
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

GOOD = {"text": json.dumps({"reason": "it is", "grade": 4}), "usage": {"input": 100, "output": 10}}
CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima", "Chad": "N'Djamena"}


@pytest.fixture
def grader(folder: Path, endpoint: Any) -> Any:
    """A judge behind an endpoint, known to the project as "grader"."""
    model = {
        "model": f"openai:{endpoint.model}",
        "base_url": f"{endpoint.base}/v1",
        "price": {"output": 1000},
    }
    (folder / "peira.toml").write_text(tomli_w.dumps({"models": {"grader": model}}))
    endpoint.always(GOOD)
    return endpoint


def answer(case, style):
    with Path("asked").open("a") as file:
        file.write("x")
    return f"{CAPITALS[case.input]}{'!' if style == 'loud' else ''}"


def answered() -> int:
    return len(Path("asked").read_text())


def capitals(*evaluators: Any, **more: Any) -> peira.Study:
    cases = [Case(country, expected=city) for country, city in CAPITALS.items()]
    given = {"name": "capitals", "cases": cases, "factors": {"style": ["plain", "loud"]}}
    return study(agent=answer, **{**given, **more}, evaluators=list(evaluators))


def run(asked: Any) -> peira.Results:
    return peira.run(asked, store="s.db", progress=False)


def test_a_judge_is_asked_once_for_each_score_and_what_it_costs_is_known(grader: Any) -> None:
    results = run(capitals(judge("grader", "Is it right?")))
    assert results.ok
    assert grader.bills() == 8
    assert results.spent.money == pytest.approx(0.08)
    assert {row.score.value["reason"] for row in results.scores} == {"it is"}
    [row] = results.table(overall=True).body
    assert (row.score, row.mean, row.n) == ("judge.value", 0.75, 8)
    assert {row.score for row in results.table(score="judge").body} == {"judge.value", "judge.raw"}
    assert results.compare("style").score == "judge.value"
    run(capitals(judge("grader", "Is it right?")))
    assert grader.bills() == 8


def test_what_changes_a_judge_scores_again_and_generates_nothing(grader: Any) -> None:
    results = run(capitals(judge("grader", "Is it right?")))
    for changed in (
        judge("grader", "Is it wrong?"),
        judge("grader", "Is it right?", prompt="{{ answer }}: {{ criteria[0].description }}"),
        judge("grader", "Is it right?", scale=4),
        judge("grader", "Is it right?", reference=True),
    ):
        before = grader.bills()
        again = evaluate(results, [changed], progress=False)
        assert again.ok
        assert grader.bills() == before + 8
    evaluate(results, [judge("grader", "Is it right?")], progress=False)
    assert (grader.bills(), answered()) == (40, 8)


def test_a_changed_reference_or_rubric_scores_again_only_what_it_is_about(grader: Any) -> None:
    by = judge("grader", "Is it right?", reference=True, rubric="rubric")
    run(capitals(by))
    cases = [Case(country, expected=city) for country, city in CAPITALS.items()]
    cases[0] = Case("France", expected="Paris, of course")
    run(capitals(by, cases=cases))
    assert (grader.bills(), answered()) == (8 + 2, 8)
    again = run(
        capitals(
            by,
            cases=[*cases[:3], Case("Chad", expected="N'Djamena", evaluators=[judge("grader", label="own")])],
        )
    )
    assert (grader.bills(), answered()) == (10 + 2, 8)
    assert {row.trial.case_id for row in again.scores if row.score.name == "own"} == {again.trials[3].case_id}


def test_no_verdict_is_no_failure_and_no_score_and_is_not_bought_again(grader: Any) -> None:
    grader.script(*[{"text": "hm"}] * 3)
    asked = capitals(judge("grader", repairs=2))
    results = peira.run(asked, store="s.db", progress=False, parallel=1)
    assert results.ok
    assert results.failures == []
    assert grader.bills() == 7 + 3
    [undecided] = results.no_verdicts
    assert "does not fit the schema" in undecided.score.no_verdict.reason
    [row] = results.table(overall=True).body
    assert (row.n, row.failed, row.no_verdict, row.unscored) == (7, 0, 1, 0)
    table = str(results.table(overall=True))
    assert "no verdict" in table
    assert "1 score without a verdict" in table
    assert "judge.value: with 1 lost trial at worst or best 0.656 to 0.781" in table
    assert "lost" in str(results.leaderboard("style"))
    results.to_csv("all.csv")
    assert ",score.judge.no_verdict," in Path("all.csv").read_text().splitlines()[0]
    run(asked)
    assert grader.bills() == 10


def test_a_panel_and_a_pair_pay_for_each_question(grader: Any) -> None:
    grader.always({"text": json.dumps({"reason": "r", "better": "first"})})
    results = run(capitals(pairwise("grader")))
    assert grader.bills() == 16
    assert {row.score.value["consistent"] for row in results.scores} == {False}
    grader.always(GOOD)
    both = panel([judge("grader", "Right?"), judge("grader", "Kind?")], "all")
    results = evaluate(results, [both], progress=False)
    assert grader.bills() == 32
    assert {row.score.value["value"] for row in results.scores} == {0.75}
    twice = panel([judge("grader", "Good?")] * 2, label="twice")
    results = evaluate(results, [twice], progress=False)
    assert grader.bills() == 48
    assert set(results.scores[0].score.value) == {"value", "disagreement", "abstained", "judge 1", "judge 2"}


def test_a_judge_that_cannot_be_asked_is_said_before_anything_runs(
    grader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Invalid, match="grader"):
        run(capitals(judge("gradr")))
    assert not Path("s.db").exists()
    results = run(capitals("exact"))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    for nested in (judge("anthropic:claude"), panel([judge("anthropic:claude"), "exact"])):
        with pytest.raises(Invalid, match="ANTHROPIC_API_KEY"):
            evaluate(results, [nested], progress=False)
    assert evaluate(results, ["match"], progress=False).ok


def test_an_estimate_counts_the_judges_calls(grader: Any) -> None:
    found = peira.estimate(capitals(judge("grader")))
    [part] = [part for part in found.parts if part.stage == "evaluate"]
    assert (part.model, part.calls.expected) == ("grader", 8)
    both = peira.estimate(capitals(panel([judge("grader"), judge("grader", "Kind?"), "exact"])))
    [part] = [part for part in both.parts if part.stage == "evaluate"]
    assert part.calls.expected == 16
    [part] = [one for one in peira.estimate(capitals(pairwise("grader"))).parts if one.stage == "evaluate"]
    assert part.calls.expected == 16


def test_a_run_with_a_judge_goes_on_from_its_own_record(grader: Any) -> None:
    asked = capitals(
        judge("grader", {"b": "Right?", "a": {"description": "Kind?", "scale": "yes/no"}}, label="two")
    )
    both = {"reason": "r", "grade": 4}, {"reason": "r", "grade": "yes"}
    grader.always({"text": json.dumps(dict(zip("ba", both, strict=True)))})
    results = run(asked)
    assert results.ok
    again = peira.run(results.run_id, store="s.db", progress=False)
    assert (again.ok, grader.bills()) == (True, 8)
    assert again.trials[0].scores["two"].value["value"] == pytest.approx((0.75 + 1) / 2)
    opened = SqliteStore("s.db", readonly=True)
    assert list(verify(opened)) == []
    opened.close()


def test_a_judge_in_a_file(grader: Any, folder: Path) -> None:
    (folder / "agent.py").write_text("def answer(case):\n    return 'Paris'\n")
    (folder / "asked.toml").write_text(
        """
name = "asked"
agent = "agent.py:answer"
cases = [{input = "Capital of France?", expected = "Paris"}]

[[evaluators]]
name = "panel"
aggregate = "median"
of = [
    {name = "judge", model = "grader", criteria = {kind = "Is it kind?"}, scale = {1 = "no", 4 = "yes"}},
    {name = "judge", model = "grader", reference = true, label = "right"},
    "exact",
]
"""
    )
    results = run("asked.toml")
    assert results.ok, results.failures
    [row] = results.scores
    assert row.score.value == {
        "value": 1,
        "disagreement": 0.25,
        "abstained": 0,
        "judge": 1,
        "right": 0.75,
        "exact": 1,
    }
    assert run(results.run_id).counts["reused"] == 1
    assert grader.bills() == 2
