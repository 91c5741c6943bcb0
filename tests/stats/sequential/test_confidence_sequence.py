from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.sequential.confidence_sequence import ConfidenceSequence, sequence


def plain(values, level=0.95, points=201):
    """The definition, one mean and one value at a time: which means has neither gambler ruled out?"""
    alpha, kept = 1 - level, []
    for m in np.linspace(0.0025, 0.9975, points):
        up = down = 1.0
        total, squares, alive = 0.0, 0.25, True
        for n, x in enumerate(values, 1):
            stake = np.sqrt(2 * np.log(2 / alpha) / (squares / n * n * np.log(n + 1)))
            up *= 1 + min(stake, 0.5 / m) * (x - m)
            down *= 1 - min(stake, 0.5 / (1 - m)) * (x - m)
            alive = alive and max(up, down) < 2 / alpha
            total += x
            squares += (x - (0.5 + total) / (n + 1)) ** 2
        if alive:
            kept.append(m)
    return kept[0], kept[-1]


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_by_its_definition(share):
    values = (np.random.default_rng(3).random(120) < share).astype(float)
    found = sequence(values)
    assert (found.low, found.high) == pytest.approx(plain(values), abs=0.007)


def test_looking_after_every_value_is_wrong_at_most_five_times_in_a_hundred():
    """The interval never widens, so holding the truth at the end is holding it all the way."""
    rng = np.random.default_rng(5)
    for share in (0.5, 0.95):
        wrong = 0
        for _ in range(150):
            found = sequence(rng.random(400) < share)
            wrong += not found.low <= share <= found.high
        assert wrong / 150 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 150)


def test_it_closes_in():
    rng = np.random.default_rng(7)
    widths = []
    for n in (10, 100, 1000, 10_000):
        found = sequence(rng.random(n) < 0.7)
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.06


values = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@given(values, st.integers(1, 59))
def test_pieces_are_the_whole(data, cut):
    bets = ConfidenceSequence()
    if data[:cut]:
        bets.add(data[:cut])
    if data[cut:]:
        bets.add(data[cut:])
    whole = sequence(data)
    found = bets.now()
    assert (found.low, found.high, found.n) == (whole.low, whole.high, whole.n)
    assert found.mean == pytest.approx(whole.mean)


@given(values)
def test_it_never_widens(data):
    bets, before = ConfidenceSequence(), (0.0, 1.0)
    for value in data:
        found = bets.add(value)
        assert before[0] <= found.low < found.high <= before[1]
        before = found.low, found.high


@given(values)
def test_differences_are_shares_stretched(data):
    one, two = sequence(data), sequence([2 * value - 1 for value in data], -1, 1)
    assert (two.low, two.high) == pytest.approx((2 * one.low - 1, 2 * one.high - 1), abs=1e-9)


def test_before_anything_everything_is_possible():
    found = ConfidenceSequence(-1, 1).now()
    assert (found.mean, found.low, found.high, found.n) == (None, -1.0, 1.0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ConfidenceSequence(1, 1),
        lambda: ConfidenceSequence(level=1),
        lambda: sequence([2.0]),
        lambda: sequence([np.nan]),
    ],
)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match=r"least|level|within|finite"):
        wrong()
