"""The full factorial: all combinations, lazily."""

from __future__ import annotations

import math
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.factorial.full import FullFactorial
from peira.errors import Invalid


def space_of(*levels: int) -> Space:
    return Space(tuple(Dimension(f"x{nth}", tuple(range(count))) for nth, count in enumerate(levels)))


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(1, 3))
def test_every_combination_once(levels: list[int], replicates: int) -> None:
    space = space_of(*levels)
    design = FullFactorial(replicates=replicates)
    points = list(design.points(space, 0))
    assert (
        len({tuple(p.factors.items()) for p in points})
        == len(points)
        == design.size(space)
        == math.prod(levels)
    )
    assert {p.replicates for p in points} == {replicates}


def test_the_order_of_factors_changes_nothing_but_the_order() -> None:
    space = space_of(2, 3, 4)
    turned = Space(space.dimensions[::-1])
    one = {tuple(sorted(p.factors.items())) for p in FullFactorial().points(space, 0)}
    assert one == {tuple(sorted(p.factors.items())) for p in FullFactorial().points(turned, 0)}


def test_ten_million_million_combinations_cost_nothing() -> None:
    space = space_of(*[10] * 13)
    tracemalloc.start()
    design = FullFactorial()
    assert design.size(space) == 10**13
    assert len(list(islice(design.points(space, 0), 1000))) == 1000
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_ranges_take_the_levels_they_are_told() -> None:
    space = Space(
        (
            Dimension("temperature", scale="continuous", low=0, high=2),
            Dimension("rate", scale="continuous", low=1, high=100, log=True),
            Dimension("count", scale="integer", low=1, high=4),
        )
    )
    points = list(FullFactorial(levels={"temperature": 5, "rate": 3, "count": 2}).points(space, 0))
    assert sorted({p.factors["temperature"] for p in points}) == [0, 0.5, 1, 1.5, 2]
    assert sorted({p.factors["rate"] for p in points}) == [1, 10, 100]
    assert sorted({p.factors["count"] for p in points}) == [1, 4]
    assert FullFactorial(levels=3).size(space) == 27


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        (None, "t: is a range; say how many values of it full_factorial takes, as levels = {t = 3}"),
        ({"t": 3, "style": 2}, "levels.style: it has its own 2 levels; leave it out"),
        ({"tt": 3}, "levels: no factor 'tt'; did you mean 't'"),
        ({"t": 3, "n": 4}, "levels.n: 4 values round to 3 whole numbers"),
    ],
)
def test_levels_that_do_not_fit(levels: dict[str, int] | None, problem: str) -> None:
    space = Space(
        (
            Dimension("t", scale="continuous", low=0, high=1),
            Dimension("style", ("a", "b")),
            Dimension("n", scale="integer", low=1, high=3),
        )
    )
    for ask in (FullFactorial(levels=levels).size, lambda s: FullFactorial(levels=levels).points(s, 0)):
        with pytest.raises(Invalid) as error:
            ask(space)
        assert problem in str(error.value)


def test_bad_parameters_are_told_at_once() -> None:
    with pytest.raises(Invalid) as error:
        FullFactorial(levels={"t": 1, "u": "x", "v": 10**9}, center=-1, replicates=True)  # type: ignore[dict-item]
    assert len(error.value.problems) == 5
    with pytest.raises(Invalid, match="no factor is a range; leave it out"):
        FullFactorial(levels=3).size(space_of(2, 2))


def test_centre_runs() -> None:
    space = Space(
        (
            Dimension("t", scale="continuous", low=0, high=1),
            Dimension("size", ("s", "m", "l"), scale="ordinal"),
        )
    )
    design = FullFactorial(levels=2, center=4, replicates=2)
    points = list(design.points(space, 0))
    assert len(points) == design.size(space) == 7
    assert points[-1].factors == {"t": 0.5, "size": "m"}
    assert points[-1].replicates == 4
    with pytest.raises(Invalid, match="it is one of the combinations already; say replicates"):
        FullFactorial(levels=3, center=1).size(space)
    with pytest.raises(Invalid, match="style: has no centre"):
        FullFactorial(center=1).points(Space((Dimension("style", ("a", "b", "c")),)), 0)


def test_a_study_without_factors_has_one_run() -> None:
    assert [p.factors for p in FullFactorial().points(Space(()), 0)] == [{}]
    assert FullFactorial().size(Space(())) == 1


def test_a_factor_without_levels_is_refused() -> None:
    with pytest.raises(Invalid, match="x: has no levels"):
        FullFactorial().size(Space((Dimension("x"),)))
