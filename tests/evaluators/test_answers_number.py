from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.errors import Invalid
from peira.evaluators import numeric
from peira.evaluators.answers import last_number


def judged(output: object, expected: object, tolerance: float = 0.0, relative: bool = False) -> object:
    return numeric(tolerance, relative).judge({"output": output, "expected": expected})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", "42"),
        ("first 7, then 1,234.56 in all", "1234.56"),
        ("-5", "-5"),
        ("\u22125", "-5"),
        ("+5", "5"),
        ("-$1,000", "-1000"),
        ("$-5", "-5"),
        ("costs € 12.50", "12.50"),
        ("1.5e-3", "0.0015"),
        ("2E+3 units", "2000"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("5.", "5"),
        ("1'000'000", "1000000"),
        ("12\u202f345", "12345"),
        ("1_000", "1000"),
        ("3-5", "5"),
        ("1,2,3", "3"),
        ("\\boxed{42}", "42"),
        ("**7** apples", "7"),
        ("7 (see H2O)", "7"),
        ("7, as of v1.2.3", "7"),
        ("9" * 40, "9" * 40),
    ],
)
def test_the_last_number_is_read(text: str, number: str) -> None:
    found = last_number(text)
    assert found is not None
    assert found.value == Decimal(number)


@pytest.mark.parametrize("value", ["", "none at all", "H2O", True, None, [1], {"a": 1}])
def test_what_holds_no_number_has_none(value: object) -> None:
    assert last_number(value) is None
    assert judged(value, 1) is False


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12))
def test_a_number_is_read_back_however_it_is_grouped(number: Decimal) -> None:
    for text in (f"it is {number:,}.", f"({number})", f"x={number:.18e}!"):
        found = last_number(text)
        assert found is not None
        assert found.value == number


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert judged(text, 5, 0.5) in (True, False)
    assert judged(f"{text} 5", 5) is True


def test_tolerance_is_exact_and_may_be_relative() -> None:
    assert judged("0.4", 0.3, 0.1) is True
    assert judged("0.41", 0.3, 0.1) is False
    assert judged("110", "100", 0.1, relative=True) is True
    assert judged("111", "100", 0.1, relative=True) is False
    assert judged(-110, -100, 0.1, relative=True) is True
    assert judged("9007199254740993", "9007199254740992") is False
    assert judged("9" * 5000, 5, 1) is False


def test_a_percentage_beside_a_plain_number_may_mean_either() -> None:
    assert judged("50%", 50) is True
    assert judged("50%", 0.5) is True
    assert judged("0.5", "50%") is True
    assert judged("50 %", "50%") is True
    assert judged("50%", "0.5%") is False
    assert judged("50", 0.5) is False


@pytest.mark.parametrize("expected", ["many", True, [5]])
def test_an_expected_value_that_is_no_number_is_a_failure(expected: object) -> None:
    with pytest.raises(Invalid, match="numeric needs an expected number"):
        judged("5", expected)


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf"), "0.1", True])
def test_wrong_tolerances_are_refused(tolerance: object) -> None:
    with pytest.raises(Invalid, match="tolerance"):
        numeric(tolerance)  # type: ignore[arg-type]
