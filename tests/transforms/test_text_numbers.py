from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.text.numbers import plain
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms import last_number, number_after


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("1,234.5", 1234.5),
        ("-3", -3),
        ("it is \u22123.", -3),
        ("3/4", 0.75),
        ("-1/2 of it", -0.5),
        ("3 / 4 cups", 0.75),
        ("1/3", 1 / 3),
        ("on 3/4/2024", 2024),
        ("1/0", 0),
        ("$1,000", 1000),
        ("\u20ac 12.50", 12.5),
        ("0", 0),
        ("50%", "50%"),
        ("12.5 %", "12.5%"),
        ("12345678901234567890", "12345678901234567890"),
        ("0.12345678901234567890123", "0.12345678901234567890123"),
        ("1e400", "1E+400"),
        ("3.0", 3),
        ("and/or", NoAnswer("no number")),
        (True, NoAnswer("no number")),
    ],
)
def test_the_last_number_is_read(output: object, answer: object) -> None:
    assert last_number().apply(output) == answer


def test_a_percentage_is_what_one_says_it_is() -> None:
    assert last_number("number").apply("12.5%") == 12.5
    assert last_number("share").apply("12.5%") == 0.125
    assert last_number("share").apply("12.5") == 12.5


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_plain_is_exact(value: Decimal) -> None:
    given = plain(value)
    assert Decimal(given if isinstance(given, int | str) else repr(given)) == value


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_a_fraction_is_its_quotient(numerator: int, denominator: int) -> None:
    assert float(last_number().apply(f"so {numerator}/{denominator}.")) == float(
        Fraction(numerator, denominator)
    )


@pytest.mark.parametrize(
    ("last", "output", "answer"),
    [
        (True, "A: 1\nA: 2 or 3", 2),
        (False, "A: 1\nA: 2 or 3", 1),
        (True, "A:$1,600.", 1600),
        (True, "A: 1/5", 0.2),
        (True, "5 A: none", NoAnswer("no number")),
        (True, "5", NoAnswer("no 'A:'")),
    ],
)
def test_the_number_after_a_marker(last: bool, output: str, answer: object) -> None:
    assert number_after("A:", last).apply(output) == answer


@given(st.text("A: 12.,-/%", max_size=30), st.integers(-(10**9), 10**9))
def test_what_stands_before_the_last_marker_does_not_count(before: str, number: int) -> None:
    assert number_after("####").apply(f"{before}#### {number:,}\n") == number


@pytest.mark.parametrize(
    "make",
    [
        lambda: last_number("as is"),  # type: ignore[arg-type]
        lambda: number_after(" "),
        lambda: number_after(5),  # type: ignore[arg-type]
        lambda: number_after("A:", "yes"),  # type: ignore[arg-type]
        lambda: number_after("A:", percent=""),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_are_refused(make: object) -> None:
    with pytest.raises(Invalid):
        make()  # type: ignore[operator]
