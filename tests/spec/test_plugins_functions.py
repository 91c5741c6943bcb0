"""Factories that return functions, parts of scores as outcomes, parameters of benchmarks, first_number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Benchmark, Case, Hypothesis, Outcome, Study, run
from peira.core.registry import registry
from peira.errors import Invalid
from peira.spec.plugins import as_evaluator
from peira.transforms import first_number


def near(tolerance: float = 1.0) -> Any:
    """Within a tolerance of the expected number."""

    def check(output: Any, expected: Any) -> bool:
        return bool(abs(float(output) - float(expected)) <= tolerance)

    return check


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    registry.add("evaluator", "near_by_plugin", near)
    registry.add("evaluator", "no_evaluator", lambda: 7)


def test_a_factory_that_returns_a_function_makes_an_evaluator(tmp_path: Path) -> None:
    one, two = as_evaluator("near_by_plugin"), as_evaluator({"name": "near_by_plugin", "tolerance": 3})
    assert (one.name, one.takes) == ("near_by_plugin", {"output", "expected"})
    assert one.identity != two.identity
    study = Study(
        name="s",
        cases=[Case("5", "4"), Case("8", "4")],
        agent=lambda case: case.input,
        evaluators=[{"name": "near_by_plugin", "tolerance": 2}],
    )
    found = run(study, store=tmp_path / "s.db", progress=False)
    assert [trial.scores["near_by_plugin"].value for trial in found] == [True, False]
    with pytest.raises(Invalid, match="its factory returned 7, which is neither"):
        as_evaluator("no_evaluator")


def sc(output: str) -> dict[str, Any]:
    return {"a": len(output), "b": 1.0, "tone": "curt" if len(output) < 3 else "kind"}


def test_parts_of_a_score_are_outcomes_before_and_after_the_run(tmp_path: Path) -> None:
    study = Study(
        name="s",
        cases=[str(n) for n in range(30)],
        factors={"style": ["short", "long"]},
        agent=lambda case, style: case.input if style == "short" else f"{case.input} and more",
        evaluators=[sc],
        outcomes=[Outcome(name="sc.a", primary=True), Outcome(name="kindness", evaluator="sc=kind")],
        hypotheses=[
            Hypothesis(id="longer", factor="style", levels=["long", "short"], direction="greater"),
            Hypothesis(
                id="part", outcome="sc.a", factor="style", levels=["long", "short"], direction="greater"
            ),
            Hypothesis(id="b", outcome="sc.b", factor="style", levels=["long", "short"]),
        ],
    )
    found = run(study, store=tmp_path / "s.db", progress=False)
    verdicts = {one.hypothesis: one for one in found.hypotheses().found}
    assert {name: one.outcome for name, one in verdicts.items()}["part"] == "sc.a"
    assert verdicts["longer"].verdict == verdicts["part"].verdict
    with pytest.raises(Invalid, match=r"there is no outcome 'sd.a'"):
        Study(
            name="s",
            cases=["a"],
            agent=agent,
            evaluators=[sc],
            hypotheses=[Hypothesis(id="h", outcome="sd.a")],
        )


def agent(case: Any) -> str:
    return str(case.input)


def test_benchmarks_take_sampling_parameters() -> None:
    made = Benchmark(
        name="mine",
        data={"rows": [{"q": "1+1", "a": "2"}], "input": "q", "expected": "a"},
        prompts={
            "name": "plain",
            "template": "{{ input }}",
            "parameters": {"temperature": 1.0, "top_p": 0.5},
        },
        evaluators=["exact"],
    )
    study = made.compile(
        "scripted:x", parameters={"temperature": 0.2, "max_tokens": None}, system="Be brief.", repeats=3
    )
    level = study.factors[1].levels[0].value
    assert level["parameters"] == {"temperature": 0.2, "top_p": 0.5}
    assert (level["system"], study.repeats) == ("Be brief.", 3)
    assert made.compile("scripted:x").factors[1].levels[0].value["parameters"]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("output", "answer"),
    [("It is 3 or 4.", 3), ("$1,234.50 of 2", 1234.5), ("3/4 of 8", 0.75), (7, 7), ("50% of 2", "50%")],
)
def test_the_first_number(output: Any, answer: Any) -> None:
    assert first_number().apply(output) == answer


def test_every_score_may_have_a_transform_of_its_own(tmp_path: Path) -> None:
    study = Study(
        name="s",
        cases=[Case("q", "4")],
        agent=lambda case: "4 apples\nno, 5",
        evaluators=[
            {"name": "numeric", "transform": "first_number"},
            {"name": "numeric", "transform": "last_number", "label": "last"},
            {"name": "exact", "transform": ["first_line", {"name": "regex", "pattern": "[0-9]+"}]},
        ],
    )
    found = run(study, store=tmp_path / "s.db", progress=False)
    scores = {name: score.value for name, score in found.trials[0].scores.items()}
    assert scores == {"numeric": True, "last": False, "exact": True}
    judges = {part.name: part.identity for part in found.background.manifest.evaluators}  # type: ignore[union-attr]
    assert judges["last"]["parts"]["transform"]["transform"] == "last_number"
    again = run(study, store=tmp_path / "s.db", progress=False)
    assert again.counts["scores reused"] == 3
