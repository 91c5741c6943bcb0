"""Judges: what they make of replies, of two answers and of a panel, and what makes another judge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from peira.core.contracts import Evaluator
from peira.core.ids import digest
from peira.core.transforms import NoAnswer
from peira.core.verdicts import NoVerdict
from peira.errors import Invalid
from peira.evaluators import cascade, exact, from_function, gated, judge, pairwise, panel, pick, weighted
from peira.spec.plugins import as_evaluator, write_evaluator

from .judging import TEXT, better, facts, graded, judged, shown

# No verdict


@pytest.mark.parametrize("said", ["I would say 4.", '{"grade": 4}', '{"reason": "", "grade": 9}', ""])
def test_a_reply_that_never_fits_is_no_verdict(said: str) -> None:
    verdict, asked = judged(judge("any", repairs=2), facts("x"), lambda request: said)
    assert isinstance(verdict, NoVerdict)
    assert "does not fit the schema after 2 repairs" in verdict.reason
    assert len(asked) == 3


def test_a_reply_is_mended_when_asked_again() -> None:
    replies = iter(["four", '```json\n{"reason": "r", "grade": 4}\n```'])
    verdict, asked = judged(judge("any"), facts("x"), lambda request: next(replies))
    assert (verdict["value"], len(asked)) == (0.75, 2)


def test_no_answer_gets_the_worst_grade_and_nobody_is_asked() -> None:
    none = facts(NoAnswer("no number"))
    verdict, asked = judged(judge("any"), none, graded())
    assert (verdict["value"], verdict["raw"], asked) == (0.0, 1, [])
    verdict, asked = judged(pairwise("any"), none, graded())
    assert (verdict["verdict"], asked) == ("loss", [])


def no_verdict(output: Any) -> Any:
    return NoVerdict("for want of time") if output == "?" else 1.0


def test_what_has_a_part_without_a_verdict_has_none() -> None:
    undecided = from_function(no_verdict)
    for whole in (weighted([undecided, exact()]), gated(undecided, "exact"), pick(undecided, "value")):
        assert whole.judge(facts("?")) == NoVerdict("no_verdict: for want of time")
    assert cascade([undecided, exact()]).judge(facts("?", "?")) == {"value": 1.0, "by": "exact"}


# Pairs


def test_a_judge_that_always_takes_the_first_ties_and_is_inconsistent() -> None:
    verdict, asked = judged(pairwise("any"), facts("Rome"), better(lambda one, two: "first"))
    assert (verdict["value"], verdict["verdict"], verdict["consistent"]) == (0.5, "tie", False)
    assert (verdict["first"], verdict["second"]) == (1.0, 0.0)
    assert len(asked) == 2


def test_a_tie_in_one_order_only_is_a_tie() -> None:
    unsure = better(lambda one, two: "first" if one == "Rome" else "tie")
    verdict, _ = judged(pairwise("any"), facts("Rome"), unsure)
    assert (verdict["verdict"], verdict["consistent"]) == ("tie", False)


@given(TEXT.map(lambda text: " ".join(text.split())), TEXT.map(lambda text: " ".join(text.split())))
def test_whoever_would_win_loses_from_the_other_side(one: str, two: str) -> None:
    says = better(lambda a, b: "first" if len(a) > len(b) else "second" if len(b) > len(a) else "tie")
    here, _ = judged(pairwise("any"), facts(one or "a", two or "a"), says)
    there, _ = judged(pairwise("any"), facts(two or "a", one or "a"), says)
    assert here["value"] + there["value"] == 1


def test_it_may_be_compared_with_a_field_of_the_metadata() -> None:
    against = pairwise("any", against="rival", ties=False)
    _, asked = judged(against, facts("Paris", None), better(lambda one, two: "first"))
    assert all("Lyon" in shown(request) for request in asked)
    assert all("tie" not in shown(request) for request in asked)
    assert against.takes == {"output", "case"}
    with pytest.raises(Invalid, match=r"none in metadata\.champion"):
        judged(pairwise("any", against="champion"), facts("Paris"), graded())


def test_one_order_without_a_verdict_leaves_none() -> None:
    unsure = better(lambda one, two: "first" if one == "Rome" else "neither")
    verdict, asked = judged(pairwise("any", repairs=0), facts("Rome"), unsure)
    assert isinstance(verdict, NoVerdict)
    assert len(asked) == 2


# Panels


def fixed(value: float, name: str) -> Evaluator:
    def says(output: Any) -> Any:
        return NoVerdict("none") if value < 0 else value

    says.__name__ = name
    return from_function(says)


@pytest.mark.parametrize(
    ("votes", "aggregate", "value"),
    [
        ([1.0, 0.0, 0.5], "mean", 0.5),
        ([1.0, 0.0, 0.25], "median", 0.25),
        ([1.0, 0.0, 1.0], "majority", 1.0),
        ([1.0, 1.0, 0.5], "all", 0.5),
        ([1.0, -1.0, 0.0], "mean", 0.5),
    ],
)
def test_a_panel_aggregates(votes: list[float], aggregate: str, value: float) -> None:
    whole = panel([fixed(vote, f"j{n}") for n, vote in enumerate(votes)], aggregate)
    verdict = whole.judge(facts("x"))
    given = [vote for vote in votes if vote >= 0]
    assert verdict["value"] == value
    assert verdict["disagreement"] == max(given) - min(given)
    assert verdict["abstained"] == len(votes) - len(given)


def test_a_panel_may_come_to_no_verdict() -> None:
    split = panel([fixed(1.0, "a"), fixed(0.0, "b")], "majority")
    assert split.judge(facts("x")) == NoVerdict("no majority among 1, 0")
    silent = panel([fixed(-1, "a"), fixed(-1, "b")])
    assert silent.judge(facts("x")) == NoVerdict("a: none")


def test_a_panel_that_is_none() -> None:
    with pytest.raises(Invalid, match="did you mean 'median'"):
        panel(["exact", "match"], "medain")
    with pytest.raises(Invalid, match="two or more"):
        panel(["exact"])


# Identity

SAME = {"model": "any", "criteria": "Is it right?"}
CHANGES: list[dict[str, Any]] = [
    {"model": "other"},
    {"criteria": "Is it wrong?"},
    {"criteria": {"right": "Is it right?"}},
    {"scale": 7},
    {"reference": True},
    {"rubric": "rubric"},
    {"prompt": "{{ answer }}"},
    {"system": "Hm."},
    {"repairs": 0},
    {"parameters": {"temperature": 0}},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_whatever_changes_what_is_asked_makes_another_judge(change: dict[str, Any]) -> None:
    assert digest(judge(**SAME).identity) != digest(judge(**{**SAME, **change}).identity)


@pytest.mark.parametrize(
    "made",
    [
        *(judge(**{**SAME, **change}) for change in CHANGES),
        judge("any", {"b": {"description": "x", "scale": ["no", "so so", "yes"]}, "a": "y"}, label="mine"),
        pairwise("any", "Shorter is better.", against="rival", ties=False, repairs=0),
        panel([judge("any", label="one"), pairwise("any"), "exact"], "all", label="three"),
    ],
    ids=str,
)
def test_a_judge_is_written_down_and_read_again(made: Evaluator) -> None:
    written = json.loads(json.dumps(write_evaluator(made, None), sort_keys=True))
    again = as_evaluator(written)
    assert digest(again.identity) == digest(made.identity)
    assert (again.name, again.takes) == (made.name, made.takes)
    assert getattr(again, "models") == getattr(made, "models")  # noqa: B009


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": ""}, "is not the name of a model"),
        ({"model": "any", "repairs": 99}, "repairs=99"),
        ({"model": "any", "prompt": "{% if %}"}, "prompt: template"),
        ({"model": "any", "label": " "}, "is not a name"),
        ({"model": "any", "parameters": {"schema": {}}}, "'schema' is no parameter"),
        ({"model": "any", "critera": "x"}, "critera"),
    ],
)
def test_a_judge_that_is_none_says_so_in_a_line(options: dict[str, Any], problem: str) -> None:
    for kind in ("judge", "pairwise"):
        with pytest.raises(Invalid, match=problem):
            as_evaluator({"name": kind, **options})
