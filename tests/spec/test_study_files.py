from __future__ import annotations

import pytest

from peira.spec.case import Case
from peira.spec.factors import Factor
from peira.spec.study import Study
from peira.spec.study_files import check


def answer(case, model="a", style="plain"):
    return model


def anything(**given):
    return None


def positional(case, model, /):
    return model


def judge(output, reference):
    return True


def two(output):
    return True


SOUND = {"cases": ["q"], "agent": answer, "factors": {"model": ["a", "b"], "style": ["plain", "long"]}}


def test_a_sound_study_has_no_problem():
    assert check(SOUND) == []
    assert check(Study(**SOUND)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"repeat": 3}, "repeat: is not a part of a study; did you mean 'repeats'?"),
        ({"cases": []}, "cases: there are none"),
        ({"cases": None}, "cases: is missing"),
        ({"cases": {"easy": [], "hard": ["q"]}}, "cases.easy: there are none"),
        ({"cases": {"input": "q"}}, "cases: this is one case; write a list of cases"),
        ({"cases": 3}, "cases: must be a list of cases, or the name of a file, not 3"),
        ({"cases": [Case("q", id="a"), Case("r", id="a")]}, "cases: 2 cases have the id 'a'"),
        (
            {"cases": [{"input": {"x": float("inf")}}]},
            "cases[0].input.x: inf is not JSON; use null or a string",
        ),
        ({"agent": None}, "agent: is missing"),
        ({"agents": {"a": answer}}, "agent: give agent or agents, not both"),
        ({"agent": None, "agents": {}}, "agents: there are none"),
        ({"agent": 3}, "agent: must be a function or its name as file.py:name, not 3"),
        ({"agent": "answer"}, "agent: 'answer' does not have the form file.py:name"),
        ({"agent": positional}, "agent: its argument 'case' cannot be given by name"),
        ({"factors": {"styel": ["a"]}}, "factors.styel: answer does not take 'styel'; did you mean 'style'?"),
        ({"factors": {"model": ["a", "a"]}}, "factors.model.levels[1]: 'a' is a duplicate of levels[0]"),
        (
            {"factors": {"model": [float("nan")]}},
            "factors.model.levels[0]: nan is not JSON; use null or a string",
        ),
        ({"factors": {"model": Factor("style", [1])}}, "factors.model: its own name is 'style'"),
        ({"blocks": {"model": [1]}}, "factors: there are 2 of the name 'model'"),
        ({"repeats": 0}, "repeats: must be at least 1, not 0"),
        ({"repeats": True}, "repeats: must be a whole number, not True"),
        ({"seed": 2**53}, "seed: must be at most 9007199254740991, not 9007199254740992"),
        ({"evaluators": ["exat"]}, "evaluators[0]: no evaluator 'exat'; did you mean 'exact'?"),
        (
            {"evaluators": [5]},
            "evaluators[0]: 5 is not an evaluator; give a function, a name, or a name with its options",
        ),
        ({"evaluators": [two, two]}, "evaluators: there are 2 of the name 'two'"),
        (
            {"cases": [Case("q", evaluators=["exat"])]},
            "cases[0].evaluators: no evaluator 'exat'; did you mean 'exact'?",
        ),
        (
            {"constraints": ["modle == 'a'"]},
            "constraints[0]: there is no factor 'modle'; did you mean 'model'?",
        ),
        ({"constraints": ["1 == 1"]}, "constraints[0]: it names no factor, in '1 == 1'"),
        ({"constraints": ["model == 'c'"]}, "constraints: they leave no condition (model == 'c')"),
        (
            {"constraints": ["model == 'a'", lambda style, model: style == "long" and model == "b"]},
            "constraints: they leave no condition (model == 'a'; <lambda>)",
        ),
        ({"constraints": ["model < 3"]}, "constraints: cannot be evaluated: "),
        (
            {"design": "full_factorail"},
            "design: there is no design 'full_factorail'; did you mean 'full_factorial'?",
        ),
        ({"budget": {"trails": 5}}, "budget.trails: is not known here; did you mean 'trials'?"),
        (
            {"budget": {"time": "soon"}},
            "budget.time: 'soon' is not a duration; write seconds, or 200ms, 90s, 5m, 2h, 1d",
        ),
        ({"policy": {"retries": -1}}, "policy.retries: must be at least 0, not -1"),
        ({"outcomes": [{"name": "x", "evaluator": "exact"}]}, "outcomes.x: there is no evaluator 'exact'"),
        ({"hypotheses": [{"id": "h", "outcome": "x"}]}, "hypotheses.h.outcome: there is no outcome 'x'"),
        (
            {"hypotheses": [{"id": "h", "factor": "model", "levels": ["c"]}]},
            "hypotheses.h.levels: 'c' is not a level of model",
        ),
        (
            {"analysis_plans": [{"name": "p", "hypotheses": ["h"]}]},
            "analysis_plans.p.hypotheses: there is no hypothesis 'h'",
        ),
        ({"name": "../up"}, "name: must be one line of text without slashes, not '../up'"),
        ({"tags": [1]}, "tags[0]: must be text, not 1"),
    ],
)
def test_one_problem_is_told_as_one_line(change, problem):
    [found] = check({**SOUND, **change})
    assert found.startswith(problem)
    assert "\n" not in found
    assert "pydantic" not in found


