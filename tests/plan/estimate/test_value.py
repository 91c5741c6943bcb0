"""Amounts with a low and a high end: in order, added up, predicted, told."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.text.words import lasting
from peira.plan.estimate.value import Range, dollars, ends, predicted, range_text, total, whole

values = st.floats(0, 1e6)
numbers = st.lists(values, min_size=1, max_size=30)
ranges = st.tuples(values, values, values).map(lambda three: Range(*sorted(three)))


def ordered(amount: Range) -> bool:
    return 0 <= amount.low <= amount.expected * (1 + 1e-9) <= amount.high * (1 + 1e-8)


@given(numbers, st.floats(1, 1e5))
def test_a_prediction_is_ordered_and_expects_the_mean(seen: list[float], n: float) -> None:
    amount = predicted(seen, n)
    assert ordered(amount)
    assert amount.expected == pytest.approx(n * sum(seen) / len(seen))


@given(st.lists(ranges), st.floats(0, 100))
def test_sums_and_multiples_stay_ordered(amounts: list[Range], n: float) -> None:
    together = total(amounts)
    assert together is not None
    assert ordered(together)
    assert ordered(together.times(n))
    assert total([*amounts, None]) is None


def test_a_prediction_holds_the_sum_of_what_comes() -> None:
    draws = random.Random(3)
    hits = 0
    for _ in range(400):
        seen = [draws.gauss(100, 20) for _ in range(15)]
        amount = predicted(seen, 40)
        hits += amount.low <= sum(draws.gauss(100, 20) for _ in range(40)) <= amount.high
    assert 0.9 < hits / 400 < 0.985


def test_few_observations_are_not_believed_to_the_letter() -> None:
    assert predicted([10.0], 2) == Range(10.0, 20.0, 30.0)
    assert predicted([10.0] * 5, 2) == Range(20.0, 20.0, 20.0)


@pytest.mark.parametrize(
    ("amount", "said"),
    [(0.0, "$0.00"), (0.0042, "$0.0042"), (0.05, "$0.050"), (0.5, "$0.50"), (1234.5, "$1,234.50")],
)
def test_dollars(amount: float, said: str) -> None:
    assert dollars(amount) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.004, "0.0 s"), (1.25, "1.2 s"), (42, "42 s"), (600, "10 min"), (3 * 3600 + 300, "3 h 05 min")],
)
def test_times(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


def test_a_range_in_words() -> None:
    assert range_text(Range(1, 2, 3), whole) == "2 (1 to 3)"
    assert range_text(Range.of(2), whole) == "2"
    assert ends(Range(0.12, 0.2, 0.3), dollars) == "$0.12 to $0.30"
