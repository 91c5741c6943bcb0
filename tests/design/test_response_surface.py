"""Response surfaces: published run counts, points and distances, and what the designs can estimate."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from peira.core.space import Dimension, Space
from peira.design.coded_runs import CodedDesign
from peira.design.response_surface import BoxBehnken, CentralComposite
from peira.errors import Invalid


def ranges(factors: int) -> Space:
    return Space(tuple(Dimension(f"x{nth}", scale="continuous", low=-1, high=1) for nth in range(factors)))


def matrix(design: CodedDesign, space: Space) -> NDArray[np.float64]:
    points = design.points(space, 0)
    rows = [
        [point.factors[name] for name in space.names] for point in points for _ in range(point.replicates)
    ]
    return np.array(rows, dtype=float)


def quadratic(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    pairs = [rows[:, i] * rows[:, j] for i, j in combinations(range(rows.shape[1]), 2)]
    return np.column_stack([np.ones(len(rows)), rows, rows**2, *pairs])


# Box and Behnken (1960), with centre runs; eight factors from later work.
@pytest.mark.parametrize(
    ("factors", "runs"),
    [
        (3, 15),
        (4, 27),
        (5, 46),
        (6, 54),
        (7, 62),
        (8, 120),
        (9, 130),
        (10, 170),
        (11, 188),
        (12, 204),
        (16, 396),
    ],
)
def test_box_behnken_has_the_published_runs(factors: int, runs: int) -> None:
    space = ranges(factors)
    rows = matrix(BoxBehnken(), space)
    assert rows.shape == (runs, factors)
    assert len({tuple(row) for row in rows.tolist()}) == BoxBehnken().size(space)
    model = quadratic(rows)
    assert np.linalg.matrix_rank(model) == model.shape[1]
    gram = rows.T @ rows
    assert (gram == gram[0, 0] * np.eye(factors)).all()
    assert (rows.sum(axis=0) == 0).all()


def test_the_three_factors_point_by_point() -> None:
    rows = matrix(BoxBehnken(), ranges(3))
    expected = [(a, b, 0) for a, b in product((-1, 1), repeat=2)]
    expected += [(a, 0, b) for a, b in product((-1, 1), repeat=2)]
    expected += [(0, a, b) for a, b in product((-1, 1), repeat=2)]
    assert Counter(map(tuple, rows.tolist())) == Counter([*expected, *[(0, 0, 0)] * 3])


def test_all_runs_but_the_centre_lie_on_a_sphere() -> None:
    for factors, ends in {3: 2, 5: 2, 7: 3, 11: 5, 16: 4}.items():
        rows = matrix(BoxBehnken(center=0), ranges(factors))
        assert set((rows**2).sum(axis=1).tolist()) == {ends}


@pytest.mark.parametrize("factors", [4, 7])
def test_four_and_seven_factors_are_rotatable(factors: int) -> None:
    # Fourth moments: that of one factor is three times that of two.
    rows = matrix(BoxBehnken(), ranges(factors))
    assert (rows[:, 0] ** 4).sum() == 3 * ((rows[:, 0] * rows[:, 1]) ** 2).sum()


@pytest.mark.parametrize("factors", [2, 13, 15, 17])
def test_box_behnken_of_other_numbers_is_refused(factors: int) -> None:
    with pytest.raises(Invalid, match=f"3 to 12 factors, or 16, not {factors}; use central_composite"):
        BoxBehnken().points(ranges(factors), 0)


# The distance 2^(k/4), as in every textbook's table.
@pytest.mark.parametrize(
    ("factors", "core", "alpha"),
    [(2, "full", 1.414), (3, "full", 1.682), (4, "full", 2.0), (5, "full", 2.378), (5, "fraction", 2.0),
     (6, "full", 2.828), (6, "fraction", 2.378), (7, "fraction", 2.828), (8, "fraction", 2.828)],
)  # fmt: skip
def test_rotatable_distances(factors: int, core: str, alpha: float) -> None:
    rows = matrix(CentralComposite(variant="circumscribed", core=core), ranges(factors))  # type: ignore[arg-type]
    assert np.abs(rows).max() == pytest.approx(alpha, abs=5e-4)
    fourth = (rows[:, 0] ** 4).sum()
    assert fourth == pytest.approx(3 * ((rows[:, 0] * rows[:, 1]) ** 2).sum())


# Orthogonal distances with one centre run: Myers, Response Surface Methodology.
@pytest.mark.parametrize(
    ("factors", "core", "alpha"),
    [(2, "full", 1.0), (3, "full", 1.216), (4, "full", 1.414), (5, "full", 1.596), (5, "fraction", 1.547)],
)
def test_orthogonal_distances(factors: int, core: str, alpha: float) -> None:
    design = CentralComposite(variant="circumscribed", alpha="orthogonal", core=core)  # type: ignore[arg-type]
    rows = matrix(design, ranges(factors))
    assert np.abs(rows).max() == pytest.approx(alpha, abs=1e-3)


@given(st.integers(2, 4), st.integers(1, 5), st.integers(1, 3))
def test_squares_are_orthogonal_with_the_orthogonal_distance(
    factors: int, center: int, replicates: int
) -> None:
    design = CentralComposite(
        variant="circumscribed", alpha="orthogonal", center=center, replicates=replicates
    )
    squares = matrix(design, ranges(factors)) ** 2
    centred = squares - squares.mean(axis=0)
    gram = centred.T @ centred
    assert np.allclose(gram, np.diag(np.diag(gram)), atol=1e-6)


def test_two_factors_point_by_point() -> None:
    r = float(f"{2**0.5:.12g}")
    corners = [(-1, -1), (1, -1), (-1, 1), (1, 1)]
    axes = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    faced = matrix(CentralComposite(), ranges(2))
    assert list(map(tuple, faced.tolist())) == [*corners, *axes, (0, 0)]
    circumscribed = matrix(CentralComposite(variant="circumscribed"), ranges(2))
    assert list(map(tuple, circumscribed.tolist())) == [*corners, *((r * a, r * b) for a, b in axes), (0, 0)]
    inscribed = matrix(CentralComposite(variant="inscribed"), ranges(2))
    assert np.allclose(inscribed, circumscribed / 2**0.5)
    assert np.abs(inscribed).max() == 1


@pytest.mark.parametrize("variant", ["faced", "inscribed"])
def test_only_the_circumscribed_leaves_the_range(variant: str) -> None:
    space = Space((Dimension("t", scale="continuous", low=0, high=2), *ranges(2).dimensions))
    design = CentralComposite(variant=variant)  # type: ignore[arg-type]
    assert {0 <= p.factors["t"] <= 2 for p in design.points(space, 0)} == {True}
    beyond = [p.factors["t"] for p in CentralComposite(variant="circumscribed").points(space, 0)]
    assert min(beyond) < 0
    assert max(beyond) > 2


def test_a_fraction_keeps_all_interactions_apart() -> None:
    for factors, size in {5: 16, 6: 32, 7: 64, 8: 64}.items():
        design = CentralComposite(core="fraction", center=2)
        rows = matrix(design, ranges(factors))
        assert len(rows) == size + 2 * factors + 2
        assert design.size(ranges(factors)) == size + 2 * factors + 1
        assert np.linalg.matrix_rank(quadratic(rows)) == quadratic(rows).shape[1]


# Hartley (1959): 2^(k-p) + 2k + 1 runs for 3, 4 and 6 factors.
@pytest.mark.parametrize(("factors", "cube", "runs"), [(3, 4, 11), (4, 8, 17), (6, 16, 29)])
def test_small_composite_designs_estimate_the_whole_quadratic_model(
    factors: int, cube: int, runs: int
) -> None:
    design = CentralComposite(core="small", variant="circumscribed")
    rows = matrix(design, ranges(factors))
    assert len(rows) == runs == cube + 2 * factors + 1
    model = quadratic(rows)
    assert model.shape[1] == (factors + 1) * (factors + 2) // 2
    assert np.linalg.matrix_rank(model) == model.shape[1]
    corners = rows[:cube]
    pairs = [corners[:, i] * corners[:, j] for i in range(factors) for j in range(i)]
    gram = np.stack(pairs) @ np.stack(pairs).T
    assert np.allclose(gram, cube * np.eye(len(pairs)))  # no two interactions are confounded
    assert np.abs(rows).max() == pytest.approx(cube**0.25)


def test_levels_do_for_the_faced_variant_only() -> None:
    space = Space((Dimension("size", ("s", "m", "l"), scale="ordinal"), *ranges(2).dimensions))
    points = list(CentralComposite().points(space, 0))
    assert {p.factors["size"] for p in points} == {"s", "m", "l"}
    for variant in ("circumscribed", "inscribed"):
        with pytest.raises(Invalid, match=r'size: its levels .* do not stand .*say variant = "faced"'):
            CentralComposite(variant=variant).points(space, 0)  # type: ignore[arg-type]


def test_whole_numbers_that_fall_together_are_told() -> None:
    space = Space((Dimension("n", scale="integer", low=1, high=3), *ranges(1).dimensions))
    assert CentralComposite().size(space) == 9
    with pytest.raises(Invalid, match=r"n: the places .* round to 1, 1, 2, 3, 3.*widen the range"):
        CentralComposite(variant="inscribed").size(space)


def test_bad_parameters() -> None:
    with pytest.raises(Invalid) as error:
        CentralComposite(variant="inscribde", alpha=0.5, core="half", center=-1)  # type: ignore[arg-type]
    assert len(error.value.problems) == 4
    with pytest.raises(Invalid, match="leave alpha out"):
        CentralComposite(alpha=1.5)
    with pytest.raises(Invalid, match="rotatable, orthogonal or a number"):
        CentralComposite(variant="inscribed", alpha="rotable")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match='4 factors have no fraction of resolution 5; say core = "full"'):
        CentralComposite(core="fraction").size(ranges(4))
    with pytest.raises(
        Invalid, match='small composite designs have 3, 4, 6 factors, not 5; say core = "fraction"'
    ):
        CentralComposite(core="small").size(ranges(5))
    with pytest.raises(Invalid, match="2 to 20 factors, not 21"):
        CentralComposite().size(ranges(21))


def test_the_largest_cube_is_lazy() -> None:
    space = ranges(20)
    assert CentralComposite().size(space) == 2**20 + 41
    assert set(next(CentralComposite().points(space, 0)).factors.values()) == {-1}