def test_an_evaluator_takes_only_what_it_can_be_handed():
    [found] = check({**SOUND, "evaluators": [judge]})
    assert found.startswith("evaluators[0]: ")
    assert "reference" in found


def test_every_problem_is_told_at_once():
    found = check(
        {
            "casess": [],
            "cases": [{"input": "q", "id": "a"}, {"input": "r", "id": "a"}, {"inptu": 1}],
            "agent": answer,
            "factors": {"model": ["a", "a"], "tone": [1, 2]},
            "evaluators": ["exat"],
            "repeats": 0,
            "constraints": ["tune > 1"],
            "budget": {"trials": 0},
        }
    )
    assert [problem.split(":")[0] for problem in found] == [
        "casess",
        "cases[2].inptu",
        "cases[2].input",
        "factors.model.levels[1]",
        "budget.trials",
        "repeats",
        "cases",
        "factors.tone",
        "evaluators[0]",
        "constraints[0]",
    ]


def test_a_factor_needs_one_agent_that_takes_it():
    agents = {"plain": answer, "any": anything}
    assert check({"cases": ["q"], "agents": agents, "factors": {"depth": [1, 2]}}) == []
    del agents["any"]
    [found] = check({"cases": ["q"], "agents": agents, "factors": {"depth": [1, 2]}})
    assert found == "factors.depth: no agent takes 'depth'; known: model, style"


def test_constraints_apply_only_to_agents_that_take_their_factors():
    def bare(case):
        return 1

    agents = {"plain": answer, "bare": bare}
    impossible = {
        "cases": ["q"],
        "agents": agents,
        "factors": {"model": ["a"]},
        "constraints": ["model == 'b'"],
    }
    assert check(impossible) == [], "the bare agent has conditions left"
    assert check({**impossible, "constraints": ["agent == 'plain'", "model == 'b'"]}) == [
        "constraints: they leave no condition (agent == 'plain'; model == 'b')"
    ]


def test_a_warning_leaves_every_condition():
    assert check({**SOUND, "constraints": [{"expression": "model == 'c'", "severity": "warning"}]}) == []


def test_many_factors_are_searched_without_trying_every_combination():
    factors = {f"f{i}": list(range(10)) for i in range(30)}
    constraints = [f"f{i} == 9" for i in range(30)]
    assert check({"cases": ["q"], "agent": anything, "factors": factors, "constraints": constraints}) == []
    assert len(check({"cases": ["q"], "agent": anything, "factors": factors, "constraints": ["f0 > 9"]})) == 1


def test_files_are_checked_where_they_are(tmp_path):
    (tmp_path / "broken.py").write_text("def f(case):\n    return (\n")
    (tmp_path / "fails.py").write_text("x = 1\ny = nothing\n")
    (tmp_path / "fine.py").write_text("def answer(case):\n    return 1\n")
    (tmp_path / "cases.jsonl").write_text('{"input": 1}\n{"inptu": 2}\nnot json\n')

    def problem(**raw):
        return check({"cases": ["q"], **raw}, tmp_path)

    assert problem(agent="none.py:f") == [f"agent: there is no file 'none.py' in {tmp_path}"]
    assert problem(agent="fine.py:anwser") == [
        "agent: there is no 'anwser' in fine.py; did you mean 'answer'?"
    ]
    [syntax] = problem(agent="broken.py:f")
    assert "broken.py:2: " in syntax
    [failure] = problem(agent="fails.py:f")
    assert failure.endswith("fails.py:2: NameError: name 'nothing' is not defined")
    assert problem(agent="fine.py:answer", cases="none.csv") == [
        f"cases: there is no file 'none.csv' in {tmp_path}"
    ]
    assert problem(agent="fine.py:answer", cases="cases.jsonl")[0].startswith("cases: cases.jsonl:2: ")
    assert check("none.toml", tmp_path) == [
        f"cannot read {tmp_path / 'none.toml'}: No such file or directory"
    ]
