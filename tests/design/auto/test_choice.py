"""`auto`: the smallest design that will do is taken, it does what is asked, and everything is explained."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.registry import registry
from peira.core.space import Dimension, Point, Space
from peira.design.auto.candidates import (
    CandidateDesign,
    Requirement,
    arrange_columns,
    assess,
    candidate_designs,
    generators,
)
from peira.design.auto.choice import Auto, asked_of, formula_of
from peira.design.diagnose.design_matrix import design_matrix
from peira.design.diagnose.diagnosis import Diagnosis, diagnose
from peira.design.diagnose.effect_power import Assumed
from peira.design.factorial.fractional import FractionalFactorial, by_runs
from peira.design.model import parse
from peira.errors import Invalid
from peira.spec.study import study

LETTERS = "ABCDEFGHJKLMNOP"


def two_level(factors: int) -> Space:
    return Space(tuple(Dimension(name, ("low", "high")) for name in LETTERS[:factors]))


MIXED = Space(
    (
        Dimension("model", ("a", "b", "c")),
        Dimension("style", ("plain", "think")),
        Dimension("tone", ("x", "y", "z")),
        Dimension("temp", low=0, high=1, scale="continuous"),
    )
)


def taken(auto: Auto, space: Space) -> tuple[str, Mapping[str, Any]]:
    found = auto.choice(space).taken
    assert found is not None
    return found.contender.name, found.contender.parameters


def looked_at(auto: Auto, space: Space, formula: str | None = None, **assumed: Any) -> Diagnosis:
    return diagnose(space, auto.points(space, 0), formula, Assumed(**assumed))


@pytest.mark.parametrize(
    ("factors", "clear", "runs"),
    [
        (3, True, 8),
        (4, True, 8),
        (5, True, 16),
        (7, True, 16),
        (8, True, 16),
        (3, False, 4),
        (7, False, 8),
        (11, False, 12),
        (15, False, 16),
    ],
)
def test_main_effects_of_two_levels_take_the_smallest_there_is(factors: int, clear: bool, runs: int) -> None:
    """Resolution IV needs 2k runs at least, resolution III one more run than factors."""
    space, auto = two_level(factors), Auto(clear=clear, cases=10)
    assert sum(point.replicates for point in auto.points(space, 0)) == runs
    found = looked_at(auto, space, "main", cases=10)
    assert found.unestimable == ()
    if clear:
        assert all(one.with_interactions == 0 for one in found.clarity if one.order == 1)


def test_what_a_hypothesis_names_is_clear_and_the_rest_may_not_be() -> None:
    space = two_level(7)
    auto = Auto(aims=["A", "F:G"], cases=10)
    found = {one.effect: one for one in looked_at(auto, space).clarity}
    assert auto.size(space) == 32
    assert found["A"].clear
    assert found["F:G"].clear
    assert not all(one.clear for one in found.values())
    assert taken(auto, space)[0] == "fractional_factorial"


@pytest.mark.parametrize("effect", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("case_noise", [0.0, 0.2])
def test_the_power_that_was_asked_for_is_there(effect: float, case_noise: float) -> None:
    asked: dict[str, Any] = {
        "effect": effect,
        "noise": 0.8,
        "case_noise": case_noise,
        "cases": 12,
        "repeats": 2,
    }
    space = two_level(5)
    auto = Auto(power=0.9, **asked)
    found = looked_at(auto, space, "interactions", power=0.9, **asked)
    assert min(one.power or 0 for one in found.powers[:5]) >= 0.9 - 1e-9


def test_a_smaller_number_of_replicates_would_not_have_the_power() -> None:
    space, asked = two_level(5), {"effect": 0.1, "cases": 12}
    auto = Auto(**asked)  # type: ignore[arg-type]
    name, parameters = taken(auto, space)
    need = Requirement(space, parse("main", space)[1:], True, Assumed(**asked))  # type: ignore[arg-type]
    fewer = {**parameters, "replicates": parameters["replicates"] - 1}
    points = list(CandidateDesign(name, fewer).design.points(space, 0))
    found = diagnose(space, points, "interactions", need.assumed)
    assert min(one.power or 0 for one in found.powers[:5]) < 0.8


def test_within_the_budget_or_refused_with_the_nearest_that_would_do() -> None:
    space = two_level(7)
    auto = Auto(cases=20, trials=320)
    assert sum(p.replicates for p in auto.points(space, 0)) * 20 <= 320
    with pytest.raises(Invalid) as caught:
        Auto(cases=20, trials=319).size(space)
    first, *rest = caught.value.problems
    assert first == (
        "no design tells A, B, C, D, E, F and G as asked within 319 trials; the smallest is "
        "fractional_factorial(runs = 16) with 320: raise budget.trials to that, or say clear = false"
    )
    assert len(rest) == len(list(candidate_designs(space, parse("main", space)[1:], clear=True))) + 1


def test_every_contender_is_explained() -> None:
    space = two_level(7)
    lines = Auto(cases=20, effect=0.5).why(space)
    assert lines[0] == "chosen: fractional_factorial(runs = 16): 16 runs x 20 cases x 1 repeat = 320 trials"
    assert lines[1] == "it estimates A, B, C, D, E, F and G, clear of two-way interactions"
    assert lines[2].startswith("a difference of 0.5 is seen with a chance of at least 98.1%")
    assert "not full_factorial (128 runs): 16 runs will do" in lines
    assert any(line.startswith("not plackett_burman (8 runs): A is confounded with ") for line in lines)
    assert any(line.startswith("not definitive_screening: A: is categorical") for line in lines)
    kinds = {line.split()[1].partition("(")[0].rstrip(":") for line in (lines[0], *lines[3:])}
    assert kinds == {
        *["full_factorial", "fractional_factorial", "orthogonal_array", "plackett_burman"],
        *["definitive_screening", "d_optimal"],
    }


def test_mixed_levels_and_ranges() -> None:
    auto = Auto(cases=20, effect=0.5)
    found = looked_at(auto, MIXED, "interactions", cases=20, effect=0.5)
    assert taken(auto, MIXED)[0] == "d_optimal"
    assert found.unestimable == ()
    assert min(one.power or 0 for one in found.powers[:4]) >= 0.8
    assert found.runs < 36


def test_constraints_are_honoured_and_what_they_hide_is_said() -> None:
    space = Space(MIXED.dimensions, lambda p: not (p["model"] == "c" and p["style"] == "think"))
    auto = Auto(cases=20, effect=0.5)
    run = [point for point in auto.points(space, 0) if space.allows(point.factors)]
    found = diagnose(space, run, "main", Assumed(cases=20, effect=0.5))
    assert found.unestimable == ()
    assert min(one.power or 0 for one in found.powers) >= 0.8
    assert auto.why(space)[1].endswith("if model x style is nothing (it is hidden)")


def test_squares_take_three_places() -> None:
    space = Space(tuple(Dimension(n, low=0, high=1, scale="continuous") for n in "xyz"))
    auto = Auto(formula="main + x^2 + y^2 + z^2", clear=False, cases=5)
    found = looked_at(auto, space, "main + x^2 + y^2 + z^2")
    assert found.unestimable == ()
    assert found.runs <= 10


def test_factors_that_do_not_vary_stay_as_they_are() -> None:
    space = Space((Dimension("k", ("only",)), Dimension("m", ("a", "b"))), lambda p: p["k"] == "only")
    points = list(Auto(cases=10).points(space, 0))
    assert [point.factors for point in points] == [{"k": "only", "m": "a"}, {"k": "only", "m": "b"}]
    assert [p.factors for p in Auto().points(Space((Dimension("k", ("only",)),)), 0)] == [{"k": "only"}]
    assert Auto().why(Space(())) == ["nothing varies, so there is one run"]


def test_the_choice_is_the_same_for_every_seed() -> None:
    runs = [list(Auto(cases=20, effect=0.5).points(MIXED, seed)) for seed in (0, 1)]
    assert runs[0] == runs[1]


def test_one_case_leaves_something_to_tell_the_noise_by() -> None:
    space = two_level(2)
    found = looked_at(Auto(), space, "interactions")
    assert all(one.smallest is not None for one in found.powers)


@given(levels=st.lists(st.integers(2, 3), min_size=1, max_size=4), clear=st.booleans())
@settings(max_examples=15, deadline=None)
def test_what_is_taken_estimates_what_is_asked(levels: list[int], clear: bool) -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(count))) for n, count in enumerate(levels)))
    auto = Auto(clear=clear, cases=12)
    points = list(auto.points(space, 0))
    assert auto.size(space) == len(points)
    found = diagnose(space, points, "main", Assumed(cases=12))
    assert found.unestimable == ()
    assert all(one.smallest is not None for one in found.powers)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"formula": "modle"}, "no factor 'modle'; did you mean 'model'"),
        ({"formula": "1"}, "names no effect"),
        ({"formula": 3}, "formula: must be a text"),
        ({"aims": "model"}, "aims: must be a list"),
        ({"clear": 1}, "clear: must be true or false"),
        ({"trials": 0}, "trials: must be at least 1"),
        ({"power": 1.2}, "power: must be between 0.05 and 1"),
        ({"effect": 0}, "effect: must be a number above 0"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        Auto(**parameters).size(MIXED)


def test_too_large_for_anything() -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(10))) for n in range(9)))
    with pytest.raises(Invalid, match="say clear = false for less"):
        Auto().size(space)
    with pytest.raises(Invalid, match="is nested; auto does not take it"):
        Auto().size(Space((Dimension("a", (1, 2)), Dimension("b", (1, 2), parent="a"))))


def test_it_is_on_the_shelf() -> None:
    assert isinstance(registry.make("design", "auto", effect=0.5), Auto)


def test_a_study_says_what_is_asked() -> None:
    def agent(case: object, model: str, style: str) -> str:
        return ""

    asked = study(
        cases=["a", "b", "c"],
        factors={"model": ["m", "n"], "style": ["p", "q"]},
        blocks={"day": ["mon", "tue"]},
        hypotheses=[{"id": "h", "factor": "model", "alpha": 0.01}],
        repeats=4,
        budget={"trials": 100},
    )(agent)
    assert asked_of(asked) == {"aims": ["model"], "alpha": 0.01, "cases": 3, "repeats": 4, "trials": 50}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("A + B + C", "main"),
        ("A*B + A*C + B*C", "interactions"),
        ("A + B + C + A:B", "main + A:B"),
        ("A + B", "A + B"),
    ],
)
def test_formulas_are_written_short(names: str, said: str) -> None:
    space = two_level(3)
    assert formula_of(parse(names, space), space) == said
    assert {*parse(said, space)} == {*parse(names, space)}


@given(
    factors=st.integers(5, 8),
    bits=st.integers(4, 6),
    wanted=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_factors_are_put_where_the_wanted_interactions_are_clear(
    factors: int, bits: int, wanted: list[tuple[int, int]]
) -> None:
    pairs = {frozenset((LETTERS[a], LETTERS[b])) for a, b in wanted if a != b and max(a, b) < factors}
    if not pairs or bits >= factors:
        return
    names, columns = LETTERS[:factors], by_runs(1 << bits, factors).columns
    found = arrange_columns(names, columns, pairs, clear=True)
    if found is None:
        return
    sums = [a ^ b for a, b in combinations(found, 2)]
    for pair in pairs:
        a, b = (found[names.index(name)] for name in pair)
        assert sums.count(a ^ b) == 1
        assert a ^ b not in found
    space = two_level(factors)
    points = FractionalFactorial(generators=generators(names, found)).points(space, 0)
    clear = {frozenset(one.effect.split(":")) for one in diagnose(space, points).clarity if one.clear}
    assert pairs <= clear


def test_the_best_arrangement_is_found_where_there_is_one() -> None:
    """In 32 runs of 7 factors 15 interactions are clear (Wu and Hamada), all those of a factor among them."""
    columns = by_runs(32, 7).columns
    sums = [a ^ b for a, b in combinations(columns, 2)]
    assert sum(sums.count(one) == 1 and one not in columns for one in sums) == 15
    star = {frozenset(("G", name)) for name in "ABCDEF"}
    assert arrange_columns("ABCDEFG", columns, star, clear=True) is not None
    every = {frozenset(pair) for pair in combinations("ABCDEFG", 2)}
    assert arrange_columns("ABCDEFG", columns, every, clear=True) is None


def test_a_contender_under_constraints_is_weighed_by_what_is_left_of_it() -> None:
    space = Space(two_level(3).dimensions, lambda p: p["A"] == "low" or p["B"] == "low")
    need = Requirement(space, parse("main", space)[1:], False, Assumed(cases=5))
    found = assess(CandidateDesign("full_factorial", {}), need)
    assert found.runs == 6
    left = [Point(dict(zip("ABC", row, strict=True))) for row in product(("low", "high"), repeat=3)]
    assert design_matrix(space, [p for p in left if space.allows(p.factors)]).runs == 6
