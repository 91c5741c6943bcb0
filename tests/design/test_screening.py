"""Screening designs: published runs, orthogonality, and what is clear of what."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from peira.core.space import Dimension, Space
from peira.design.screening import DefinitiveScreening, PlackettBurman
from peira.errors import Invalid


def two_level(factors: int) -> Space:
    return Space(tuple(Dimension(f"x{nth}", (-1, 1)) for nth in range(factors)))


def ranges(factors: int) -> Space:
    return Space(tuple(Dimension(f"x{nth}", scale="continuous", low=-1, high=1) for nth in range(factors)))


def matrix(design: PlackettBurman | DefinitiveScreening, space: Space) -> NDArray[np.float64]:
    points = design.points(space, 0)
    rows = [
        [point.factors[name] for name in space.names] for point in points for _ in range(point.replicates)
    ]
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("runs", [12, 20, 24, 28, 36, 40, 44, 92, 100])
def test_plackett_burman_is_saturated_and_orthogonal(runs: int) -> None:
    space = two_level(runs - 1)
    rows = matrix(PlackettBurman(), space)
    assert rows.shape == (runs, runs - 1)
    assert (rows.T @ rows == runs * np.eye(runs - 1)).all()
    assert (rows.sum(axis=0) == 0).all()


def test_the_published_first_runs() -> None:
    first = {12: "++-+++---+-", 20: "++--++++-+-+----++-", 24: "+++++-+-++--++--+-+----"}
    for runs, signs in first.items():
        row = matrix(PlackettBurman(), two_level(runs - 1))[0]
        assert "".join("+" if x > 0 else "-" for x in row) == signs


@pytest.mark.parametrize(
    ("factors", "runs"), [(2, 4), (3, 4), (4, 8), (7, 8), (8, 12), (11, 12), (12, 16), (19, 20)]
)
def test_the_smallest_number_of_runs(factors: int, runs: int) -> None:
    assert len(matrix(PlackettBurman(), two_level(factors))) == runs


def test_every_interaction_of_two_is_spread_over_other_main_effects_in_twelve_runs() -> None:
    rows = matrix(PlackettBurman(), two_level(11))
    for i, j in combinations(range(11), 2):
        shared = rows.T @ (rows[:, i] * rows[:, j]) / 12
        assert sorted(np.abs(np.round(shared * 3)).tolist()) == [0.0] * 2 + [1.0] * 9


def test_a_foldover_clears_main_effects_of_interactions() -> None:
    rows = matrix(PlackettBurman(foldover=True), two_level(11))
    assert len(rows) == 24
    pairs = [rows[:, i] * rows[:, j] for i, j in combinations(range(11), 2)]
    assert not (rows.T @ np.array(pairs).T).any()


def test_equal_runs_of_few_factors_are_one_run_replicated() -> None:
    space = two_level(3)
    design = PlackettBurman(runs=12, replicates=2)
    points = list(design.points(space, 0))
    assert len(points) == design.size(space) == 8
    assert sorted(point.replicates for point in points) == [2, 2, 2, 2, 4, 4, 4, 4]


@pytest.mark.parametrize("factors", range(3, 31))
def test_definitive_screening_keeps_its_promises(factors: int) -> None:
    space = ranges(factors)
    rows = matrix(DefinitiveScreening(), space)
    if factors not in (21, 22):  # there is no conference matrix of order 22
        assert len(rows) == (2 * factors + 1 if factors % 2 == 0 else 2 * factors + 3)
    gram = rows.T @ rows
    assert (gram == np.diag(np.diag(gram))).all()
    second = [rows[:, i] * rows[:, j] for i in range(factors) for j in range(i, factors)]
    assert not (rows.T @ np.array(second).T).any()
    assert (rows.sum(axis=0) == 0).all()


@pytest.mark.parametrize("factors", [4, 6, 8, 10, 12, 16])
def test_definitive_screening_can_estimate_every_square(factors: int) -> None:
    rows = matrix(DefinitiveScreening(), ranges(factors))
    model = np.hstack([np.ones((len(rows), 1)), rows, rows**2])
    assert np.linalg.matrix_rank(model) == 2 * factors + 1


def test_the_six_factors_of_jones_and_nachtsheim() -> None:
    # 13 runs; in every column ten ends, three centres; main effects have a variance of 1/10.
    rows = matrix(DefinitiveScreening(), ranges(6))
    assert rows.shape == (13, 6)
    for column in rows.T:
        assert Counter(column.tolist()) == {-1.0: 5, 1.0: 5, 0.0: 3}
    assert ((rows == 0).sum(axis=1) == [1] * 12 + [6]).all()


def test_fake_factors_and_centre_runs_add_runs() -> None:
    space = ranges(6)
    points = list(DefinitiveScreening(fake=2, center=3).points(space, 0))
    assert DefinitiveScreening(fake=2, center=3).size(space) == len(points) == 17
    assert points[-1].factors == dict.fromkeys(space.names, 0.0)
    assert points[-1].replicates == 3


def test_levels_and_log_ranges_and_whole_numbers() -> None:
    space = Space(
        (
            Dimension("size", ("small", "medium", "large"), scale="ordinal"),
            Dimension("rate", scale="continuous", low=1e-4, high=1e-2, log=True),
            Dimension("count", scale="integer", low=1, high=9),
        )
    )
    points = list(DefinitiveScreening().points(space, 0))
    assert {p.factors["size"] for p in points} == {"small", "medium", "large"}
    assert {p.factors["rate"] for p in points} == {1e-4, 1e-3, 1e-2}
    assert {p.factors["count"] for p in points} == {1, 5, 9}


@pytest.mark.parametrize(
    ("dimension", "problem"),
    [
        (Dimension("x", ("a", "b", "c")), "x: is categorical, and definitive_screening needs"),
        (Dimension("x", (1, 2), scale="ordinal"), "x: its levels 1, 2 do not stand at the places -1, 0, 1"),
        (Dimension("x", (1, 2, 3, 4), scale="ordinal"), "x: has 4 levels, and definitive_screening runs 3"),
        (Dimension("x", (0, 0.7, 1), scale="continuous"), "do not stand at the places"),
        (Dimension("x", scale="integer", low=1, high=2), "round to 1, 2, 2"),
        (Dimension("x", scale="continuous", low=2, high=1), "low must be below high"),
        (Dimension("x", ("a",)), "x: has one level"),
    ],
)
def test_factors_that_do_not_fit(dimension: Dimension, problem: str) -> None:
    space = Space((*ranges(3).dimensions[1:], dimension))
    design = DefinitiveScreening()
    for ask in (lambda: design.size(space), lambda: design.points(space, 0)):
        with pytest.raises(Invalid) as error:
            ask()
        assert problem in str(error.value)


def test_numbers_of_factors_that_do_not_fit() -> None:
    with pytest.raises(Invalid, match="3 to 50 factors, not 2; use central_composite"):
        DefinitiveScreening().size(ranges(2))
    with pytest.raises(Invalid, match="2 to 99 factors, not 100"):
        PlackettBurman().size(two_level(100))
    with pytest.raises(Invalid, match="12 runs hold at most 11 factors, not 12; say runs = 16"):
        PlackettBurman(runs=12).size(two_level(12))
    with pytest.raises(Invalid, match="there are no factors"):
        PlackettBurman().size(Space(()))


def test_bad_parameters() -> None:
    with pytest.raises(Invalid) as error:
        PlackettBurman(runs=14, foldover="yes", center=1.5)  # type: ignore[arg-type]
    assert error.value.problems == (
        "center: must be a whole number of at least 0, not 1.5",
        "runs: must be a multiple of 4, not 14; say 12 or 16",
        "foldover: must be true or false, not 'yes'",
    )
    with pytest.raises(Invalid, match="center: there must be at least 1"):
        DefinitiveScreening(center=0)


def test_categorical_factors_have_no_centre() -> None:
    with pytest.raises(Invalid, match="x0: has no centre; say center = 0"):
        PlackettBurman(center=2).size(Space((Dimension("x0", ("a", "b")), *ranges(2).dimensions)))


@given(st.integers(2, 30), st.booleans(), st.integers(0, 3))
def test_plackett_burman_is_balanced_for_any_number_of_factors(
    factors: int, foldover: bool, center: int
) -> None:
    space = ranges(factors)
    design = PlackettBurman(foldover=foldover, center=center)
    rows = matrix(design, space)
    assert len({tuple(row) for row in rows.tolist()}) == design.size(space)
    corners = rows[(rows != 0).all(axis=1)]
    assert len(rows) - len(corners) == center
    assert (corners.T @ corners == len(corners) * np.eye(factors)).all()
