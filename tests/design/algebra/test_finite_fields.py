"""Finite fields: the axioms, on every field that a design asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.design.algebra.finite_fields import field, prime_power

ORDERS = [q for q in range(2, 84) if prime_power(q)]
elements = st.sampled_from(ORDERS).flatmap(
    lambda q: st.tuples(st.just(q), *(st.integers(0, q - 1) for _ in range(3)))
)


def test_prime_powers_below_thirty() -> None:
    assert [q for q in range(30) if prime_power(q)] == [
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        11,
        13,
        16,
        17,
        19,
        23,
        25,
        27,
        29,
    ]
    assert prime_power(49) == (7, 2)
    assert prime_power(36) is None


@pytest.mark.parametrize("order", ORDERS)
def test_the_powers_of_the_generator_are_all_elements_but_zero(order: int) -> None:
    assert sorted(field(order).powers) == list(range(1, order))


@given(elements)
def test_the_axioms(drawn: tuple[int, int, int, int]) -> None:
    order, a, b, c = drawn
    f = field(order)
    assert f.multiply(a, f.add(b, c)) == f.add(f.multiply(a, b), f.multiply(a, c))
    assert f.multiply(a, f.multiply(b, c)) == f.multiply(f.multiply(a, b), c)
    assert f.subtract(f.add(a, b), b) == a
    assert f.multiply(a, 1) == a


@pytest.mark.parametrize("order", [q for q in ORDERS if q % 2])
def test_the_character_tells_squares(order: int) -> None:
    f = field(order)
    squares = {f.multiply(a, a) for a in range(1, order)}
    assert [f.character(a) for a in range(1, order)] == [1 if a in squares else -1 for a in range(1, order)]


def test_there_is_no_field_of_six_elements() -> None:
    with pytest.raises(ValueError, match="no field with 6"):
        field(6)
