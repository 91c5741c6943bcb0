"""Each recipe gives a study whose design, hypotheses and plan fit its question."""

from __future__ import annotations

from typing import Any

import pytest

from peira import Case, Study, exact, plan, recipes, run
from peira.cli.commands.init import RECIPES
from peira.errors import Invalid
from peira.plan.expansion import expand
from peira.stores.memory import MemoryStore

CASES = [("a", "a"), ("b", "b")]


def echo(case: Any, **factors: Any) -> str:
    return str(case.input)


def other(case: Any) -> str:
    return "other"


MADE = {
    "ab_comparison": lambda **f: recipes.ab_comparison(echo, CASES, factor="style", a="x", b="y", **f),
    "ablation": lambda **f: recipes.ablation(echo, CASES, parts=["plan", "tools", "memory"], **f),
    "agent_architectures": lambda **f: recipes.agent_architectures(
        {"one": echo, "two": other}, CASES, baseline="one", **f
    ),
    "chance_baseline": lambda **f: recipes.chance_baseline(other, CASES, answers=["a", "b"], **f),
    "human_comparison": lambda **f: recipes.human_comparison(
        other, [Case(x, expected=x, metadata={"people": x}) for x in "ab"], margin=0.1, **f
    ),
    "interaction": lambda **f: recipes.interaction(
        echo, CASES, factors={"plan": [False, True], "effort": ["low", "high"]}, **f
    ),
    "judge_calibration": lambda **f: recipes.judge_calibration(echo, CASES, **f),
    "model_comparison": lambda **f: recipes.model_comparison(
        echo, CASES, models=["m1", "m2", "m3"], baseline="m1", **f
    ),
    "optimisation": lambda **f: recipes.optimisation(
        echo, CASES, ranges={"temperature": (0.0, 1.0), "examples": (0, 8)}, **f
    ),
    "perturbation_robustness": lambda **f: recipes.perturbation_robustness(
        other, [("What is the capital of France?", "Paris"), ("And of Kenya?", "Nairobi")], **f
    ),
    "paraphrase_robustness": lambda **f: recipes.paraphrase_robustness(
        echo, [(["a", "A"], "a"), (["b", "B", "bee"], "b")], **f
    ),
    "prompt_sensitivity": lambda **f: recipes.prompt_sensitivity(
        echo, CASES, prompts={"p": "P", "q": "Q"}, **f
    ),
    "scaling": lambda **f: recipes.scaling(echo, CASES, factor="steps", levels=[8, 1, 4], **f),
}


def test_there_is_a_starter_for_each() -> None:
    assert sorted(recipes.__all__) == sorted(MADE) == sorted(RECIPES)


@pytest.mark.parametrize("name", MADE)
def test_each_is_a_whole_study_that_runs(name: str) -> None:
    study = MADE[name]()
    assert isinstance(study, Study)
    assert study.order == "interleaved"
    assert study.repeats >= 3
    [outcome] = study.outcomes
    assert outcome.primary
    [main] = study.analysis_plans
    assert main.hypotheses == tuple(h.id for h in study.hypotheses)
    assert (main.correction == "holm") == (len(study.hypotheses) > 1)
    results = run(study, store=MemoryStore(), progress=False)
    assert results.ok
    assert len(results.scores) == len(results)


@pytest.mark.parametrize("name", MADE)
def test_what_is_said_stands_instead(name: str) -> None:
    study = MADE[name](repeats=1, seed=7, evaluators=[exact()], order="random", name="mine", title="T")
    assert (study.repeats, study.seed, study.order, study.name, study.title) == (1, 7, "random", "mine", "T")
    assert study.outcomes[0].name == "exact"
    assert all(h.outcome == "exact" for h in study.hypotheses)
    bare = MADE[name](evaluators=[])
    assert bare.outcomes == ()
    assert all(h.outcome == "" for h in bare.hypotheses)


def claims(study: Study) -> list[tuple[str, tuple[Any, ...], str]]:
    return [(h.factor, h.levels, h.direction) for h in study.hypotheses]


def test_what_each_claims() -> None:
    assert claims(MADE["ab_comparison"](direction="less")) == [("style", ("y", "x"), "less")]
    assert claims(MADE["scaling"]()) == [("steps", (8, 1), "greater")]
    assert claims(MADE["model_comparison"]()) == [
        ("model", ("m2", "m1"), "different"),
        ("model", ("m3", "m1"), "different"),
    ]
    assert claims(recipes.model_comparison(echo, CASES, models=["m1", "m2"])) == [("model", (), "different")]
    assert claims(MADE["agent_architectures"]()) == [("agent", ("two", "one"), "different")]
    assert claims(MADE["judge_calibration"]()) == []


def test_an_ablation_is_the_whole_and_the_whole_without_each_part() -> None:
    conditions = expand(MADE["ablation"]()).layout.conditions
    assert [sum(not v for v in c.factors.values()) for c in conditions] == [0, 1, 1, 1]


def test_wordings_of_a_question_stand_together() -> None:
    [cases] = MADE["paraphrase_robustness"]().case_sets.values()
    assert [(c.cluster, c.slice, c.expected) for c in cases] == [
        ("1", "wording 1", "a"),
        ("1", "wording 2", "a"),
        ("2", "wording 1", "b"),
        ("2", "wording 2", "b"),
        ("2", "wording 3", "b"),
    ]


def test_further_factors_are_crossed_with_the_recipes_own() -> None:
    study = MADE["ab_comparison"](factors={"model": ["m1", "m2"]})
    assert [factor.name for factor in study.factors] == ["model", "style"]
    assert plan(study, store=MemoryStore()).of == 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: recipes.ablation(echo, CASES, parts=[]), "parts: there are none"),
        (lambda: recipes.scaling(echo, CASES, factor="n", levels=[1]), "two or more numbers"),
        (
            lambda: recipes.model_comparison(echo, CASES, models=["small"], baseline="smal"),
            "did you mean 'small'",
        ),
        (lambda: MADE["scaling"](seeds=1), "seeds: is not a part of a study"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        make()


def test_chance_is_seeded_and_people_are_judged_alike() -> None:
    study = recipes.chance_baseline(other, [(str(n), "a") for n in range(40)], answers=["a", "b"], repeats=2)
    one, two = (
        {trial.id: trial.output for trial in run(study, store=MemoryStore(), parallel=n, progress=False)}
        for n in (1, 8)
    )
    assert one == two
    assert {"a", "b", "other"} == set(one.values())
    with pytest.raises(Invalid, match="two or more"):
        recipes.chance_baseline(other, CASES, answers=["a"])
    judged = MADE["human_comparison"]()
    rows = run(judged, store=MemoryStore(), progress=False).table("agent").rows
    assert {row["agent"]: row["mean"] for row in rows} == {"agent": 0.0, "people": 1.0}


def test_perturbed_inputs_are_paired_with_the_plain_ones() -> None:
    def exact_words(case: Any) -> str:
        return {"What is it called?": "x"}.get(case.input, "?")

    study = recipes.perturbation_robustness(
        exact_words, [("What is it called?", "x")] * 3, kinds=["typos", "upper_case"]
    )
    assert claims(study) == [
        ("cases", ("typos", "as_it_is"), "different"),
        ("cases", ("upper_case", "as_it_is"), "different"),
    ]
    found = run(study, store=MemoryStore(), progress=False).compare("cases", baseline="as_it_is")
    assert [one.difference.mean for one in found.contrasts] == [-1.0, -1.0]
    assert {one.pairing.split(",")[0] for one in found.contrasts} == {"case"}
