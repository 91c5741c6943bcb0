"""Effects in a stated model: its terms, also where the conditions cannot tell all apart."""

from __future__ import annotations

import numpy as np
import pytest

from peira.analysis.effects.factor_effects import parse_formula
from peira.errors import Invalid

HALF = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
"""The half fraction of three factors in which every factor is aliased with an interaction."""


def gathered(trial, results, runs):
    rng = np.random.default_rng(2)
    trials = []
    for case in range(12):
        ease = rng.normal()
        for a, b, c in runs:
            value = ease + 2 * a + 3 * a * b + rng.normal(0, 0.2)
            trials.append(trial(f"{case}", value, a=str(a), b=str(b), c=str(c)))
    return results(trials)


def test_terms_of_a_formula():
    factors = ["a", "b", "c"]
    assert parse_formula("main", factors) == [("a",), ("b",), ("c",)]
    assert parse_formula("b:a + c", factors) == [("b",), ("a",), ("a", "b"), ("c",)]
    assert parse_formula("interactions", factors)[3:] == [("a", "b"), ("a", "c"), ("b", "c")]
    every = [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert parse_formula("a * b * c", factors) == every


def test_all_problems_of_a_formula_at_once():
    with pytest.raises(Invalid) as refused:
        parse_formula("stile + model:model + model^2", ["model", "style"])
    assert list(refused.value.problems) == [
        "formula: no factor 'stile'; did you mean 'style'?",
        "formula: model:model: names a factor twice",
        "formula: model^2: levels have no squares here; `surface` fits them",
    ]


def test_a_stated_interaction_is_estimated_where_the_default_takes_the_main_effect(trial, results):
    found = gathered(trial, results, HALF)
    default = {one.term for one in found.effects().tests}
    assert default == {"a", "b", "c"}
    stated = found.effects(formula="a + b + a:b")
    assert [one.term for one in stated.tests] == ["a", "b", "a x b"]
    assert stated.effect("a x b").estimate.mean == pytest.approx(3, abs=0.3)
    assert "in the model a + b + a:b" in stated.remarks


def test_a_smaller_model_leaves_more_information(trial, results):
    every = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    found = gathered(trial, results, every)
    assert [one.term for one in found.effects(formula="a * b").tests] == ["a", "b", "a x b"]
    assert found.effects(formula="main").effect("a").estimate == found.effects(order=1).effect("a").estimate
    with pytest.raises(Invalid, match="leave out those beside it"):
        found.effects("a", formula="main")


def test_the_model_that_the_design_was_made_for_is_named(tmp_path):
    from peira import Factor, Study, run
    from peira.stores.memory import MemoryStore

    study = Study(
        name="planned",
        agent=lambda case, a, b: len(case.input) + a * b,
        cases=["x", "yy", "zzz"],
        factors=[Factor(name="a", levels=[0, 1]), Factor(name="b", levels=[0, 1])],
        design={"name": "d_optimal", "runs": 4, "formula": "a + b + a:b"},
    )
    results = run(study, store=MemoryStore(), progress=False)
    named = "the design was made for the model a + b + a:b, which formula= asks for"
    assert named in results.effects(score="took").remarks
    assert named not in results.effects(score="took", formula="main").remarks
