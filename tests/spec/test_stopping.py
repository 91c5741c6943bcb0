"""Stopping rules as people write them: in Python and in files alike, every problem at once."""

from __future__ import annotations

import pytest

from peira import Study, exact, match
from peira.errors import Invalid
from peira.plan.expansion import expand
from peira.spec.study_files import load, restore, snapshot

H1 = {"id": "H1", "factor": "m", "levels": ["a", "b"], "direction": "greater"}


def answer(case, m):
    return case.input


def studied(**fields):
    named = {"name": "s", "cases": ["x", "y"], "factors": {"m": ["a", "b"]}, "evaluators": [exact()]}
    return Study(**{**named, "agent": answer, "hypotheses": [H1], **fields})


def problems(**fields):
    with pytest.raises(Invalid) as refused:
        studied(**fields)
    return refused.value.problems


def test_a_name_a_phrase_and_a_table_are_the_same_rule():
    assert studied(stop="when decided").stop == studied(stop="decided").stop
    assert studied(stop={"rule": "decided"}).stop == studied(stop={}).stop == studied(stop="decided").stop


def test_files_and_python_give_the_same_study(tmp_path):
    (tmp_path / "agent.py").write_text("def answer(case, m):\n    return case.input\n")
    (tmp_path / "s.toml").write_text(
        """
agent = "agent.py:answer"
cases = ["x", "y"]
evaluators = ["exact"]
stop = { rule = "decided", margin = 0.02, looks = 5 }

[factors]
m = ["a", "b"]

[[hypotheses]]
id = "H1"
factor = "m"
levels = ["a", "b"]
direction = "greater"
"""
    )
    read = load(tmp_path / "s.toml")
    assert read.stop == studied(stop={"rule": "decided", "margin": 0.02, "looks": 5}).stop
    assert restore(snapshot(read)).stop == read.stop


def test_a_rule_changes_the_order_and_no_trial():
    plain, stopping = expand(studied()).layout, expand(studied(stop="when decided")).layout
    assert stopping.order == "cases"
    assert [plain.trial_id(p) for p in plain.places()] == [stopping.trial_id(p) for p in stopping.places()]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"stop": "when decded"}, "stop: no stop 'decded'; did you mean 'decided'?"),
        ({"stop": 3}, "stop: must be the name of a rule"),
        (
            {"stop": {"rule": "decided", "marging": 1}},
            "stop.marging: is not known here; did you",
        ),
        ({"stop": {"rule": "decided", "hypotheses": "H2"}}, "stop.hypotheses: there is no hypothesis 'H2'"),
        ({"stop": "decided", "hypotheses": []}, "stop: needs a hypothesis to decide"),
        ({"stop": "decided", "order": "random"}, "order: a study that may stop goes case by case"),
        ({"stop": {"rule": "racing", "by": "n"}}, "stop.by: there is no factor 'n'"),
        ({"stop": {"rule": "successive_rejects", "by": "m", "budget": 1}}, "stop.budget: must be at least 2"),
        ({"stop": "decided", "evaluators": [exact(), match()]}, "stop: there are several scores"),
        ({"stop": "decided", "evaluators": []}, "stop: there is nothing to go by"),
        (
            {"stop": "decided", "hypotheses": [{**H1, "levels": []}]},
            "stop.hypotheses: H1 does not say which level of m is greater",
        ),
    ],
)
def test_every_problem_is_told(fields, problem):
    found = problems(**fields)
    assert any(line.startswith(problem) for line in found), found


def test_all_problems_at_once():
    rule = {"rule": "decided", "hypotheses": "H2", "least": 20}
    found = problems(stop=rule, order="given", factors={"m": ["a", "b"]}, design={"name": "split_plot"})
    assert {line.split(":")[0] for line in found} == {"stop.hypotheses", "order", "stop"}
