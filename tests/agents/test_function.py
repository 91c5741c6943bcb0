"""Functions, objects with `run`, and factories as agents; what they may take by name and return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Case, Output, agent, ask, mcp, run, study
from peira.errors import Invalid


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def outputs(made: Any, **options: Any) -> list[Any]:
    results = run(made, store="s.db", progress=False, **options)
    assert results.ok, results.failures
    return [trial.output for trial in results.trials]


def test_seed_input_and_prompt_by_name() -> None:
    def takes(input: Any, prompt: str, seed: int) -> list[Any]:
        return [input, prompt, seed > 0]

    assert outputs(study(takes, cases=[Case({"a": 1}), "text"])) == [
        [{"a": 1}, '{"a":1}', True],
        ["text", "text", True],
    ]


def test_a_factor_of_that_name_comes_first() -> None:
    def takes(input: Any, prompt: str, seed: str) -> str:
        return f"{input} {prompt} {seed}"

    made = study(takes, cases=["x"], factors={"prompt": ["p", "q"], "seed": ["s"]})
    assert sorted(outputs(made)) == ["x p s", "x q s"]


def test_the_whole_condition_by_name() -> None:
    def takes(input: str, condition: dict[str, Any]) -> list[Any]:
        return [input, condition]

    factors = {"style": ["a", "b"], "size": [1]}
    assert sorted(outputs(study(takes, cases=["x"], factors=factors)), key=str) == [
        ["x", {"style": "a", "size": 1}],
        ["x", {"style": "b", "size": 1}],
    ]
    assert sorted(outputs(study(takes, name="own", cases=["x"], factors={"condition": ["c", "d"]}))) == [
        ["x", "c"],
        ["x", "d"],
    ]


def test_a_factory_may_return_a_function() -> None:
    def made(condition: dict[str, Any]) -> Any:
        return lambda input: f"{condition['style']} {input}"

    assert sorted(outputs(study(made, cases=["x"], factors={"style": ["a", "b"]}))) == ["a x", "b x"]


class Helper:
    def __init__(self, style: str = "plain", model: str = "scripted:echo") -> None:
        self.style, self.model = style, model

    def run(self, prompt: str, seed: int) -> str:
        return f"{self.style}: {ask(self.model, prompt).text}"


def make(style: str) -> Helper:
    return Helper(style)


class Waiting:
    async def run(self, input: str) -> str:
        return input.upper()


def test_an_object_with_run() -> None:
    assert outputs(study(agent=Helper("brief"), name="o", cases=["hi"])) == ["brief: hi"]
    assert outputs(study(agent=Waiting(), name="w", cases=["hi"])) == ["HI"]


def test_a_class_and_a_function_that_make_such_objects_from_factors() -> None:
    factors = {"style": ["a", "b"]}
    assert sorted(outputs(study(agent=Helper, name="c", cases=["hi"], factors=factors))) == ["a: hi", "b: hi"]
    assert sorted(outputs(study(agent=make, name="f", cases=["hi"], factors=factors))) == ["a: hi", "b: hi"]


def test_what_an_object_holds_is_part_of_what_it_is() -> None:
    first = outputs(study(agent=Helper("one"), name="o", cases=["hi"]))
    assert outputs(study(agent=Helper("two"), name="o", cases=["hi"])) != first


def test_an_object_without_run_is_no_agent() -> None:
    with pytest.raises(Invalid, match="must be a function"):
        study(agent=object(), name="o", cases=["hi"])


def test_an_output_with_metrics_events_and_facts() -> None:
    def rich(case: Any) -> Output:
        events = [{"name": "looked", "where": "here"}, ("thought", {"hard": True}), "done"]
        return Output(
            {"answer": 42}, metrics={"cost_usd": 0.5, "depth": 3}, events=events, about={"kind": "test"}
        )

    results = run(study(rich, cases=["x"]), store="s.db", progress=False)
    (trial,) = results.trials
    assert trial.output == {"answer": 42}
    assert trial.cost == 0.5
    assert trial.metrics == {"cost": 0.5, "depth": 3}
    assert [(one.name, one.data) for one in trial.observations] == [
        ("looked", {"where": "here"}),
        ("thought", {"hard": True}),
        ("done", {}),
    ]
    assert trial.about["kind"] == "test"


def test_a_wrong_event_fails_the_trial() -> None:
    def wrong(case: Any) -> Output:
        return Output("x", events=[3])

    results = run(study(wrong, cases=["x"]), store="s.db", progress=False)
    assert "is no event" in results.trials[0].failure.message


def test_reported_cost_is_added_to_what_calls_cost() -> None:
    Path("peira.toml").write_text(
        '[models.paid]\nmodel = "scripted:echo"\nprice = {input = 0, output = 1000000}\n'
    )

    def pays(case: Any, trial: Any) -> str:
        trial.report(cost=0.25)
        return ask("paid", case.input).text

    results = run(study(pays, cases=["one two"]), store="s.db", progress=False)
    assert results.trials[0].cost == pytest.approx(2.25)


def test_what_is_missing_for_tools_is_said_before_the_run() -> None:
    made = study(
        agent=agent("scripted:echo", tools=[mcp(["x"], env=["NOT_SET_HERE"])]), name="m", cases=["x"]
    )
    with pytest.raises(Invalid, match="agent: mcp: the variable NOT_SET_HERE is not set"):
        run(made, store="s.db", progress=False)
