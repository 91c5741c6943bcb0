"""People as evaluators: scales, several raters blind to each other, pairs, and what is read from them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from peira import Case, person, run, study
from peira.app.inbox import answer, inbox, skip
from peira.core.context import judge as enter
from peira.errors import Invalid, Unknown, Waiting
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify
from peira.testing.fakes import MemoryChannel


def cases(n: int) -> list[Case]:
    return [Case(f"question {i}", expected=f"answer {i}", id=str(i)) for i in range(n)]


def scores(results: Any, name: str) -> dict[str, Any]:
    return {row.trial.case_id: row.score.value for row in results.scores if row.score.name == name}


def test_one_rater_on_a_scale() -> None:
    @study(
        name="graded", cases=cases(2), evaluators=[person("How good?", scale=[1, 2, 3, 4, 5], label="good")]
    )
    def graded(case: Any) -> Any:
        return f"answer {case.id}"

    store = MemoryStore()
    assert run(graded, store=store, progress=False).status == "waiting for people"
    asked = {one.question.case: one for one in inbox(store)}
    assert asked["0"].question.show == {"input": "question 0", "output": "answer 0"}
    assert (asked["0"].question.rater, asked["0"].question.raters) == (1, 1)
    answer(asked["0"].key, 5, store, by="ann", took=3.0)
    answer(asked["1"].key, 2, store, by="ann", took=4.0)
    results = run(graded, store=store, progress=False)
    assert scores(results, "good") == {
        "0": {"value": 1, "raw": 5, "rater1.raw": 5, "seconds.raw": 3},
        "1": {"value": 0.25, "raw": 2, "rater1.raw": 2, "seconds.raw": 4},
    }
    assert verify(store) == []


def test_several_raters_are_several_people_blind_to_each_other() -> None:
    @study(name="rated", cases=cases(1), evaluators=[person("Right?", raters=3, label="right")])
    def rated(case: Any) -> Any:
        return "x"

    store = MemoryStore()
    run(rated, store=store, progress=False)
    asked = {one.question.rater: one for one in inbox(store)}
    assert sorted(asked) == [1, 2, 3]
    shown = [one.question.show for one in asked.values()]
    assert all(show == {"input": "question 0", "output": "x"} for show in shown)
    answer(asked[1].key, 1, store, by="ann")
    with pytest.raises(Invalid, match="ann has rated this already"):
        answer(asked[2].key, 0, store, by="ann")
    assert [one.question.show for one in inbox(store)] == shown[:2]  # nothing of what ann said
    answer(asked[2].key, 0, store, by="ben")
    assert run(rated, store=store, progress=False).status == "waiting for people"
    skip(asked[3].key, store, by="cat")
    results = run(rated, store=store, progress=False)
    assert scores(results, "right") == {"0": {"value": 0.5, "raw": 0.5, "rater1.raw": 1, "rater2.raw": 0}}
    assert verify(store) == []


def test_words_have_a_verdict_and_nobody_is_no_verdict() -> None:
    tone = person("Which tone?", options=["kind", "rude"], raters=2, label="tone")

    @study(name="worded", cases=cases(3), evaluators=[tone])
    def worded(case: Any) -> Any:
        return case.id

    store = MemoryStore()
    run(worded, store=store, progress=False)
    said = {"0": ("kind", "kind"), "1": ("kind", "rude"), "2": (None, None)}
    for one in inbox(store):
        value = said[one.question.case][one.question.rater - 1]
        who = f"rater {one.question.rater}"
        skip(one.key, store, by=who) if value is None else answer(one.key, value, store, by=who)
    found = scores(run(worded, store=store, progress=False), "tone")
    assert found["0"] == {"verdict": "kind", "rater1.raw": "kind", "rater2.raw": "kind"}
    assert found["1"]["verdict"] == "split"
    assert found["2"] == {"no_verdict": "nobody answered"}


def test_pairs_are_shown_in_an_order_by_chance_and_count_for_the_output() -> None:
    better = person("Which is better?", against="expected", raters=2, label="better")

    @study(name="paired", cases=cases(12), evaluators=[better])
    def paired(case: Any) -> Any:
        return f"own {case.id}"

    store = MemoryStore()
    run(paired, store=store, progress=False)
    firsts = set()
    for one in inbox(store):
        show = one.question.show
        own_first = show["first"] == f"own {one.question.case}"
        firsts.add(own_first)
        assert {show["first"], show["second"]} == {
            f"own {one.question.case}",
            f"answer {one.question.case}",
        }
        wanted = "first" if own_first else "second"  # all prefer the output, wherever it stands
        answer(one.key, wanted, store, by=f"rater {one.question.rater}")
    assert firsts == {True, False}
    found = scores(run(paired, store=store, progress=False), "better")
    assert {(score["value"], score["verdict"]) for score in found.values()} == {(1, "win")}


def test_the_order_of_the_inbox_is_by_chance_and_the_same_for_all() -> None:
    @study(name="many", cases=cases(40), evaluators=[person("Right?", raters=2, label="right")])
    def many(case: Any) -> Any:
        return case.id

    store, other = MemoryStore(), MemoryStore()
    run(many, store=store, progress=False, parallel=1)
    run(many, store=other, progress=False, parallel=8)
    one, two = ([(q.question.case, q.question.rater) for q in inbox(s)] for s in (store, other))
    assert one == two
    assert [case for case, rater in one if rater == 1] != sorted(case for case, rater in one if rater == 1)
    assert [case for case, rater in one if rater == 1] != [case for case, rater in one if rater == 2]


def test_a_judge_is_calibrated_against_what_people_said() -> None:
    def helpful(output: Any) -> Any:
        return int(output) % 5 > 0

    @study(
        name="calibrated", cases=cases(60), evaluators=[helpful, person("Right?", raters=3, label="right")]
    )
    def calibrated(case: Any) -> Any:
        return case.id

    store, rng = MemoryStore(), random.Random(7)
    run(calibrated, store=store, progress=False)
    for one in inbox(store):
        right = int(one.question.case) % 4 > 0
        answer(one.key, int(right if rng.random() < 0.9 else not right), store, by=f"r{one.question.rater}")
    results = run(calibrated, store=store, progress=False)
    labels = results.people("right")
    assert len(labels) == 60
    found = results.agreement(labels, score="helpful", cut=0.5)
    assert found.labelled == 60
    assert 0.5 < found.share.mean < 1
    raters = results.raters("right")
    assert (raters.raters, raters.rated) == (3, 60)
    assert 0.3 < (raters.alpha.value or 0) < 1
    assert "3 raters of 60 cases" in str(raters)
    with pytest.raises(Unknown, match="did you mean 'right'"):
        results.people("rigth")
    assert results.corrected(labels, score="helpful", cut=0.5)


def test_editing_who_and_until_when_asks_nobody_again() -> None:
    store = MemoryStore()

    def graded(**more: Any) -> Any:
        @study(name="graded", cases=cases(1), evaluators=[person("Right?", label="right", **more)])
        def agent(case: Any) -> Any:
            return "x"

        return agent

    run(graded(), store=store, progress=False)
    answer(inbox(store)[0].key, 1, store)
    assert run(graded(to="editors", within="2d"), store=store, progress=False).status == "completed"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"prompt": " "}, "is not a question"),
        ({"scale": [1]}, "two or more numbers"),
        ({"scale": ["a", "b"]}, "two or more numbers"),
        ({"scale": [0, 1], "options": ["a"]}, "give one of them"),
        ({"against": "expected", "options": ["a"]}, "leave out"),
        ({"raters": 0}, "is not a number of people"),
        ({"show": ["ouput"]}, "did you mean 'output'"),
        ({"label": ""}, "is not a name"),
    ],
)
def test_every_problem_is_said(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        person(given.pop("prompt", "Right?"), **given)


def test_it_waits_in_a_channel_without_an_answer() -> None:
    channel = MemoryChannel()
    enter(channel)
    try:
        with pytest.raises(Waiting):
            person("Right?", show=["output"]).judge({"output": "x"})
    finally:
        enter(None)
    assert [one.prompt for one in channel.questions] == ["Right?"]
