"""The orthogonal array as a design: which array is taken, and what the points are."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Point, Space
from peira.design.orthogonal_array import OrthogonalArray
from peira.errors import Invalid


def space_of(*levels: int) -> Space:
    return Space(
        tuple(Dimension(f"x{nth}", tuple(f"l{i}" for i in range(count))) for nth, count in enumerate(levels))
    )


def runs(points: list[Point]) -> int:
    return sum(point.replicates for point in points)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((2, 2, 2), 4), ((2,) * 7, 8), ((2,) * 11, 12), ((3,) * 4, 9), ((2, 3, 3, 3), 18), ((3, 2, 2, 2), 12),
        ((3,) * 13, 27), ((4, 2, 2, 2, 2), 8), ((4, 4, 4), 16), ((5,) * 6, 25), ((2, 2, 3, 3), 36),
        ((6, 3, 3), 18), ((3, 4, 2, 2), 24), ((5, 2, 2), 20), ((7, 2, 2, 2), 28), ((5, 5, 2), 50),
        ((3, 5), 15), ((2, 3, 5), 30),
    ],
)  # fmt: skip
def test_the_smallest_array_is_taken(levels: tuple[int, ...], expected: int) -> None:
    points = list(OrthogonalArray().points(space_of(*levels), 0))
    assert runs(points) == expected


def test_an_array_by_name() -> None:
    space = space_of(2, 3, 3)
    design = OrthogonalArray(array="L36", replicates=2)
    points = list(design.points(space, 0))
    assert runs(points) == 72
    assert len(points) == design.size(space)
    with pytest.raises(Invalid, match=r"L16 does not hold 2\^1 3\^2 with strength 2; say array = 'L18'"):
        OrthogonalArray(array="L16").size(space)


def test_strength_three() -> None:
    points = list(OrthogonalArray(strength=3).points(space_of(3, 3, 3, 3), 0))
    assert runs(points) == 27
    for chosen in combinations(("x0", "x1", "x2", "x3"), 3):
        assert len({tuple(p.factors[name] for name in chosen) for p in points}) == 27


def test_ranges_need_a_number_of_levels() -> None:
    space = Space((Dimension("t", scale="continuous", low=0, high=1), *space_of(3, 3).dimensions))
    points = list(OrthogonalArray(levels={"t": 3}).points(space, 0))
    assert {p.factors["t"] for p in points} == {0, 0.5, 1}
    with pytest.raises(Invalid, match="t: is a range; say how many values"):
        OrthogonalArray().points(space, 0)


@pytest.mark.parametrize("name", ["18", "L", "L0", "L9999", "l18", 18])
def test_names_of_arrays(name: object) -> None:
    with pytest.raises(Invalid, match='as "L18"'):
        OrthogonalArray(array=name)  # type: ignore[arg-type]


def test_what_is_too_large_is_told_at_once() -> None:
    with pytest.raises(Invalid, match=r"no orthogonal array of up to 1024 runs .* 10\^30"):
        OrthogonalArray().size(space_of(*[10] * 30))
    with pytest.raises(Invalid, match="strength: must be at most 3"):
        OrthogonalArray(strength=4)
    with pytest.raises(Invalid, match="x1: has one level"):
        OrthogonalArray().size(space_of(2, 1))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([2, 2, 3, 4]), min_size=2, max_size=7))
def test_every_pair_of_levels_comes_equally_often(levels: list[int]) -> None:
    space = space_of(*levels)
    design = OrthogonalArray()
    points = list(design.points(space, 1))
    assert len(points) == design.size(space)
    assert len({tuple(p.factors.items()) for p in points}) == len(points)
    for one, other in combinations(space.dimensions, 2):
        counts: Counter[tuple[object, object]] = Counter()
        for p in points:
            counts[p.factors[one.name], p.factors[other.name]] += p.replicates
        assert len(counts) == len(one.levels) * len(other.levels)
        assert len(set(counts.values())) == 1
