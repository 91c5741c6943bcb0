"""Hadamard and conference matrices, by their definitions and the rows that Plackett and Burman published."""

from __future__ import annotations

import numpy as np
import pytest

from peira.design.algebra.hadamard import conference, hadamard

# Plackett and Burman (1946): the first row, which is shifted round to give all but the last.
PUBLISHED = {
    12: "++-+++---+-",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
}


@pytest.mark.parametrize("order", range(4, 101, 4))
def test_every_multiple_of_four_up_to_a_hundred(order: int) -> None:
    found = hadamard(order)
    assert found is not None
    matrix = np.array(found)
    assert (matrix.T @ matrix == order * np.eye(order)).all()
    assert (matrix[:, 0] == 1).all()
    assert (matrix[-1, 1:] == -1).all()


@pytest.mark.parametrize("order", [3, 6, 10, 116])
def test_others_are_refused(order: int) -> None:
    assert hadamard(order) is None


@pytest.mark.parametrize(("order", "first"), PUBLISHED.items())
def test_the_published_rows(order: int, first: str) -> None:
    row = [1 if sign == "+" else -1 for sign in first]
    rows = [row[-shift:] + row[:-shift] for shift in range(order - 1)]
    found = hadamard(order)
    assert found is not None
    assert [list(row[1:]) for row in found] == [*rows, [-1] * (order - 1)]


@pytest.mark.parametrize(
    "order", [4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 26, 28, 30, 32, 38, 40, 42, 44, 48, 50]
)
def test_conference_matrices(order: int) -> None:
    found = conference(order)
    assert found is not None
    matrix = np.array(found)
    assert (matrix.T @ matrix == (order - 1) * np.eye(order)).all()
    assert (np.diag(matrix) == 0).all()
    assert set(np.unique(matrix[~np.eye(order, dtype=bool)])) == {-1, 1}


@pytest.mark.parametrize("order", [22, 34])
def test_there_are_none_where_none_can_be(order: int) -> None:
    # One less than the order would have to be a sum of two squares.
    assert conference(order) is None
