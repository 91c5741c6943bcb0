"""What a stopping rule is asked: pairs of levels under the same other levels, units, and shares of alpha."""

from __future__ import annotations

import pytest

from peira import Case, Study, exact, match
from peira.plan.expansion import expand
from peira.plan.stopping import stop_question


def answer(case, m="a", style="x"):
    return case.input


def studied(**fields):
    hypotheses = [{"id": "H1", "factor": "m", "levels": ["a", "b"], "direction": "greater"}]
    named = {"cases": ["one", "two"], "factors": {"m": ["a", "b", "c"]}, "evaluators": [exact()]}
    return Study(**{**named, "agent": answer, "hypotheses": hypotheses, "stop": "decided", **fields})


def claim(**fields):
    return stop_question(expand(studied(**fields))).question.claims[0]


def shown(claim):
    return [(pair.first, pair.second) for pair in claim.pairs]


@pytest.mark.parametrize(
    ("levels", "direction", "pairs"),
    [
        (["a", "b"], "greater", [("a", "b")]),
        (["c", "b", "a"], "less", [("c", "b"), ("b", "a")]),
        (["b"], "greater", [("b", "a"), ("b", "c")]),
        ([], "different", [("a", "b"), ("a", "c"), ("b", "c")]),
        (["a", "c"], "different", [("a", "c")]),
    ],
)
def test_pairs_are_those_of_the_hypothesis(levels, direction, pairs):
    hypothesis = {"id": "H1", "factor": "m", "levels": levels, "direction": direction}
    assert shown(claim(hypotheses=[hypothesis])) == pairs


def test_sides_meet_under_the_same_other_levels():
    study = studied(factors={"m": ["a", "b"], "style": ["x", "y"]})
    question = stop_question(expand(study)).question
    for one, two in question.claims[0].pairs[0].groups:
        [first], [second] = one, two
        assert question.conditions[first]["style"] == question.conditions[second]["style"]


def test_alpha_is_the_plans_and_shared_where_the_plan_corrects():
    three = [{"id": f"H{n}", "factor": "m", "levels": ["a", "b"], "direction": "greater"} for n in range(3)]
    plan = {"name": "p", "alpha": 0.03}
    assert claim(hypotheses=three, analysis_plans=[plan]).alpha == 0.03
    assert claim(hypotheses=three, analysis_plans=[{**plan, "correction": "holm"}]).alpha == 0.03 / 3
    own = [{**three[0], "alpha": 0.06}, *three[1:]]
    assert claim(hypotheses=own, analysis_plans=[{**plan, "correction": "holm"}]).alpha == 0.06 / 3
    assert claim().alpha == 0.05


def test_units_are_cases_or_clusters_of_them():
    cases = [Case(n, cluster="k" if n < 3 else None) for n in range(5)]
    found = stop_question(expand(studied(cases=cases)))
    assert (found.question.units, found.unit) == (3, "cluster")
    part = stop_question(
        expand(studied(cases=[f"{n}" for n in range(9)]), where="case in ('x',) or m == 'a'", limit=4)
    )
    assert part.question.units == 4


def test_a_level_that_is_left_out_leaves_nothing_to_compare():
    assert claim(constraints=["m != 'b'"]).pairs == ()


def test_the_score_is_the_outcomes():
    assert stop_question(expand(studied())).score == ("exact", "")
    outcome = {"name": "o", "evaluator": "match", "metric": "part", "primary": True, "direction": "minimize"}
    found = stop_question(expand(studied(evaluators=[exact(), match()], outcomes=[outcome])))
    assert (found.score, found.question.maximize) == (("match", "part"), False)
