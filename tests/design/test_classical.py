"""What every classical design promises, whatever its kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.registry import Registry
from peira.core.space import Dimension, Space
from peira.design import custom, screening
from peira.design import orthogonal_array as orthogonal
from peira.design import response_surface as surface
from peira.design.factorial import fractional, one_factor
from peira.design.factorial import full as factorial
from peira.errors import Invalid

ROOMS = (custom, factorial, fractional, one_factor, orthogonal, screening, surface)
NAMES = (
    "box_behnken",
    "central_composite",
    "custom",
    "definitive_screening",
    "fractional_factorial",
    "full_factorial",
    "one_factor_at_a_time",
    "orthogonal_array",
    "plackett_burman",
)

# Each with factors that are ranges; how many, and the parameters.
DESIGNS: dict[str, tuple[Callable[..., Any], int, dict[str, Any]]] = {
    "full": (factorial.FullFactorial, 3, {"levels": 3}),
    "full with centre": (factorial.FullFactorial, 3, {"levels": 2, "center": 3, "replicates": 2}),
    "fraction": (fractional.FractionalFactorial, 6, {"runs": 16}),
    "fraction in blocks": (fractional.FractionalFactorial, 6, {"resolution": 4, "blocks": 4, "center": 2}),
    "fraction folded": (
        fractional.FractionalFactorial,
        7,
        {"runs": 8, "foldover": "all", "foldover_block": True},
    ),
    "plackett": (screening.PlackettBurman, 9, {"center": 2}),
    "plackett folded": (screening.PlackettBurman, 5, {"foldover": True, "replicates": 3}),
    "definitive": (screening.DefinitiveScreening, 7, {"fake": 1}),
    "array": (orthogonal.OrthogonalArray, 5, {"levels": 3}),
    "strong array": (orthogonal.OrthogonalArray, 4, {"levels": 3, "strength": 3}),
    "composite": (surface.CentralComposite, 4, {"variant": "inscribed", "center": 4}),
    "composite of a fraction": (surface.CentralComposite, 6, {"core": "fraction", "replicates": 2}),
    "box": (surface.BoxBehnken, 9, {}),
    "one factor": (one_factor.OneFactorAtATime, 4, {"levels": 3}),
}


def ranges(names: list[str]) -> Space:
    return Space(tuple(Dimension(name, scale="continuous", low=0, high=8) for name in names))


@pytest.fixture(params=DESIGNS.values(), ids=DESIGNS)
def case(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], int, dict[str, Any]]:
    found: tuple[Callable[..., Any], int, dict[str, Any]] = request.param
    return found


def test_every_room_registers_its_designs() -> None:
    known: dict[str, Callable[..., Any]] = {}

    class Book(Registry):
        def add(self, kind: str, name: str, make: Callable[..., Any]) -> None:
            assert kind == "design"
            known[name] = make

    for room in ROOMS:
        room.register(Book())
    assert tuple(sorted(known)) == NAMES
    for name, make in known.items():
        assert make.name == name  # type: ignore[attr-defined]
        assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(make).parameters.values())


def test_the_size_is_the_number_of_points_and_none_is_there_twice(
    case: tuple[Callable[..., Any], int, dict[str, Any]],
) -> None:
    make, factors, parameters = case
    space = ranges([f"x{nth}" for nth in range(factors)])
    points = list(make(**parameters).points(space, 0))
    assert len(points) == make(**parameters).size(space)
    assert len({(tuple(p.factors.items()), p.block) for p in points}) == len(points)
    assert all(tuple(p.factors) == space.names for p in points)
    assert all(0 <= value <= 8 for p in points for value in p.factors.values())


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(DESIGNS)), st.integers(0, 2**63), st.randoms(use_true_random=False))
def test_same_seed_same_design_and_names_do_not_matter(name: str, seed: int, random: Any) -> None:
    make, factors, parameters = DESIGNS[name]
    names = [f"x{nth}" for nth in range(factors)]
    points = list(make(**parameters).points(ranges(names), seed))
    assert list(make(**parameters).points(ranges(names), seed)) == points
    turned = random.sample(names, factors)
    # Factors take the columns in the order of the space, whatever they are called.
    again = list(make(**parameters).points(ranges(turned), seed))
    assert [tuple(p.factors.values()) for p in again] == [tuple(p.factors.values()) for p in points]


@pytest.mark.parametrize("name", sorted(set(DESIGNS) - {"full", "full with centre"}))
def test_degenerate_spaces_are_refused_at_once(name: str) -> None:
    make, factors, parameters = DESIGNS[name]
    ranged = ranges([f"x{nth}" for nth in range(factors - 1)])
    for space, problem in (
        (Space(()), "no factors"),
        (Space((*ranged.dimensions, Dimension("one", ("only",)))), "one: has one level, 'only'"),
        (Space((*ranged.dimensions, Dimension("none"))), "none: has no levels"),
        (
            Space((*ranged.dimensions, Dimension("r", low=1, high=1, scale="continuous"))),
            "r: low must be below high",
        ),
    ):
        design = make(**parameters)
        for ask in (design.size, lambda s, d=design: d.points(s, 0)):
            with pytest.raises(Invalid) as error:
                ask(space)
            assert problem in str(error.value)
