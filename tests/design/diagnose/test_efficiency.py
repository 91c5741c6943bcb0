"""Efficiencies: against what is known of classical and optimal designs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Point, Space
from peira.design.diagnose.design_matrix import contrasts, design_matrix
from peira.design.diagnose.diagnosis import diagnose
from peira.design.diagnose.efficiency import Efficiency, fit
from peira.design.factorial.fractional import FractionalFactorial
from peira.design.factorial.full import FullFactorial
from peira.design.model import parse
from peira.design.orthogonal_array import OrthogonalArray
from peira.design.screening import DefinitiveScreening, PlackettBurman


def number(name: str) -> Dimension:
    return Dimension(name, low=-1, high=1, scale="continuous")


def of(space: Space, points: list[Point], formula: str) -> Efficiency:
    found = diagnose(space, points, formula).efficiency
    assert found is not None
    return found


@pytest.mark.parametrize("levels", [2, 3, 4, 7])
def test_contrasts_are_orthogonal_and_of_mean_square_one(levels: int) -> None:
    found = contrasts(levels)
    assert np.allclose(found.T @ found, levels * np.eye(levels - 1))
    assert np.allclose(found.sum(axis=0), 0)


@pytest.mark.parametrize(
    ("levels", "design"),
    [
        ([2] * 7, FractionalFactorial(runs=8)),
        ([2] * 11, PlackettBurman()),
        ([3] * 4, OrthogonalArray()),
        ([2, *[3] * 7], OrthogonalArray(array="L18")),
        ([2, 3, 4], FullFactorial()),
    ],
)
def test_balanced_orthogonal_designs_are_fully_efficient(levels: list[int], design: FullFactorial) -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(count))) for n, count in enumerate(levels)))
    found = of(space, list(design.points(space, 0)), "main")
    assert (found.d, found.a, found.g, found.i, found.condition) == pytest.approx((100, 100, 100, 100, 1))


def test_the_quadratic_on_a_line() -> None:
    """Three runs at the ends and the centre are the D-optimal measure: by Kiefer and Wolfowitz, G is 100.

    The determinant is 4/27, the mean of the variance 3 - 4.5 x^2 + 4.5 x^4 over the line 2.4.
    """
    line = Space((number("x"),))
    found = of(line, [Point({"x": x}) for x in (-1.0, 0.0, 1.0)], "x + x^2")
    assert found.d == pytest.approx(100 * (4 / 27) ** (1 / 3))
    assert found.g == pytest.approx(100)
    assert found.i == pytest.approx(100 * 3 / 2.4, rel=0.002)


def test_the_cubic_on_a_line() -> None:
    """Runs at -1, -1/sqrt 5, 1/sqrt 5, 1 (Guest 1958, Hoel 1958)."""
    line, inner = Space((number("x"),)), 1 / math.sqrt(5)
    found = of(line, [Point({"x": x}) for x in (-1.0, -inner, inner, 1.0)], "x + x^2 + x^3")
    assert found.g == pytest.approx(100, rel=1e-4)


def test_the_quadratic_in_two_factors_of_three_levels() -> None:
    """The published D-efficiency of the factorial is 46.22 (Box and Draper 1971)."""
    square = Space((number("x"), number("y")))
    points = list(FullFactorial(levels=3).points(square, 0))
    assert of(square, points, "quadratic").d == pytest.approx(46.2241, abs=1e-3)


def test_definitive_screening_of_six_factors() -> None:
    """Orthogonal columns with 10 of the 13 runs off the centre (Jones and Nachtsheim 2011)."""
    space = Space(tuple(number(f"x{n}") for n in range(6)))
    found = of(space, list(DefinitiveScreening().points(space, 0)), "main")
    assert found.d == pytest.approx(100 * (13 * 10**6) ** (1 / 7) / 13)
    assert found.a == pytest.approx(100 * 7 / (13 * (1 / 13 + 6 / 10)))


@given(rows=st.lists(st.tuples(*[st.sampled_from([0, 1, 2])] * 2), min_size=6, max_size=20))
@settings(max_examples=40, deadline=None)
def test_no_design_is_more_than_fully_efficient(rows: list[tuple[int, int]]) -> None:
    space = Space((Dimension("a", (0, 1, 2)), Dimension("b", (0, 1, 2))))
    found = diagnose(space, [Point({"a": a, "b": b}) for a, b in rows], "main").efficiency
    if found is not None:
        assert found.g is not None
        assert found.a <= found.d * (1 + 1e-9)
        assert max(found.d, found.a, found.g) <= 100 + 1e-6
        assert found.condition >= 1 - 1e-9


def test_a_model_that_cannot_be_estimated_has_no_efficiency() -> None:
    space = Space(tuple(Dimension(n, ("low", "high")) for n in "ABC"))
    found = diagnose(space, FractionalFactorial(runs=4).points(space, 0), "interactions")
    assert found.efficiency is None
    assert found.unestimable == ("A", "B", "C", "A:B", "A:C", "B:C")


def test_what_can_be_estimated_does_not_depend_on_what_cannot() -> None:
    """With resolution IV the interactions are confounded, and no main effect is the worse for it."""
    space = Space(tuple(Dimension(n, ("low", "high")) for n in "ABCD"))
    seen = design_matrix(space, FractionalFactorial(runs=8).points(space, 0))
    terms = parse("interactions", space)
    made = fit(seen, terms)
    assert [made.estimable(term) for term in terms] == [True] * 5 + [False] * 6
    assert made.rank == 8
    assert [float(made.of(term)[0, 0]) for term in terms[1:5]] == pytest.approx([1 / 8] * 4)


def test_the_space_that_constraints_leave_is_what_is_predicted() -> None:
    dims = (number("x"), number("y"))
    points = [Point({"x": x, "y": y}) for x, y in [(-1, -1), (-1, 1), (1, -1), (0.0, 0.0)]]
    free = of(Space(dims), points, "main")
    bound = of(Space(dims, lambda p: p["x"] + p["y"] <= 0), points, "main")
    assert free.g is not None
    assert bound.g is not None
    assert bound.d == free.d
    assert bound.g > free.g
