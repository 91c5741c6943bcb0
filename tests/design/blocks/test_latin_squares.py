"""Latin and Graeco-Latin squares: every pair of factors is crossed once, for every order there is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Point, Space
from peira.design.blocks.latin_squares import GraecoLatinSquare, LatinSquare, orthogonal
from peira.errors import Invalid


def square(order: int, factors: int) -> Space:
    return Space(tuple(Dimension(f"f{n}", tuple(range(order))) for n in range(factors)))


def crossed_once(space: Space, design: LatinSquare, seed: int) -> bool:
    order = len(space.dimensions[0].levels)
    points = [tuple(point.factors.values()) for point in design.points(space, seed)]
    pairs = combinations(range(len(space.dimensions)), 2)
    return all(len({(p[a], p[b]) for p in points}) == order**2 == len(points) for a, b in pairs)


@settings(max_examples=40)
@given(st.integers(2, 12), st.integers(-99, 99))
def test_latin_squares_of_any_order(order: int, seed: int) -> None:
    space = square(order, 3)
    assert LatinSquare().size(space) == order**2
    assert crossed_once(space, LatinSquare(), seed)


@pytest.mark.parametrize("order", [3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 20, 21])
def test_graeco_latin_squares(order: int) -> None:
    space = square(order, 4)
    assert GraecoLatinSquare().size(space) == order**2
    assert crossed_once(space, GraecoLatinSquare(), order)


@pytest.mark.parametrize("order", [n for n in range(2, 60) if n % 4 != 2 or n == 10])
def test_there_are_orthogonal_squares_of_all_orders_promised(order: int) -> None:
    runs = orthogonal(order)
    assert runs is not None
    assert all(len({(r[a], r[b]) for r in runs}) == order**2 for a, b in combinations(range(4), 2))


@pytest.mark.parametrize(("order", "near"), [(2, "give 3 "), (6, "give 5 or 7 "), (14, "give 13 or 15 ")])
def test_orders_that_are_not_there(order: int, near: str) -> None:
    with pytest.raises(Invalid, match=near):
        GraecoLatinSquare().points(square(order, 4), 0)


def test_seeds_give_other_squares_and_the_same_seed_the_same() -> None:
    space = square(5, 3)
    made = [tuple(tuple(p.factors.values()) for p in LatinSquare().points(space, seed)) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert len({frozenset(one) for one in made}) == 2


def test_every_square_of_order_four_is_reached_as_often() -> None:
    """144 of 576 squares are like Klein's group (twelve subsquares of order two), the others are cyclic."""
    rounds, space = 400, square(4, 3)
    klein = sum(_subsquares(LatinSquare().points(space, seed)) == 12 for seed in range(rounds))
    assert abs(klein - rounds / 4) < 4 * (rounds * 3 / 16) ** 0.5


def _subsquares(points: Iterable[Point]) -> int:
    cells = {(a, b): c for a, b, c in (tuple(point.factors.values()) for point in points)}
    rows, columns = ({cell[i] for cell in cells} for i in (0, 1))
    return sum(
        cells[a, c] == cells[b, d] and cells[a, d] == cells[b, c]
        for a, b in combinations(rows, 2)
        for c, d in combinations(columns, 2)
    )


def test_factors_that_do_not_fit_are_named() -> None:
    uneven = Space((*square(4, 2).dimensions, Dimension("style", ("a", "b"))))
    with pytest.raises(Invalid, match="style: has 2 levels; latin_square needs 4"):
        LatinSquare().size(uneven)
    with pytest.raises(Invalid, match="takes 3 factors, not 2; for two take randomized_block"):
        LatinSquare().size(square(3, 2))
    with pytest.raises(Invalid, match="for three take latin_square"):
        GraecoLatinSquare().size(square(3, 3))
    with pytest.raises(Invalid, match="there are no factors"):
        LatinSquare().size(Space(()))
