from __future__ import annotations

import asyncio
import inspect

import pytest

from peira.errors import Invalid
from peira.spec.case import Case
from peira.spec.factors import Block, Factor
from peira.spec.study import Study, study


def answer(case, model="a"):
    """Answers."""
    return f"{case} by {model}"


def plan_first(case, model, depth):
    return model


def test_a_decorated_function_stays_callable():
    @study(cases=["q"], factors={"model": ["a", "b"]})
    def ask(case, model):
        """Asks."""
        return f"{case} by {model}"

    assert isinstance(ask, Study)
    assert ask("q", model="a") == "q by a"
    assert (ask.name, ask.__name__, ask.__doc__) == ("ask", "ask", "Asks.")
    assert list(inspect.signature(ask).parameters) == ["case", "model"]
    assert list(ask.agents) == ["ask"]
    assert not ask.labelled


def test_a_decorated_coroutine_function_stays_one():
    @study(cases=["q"])
    async def ask(case):
        return case

    assert asyncio.run(ask("q")) == "q"


def test_a_study_is_made_of_several_agents():
    made = study(
        agents={"planner": plan_first, "direct": answer}, cases=["q"], factors={"model": ["a"], "depth": [1]}
    )
    assert made.agents == {"planner": plan_first, "direct": answer}
    assert made.labelled
    with pytest.raises(TypeError, match="planner, direct"):
        made("q")


def test_a_study_as_agent_is_its_function():
    inner = study(answer, cases=["q"])
    assert study(agents={"one": inner}, cases=["r"]).agents == {"one": answer}


@pytest.mark.parametrize(
    "factors",
    [
        {"model": ["a", "b"]},
        {"model": {"levels": ["a", "b"]}},
        {"model": Factor("model", ["a", "b"])},
        [Factor("model", ["a", "b"])],
        [{"name": "model", "levels": ["a", "b"]}],
    ],
)
def test_factors_in_every_shape_are_the_same(factors):
    assert Study(agent=answer, cases=["q"], factors=factors).factors == (Factor("model", ["a", "b"]),)


def test_a_case_set_can_be_a_factor():
    made = Study(agent=answer, cases={"easy": ["q"], "hard": [("r", 1), Case("s")]})
    assert {label: len(cases) for label, cases in made.case_sets.items()} == {"easy": 1, "hard": 2}
    assert Study(agent=answer, cases=iter(["q"])).case_sets == {"": (Case("q"),)}


def test_an_agent_may_take_the_labels_that_are_factors():
    def takes_labels(case, agent, cases):
        return agent

    assert Study(agents={"x": takes_labels}, cases={"easy": ["q"]}).labelled


def test_blocks_need_not_be_taken():
    assert Study(agent=answer, cases=["q"], blocks={"day": [1, 2]}).blocks == (Block("day", [1, 2]),)


def test_a_study_is_frozen_hashable_and_equal_by_value():
    one, two = Study(agent=answer, cases=["q"]), Study(agent=answer, cases=["q"])
    assert one == two
    assert hash(one) == hash(two)
    assert one != Study(agent=answer, cases=["r"])
    with pytest.raises(Exception, match="frozen"):
        one.repeats = 2  # type: ignore[misc]


def test_evaluators_are_made_of_names_options_and_functions():
    def polite(output):
        return "please" in output

    made = Study(
        agent=answer, cases=["q"], evaluators=["exact", {"name": "numeric", "tolerance": 0.1}, polite]
    )
    assert [e.name for e in made.resolved_evaluators()] == ["exact", "numeric", "polite"]
    assert Study(agent=answer, cases=["q"], evaluators="exact").evaluators == ("exact",)


def test_metadata_is_carried():
    made = Study(
        agent=answer,
        cases=["q"],
        title="T",
        authors="Ada",
        tags=["x", "y"],
        rationale="r",
        notes="n",
        description="d",
    )
    assert (made.title, made.authors, made.tags) == ("T", ("Ada",), ("x", "y"))


def test_aims_that_nothing_can_be_made_of_are_told():
    made = Study(
        agent=answer,
        cases=["q"],
        factors={"model": ["a", "b"]},
        evaluators=["exact"],
        outcomes=[{"name": "accuracy", "evaluator": "exact", "primary": True}],
        hypotheses=[{"id": "h1", "outcome": "accuracy", "factor": "model", "levels": ["a", "b"]}],
        analysis_plans=[{"name": "main", "outcomes": ["accuracy"], "hypotheses": ["h1"]}],
    )
    assert made.unexecuted() == []
    vague = Study(
        agent=answer,
        cases=["q"],
        hypotheses=[{"id": "h1"}],
        analysis_plans=[{"name": "main", "outcomes": ["exact"]}],
        evaluators=["exact"],
    )
    assert vague.unexecuted() == [
        "hypothesis h1: declared, not executed (it names no factor)",
        "analysis plan main: declared, not executed (it has no hypothesis)",
    ]


def test_the_decorator_raises_every_problem_at_once():
    with pytest.raises(Invalid) as caught:

        @study(cases=[], factors={"stile": ["a"]}, repeats=0)
        def ask(case, style):
            return style

    assert list(caught.value.problems) == [
        "repeats: must be at least 1, not 0",
        "cases: there are none",
        "agent: ask takes 'style', which is no factor; did you mean 'stile'?",
        "factors.stile: ask does not take 'stile'; did you mean 'style'?",
    ]


def test_relative_files_lie_beside_the_caller_or_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "cases.jsonl").write_text('{"input": "q"}\n')
    monkeypatch.chdir(tmp_path)
    assert Study(agent=answer, cases="cases.jsonl").case_sets[""] == (Case("q"),)
    assert "test_study.py" not in str(Study(agent=answer, cases="cases.jsonl").sources)
