"""Other values for fields of a study, by dotted keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Block, Case, Factor, Level, Study
from peira.errors import Invalid
from peira.plan.expansion import expand
from peira.spec.fields.overrides import overridden, read_overrides


def agent(case, style, n, day="mon"):
    return case.input


def made(**fields: Any) -> Study:
    return Study(
        name="s",
        agent=agent,
        cases=[Case("a"), Case("b")],
        factors=[Factor("style", [Level("long text", label="long"), "short"]), Factor("n", [1, 2])],
        blocks=[Block("day", ["mon", "tue"])],
        policy={"retries": 1},
        **fields,
    )


def trials(study: Study) -> list[str]:
    plan = expand(study)
    return [plan.layout.trial_id(place) for place in plan.layout.places()]


def test_fields_and_their_parts_are_replaced() -> None:
    study = overridden(
        made(),
        {
            "seed": 3,
            "repeats": 2,
            "policy.timeout": "5s",
            "budget.per_trial.calls": 4,
            "factors.n": [1, 2, 3],
            "factors.style.baseline": "short",
            "blocks.day": ["mon"],
            "title": "T",
        },
    )
    assert (study.seed, study.repeats, study.title) == (3, 2, "T")
    assert (study.policy.retries, study.policy.timeout) == (1, 5.0)
    assert study.budget.per_trial.calls == 4
    style, n = study.factors
    assert (n.values, style.labels, style.baseline) == ((1, 2, 3), ("long",), "short")
    assert study.blocks[0].values == ("mon",)
    assert len(trials(study)) == 2 * 3 * 2 * 2


def test_designs_keep_their_other_parameters() -> None:
    asked = made(design={"name": "latin_hypercube", "runs": 4})
    study = overridden(asked, {"design.runs": 6})
    assert (study.design.name, study.design.parameters) == ("latin_hypercube", {"runs": 6})
    assert overridden(asked, {"design": "full_factorial"}).design.parameters == {}


def test_several_agents_take_the_place_of_one() -> None:
    study = overridden(made(), {"agents": {"one": agent, "two": agent}})
    assert (list(study.agents), study.labelled) == (["one", "two"], True)


KEYS = ["seed", "repeats", "order", "title", "policy.retries", "anchors"]


@given(st.sets(st.sampled_from(KEYS), min_size=1))
def test_what_is_set_to_what_it_is_changes_no_trial(keys: set[str]) -> None:
    study = made(seed=4, repeats=3, title="T")
    same = {key: study.policy.retries if "." in key else getattr(study, key) for key in keys}
    again = overridden(study, same)
    assert trials(again) == trials(study)
    assert again.model_fields_set >= study.model_fields_set


def test_nothing_else_counts_as_given() -> None:
    assert "seed" not in overridden(made(), {"repeats": 2}).model_fields_set


def test_the_file_of_cases_is_remembered(tmp_path: Any) -> None:
    (tmp_path / "cases.jsonl").write_text('{"input": "a"}\n')
    study = Study(name="s", agent=lambda case: 1, cases=str(tmp_path / "cases.jsonl"))
    assert overridden(study, {"seed": 1}).sources == study.sources
    assert overridden(study, {"cases": [{"input": "b"}]}).sources == {}


def test_every_problem_is_told() -> None:
    with pytest.raises(Invalid) as error:
        overridden(made(), {"sed": 1, "policy.retris": 2, "repeats": 0})
    assert [line.partition(":")[0] for line in error.value.problems] == ["sed", "policy.retris", "repeats"]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("seed=3", "seed", 3),
        ("title=a = b", "title", "a = b"),
        (" factors.n = [1, 2]", "factors.n", [1, 2]),
        ("policy.fail_fast=true", "policy.fail_fast", True),
        ("order=given", "order", "given"),
        ("title=NaN", "title", "NaN"),
        ('title="3"', "title", "3"),
    ],
)
def test_values_are_json_or_text(text: str, key: str, value: Any) -> None:
    assert read_overrides([text]) == {key: value}


def test_what_has_no_key_is_refused() -> None:
    with pytest.raises(Invalid) as error:
        read_overrides(["seed", "=3", "seed=3"])
    assert len(error.value.problems) == 2
