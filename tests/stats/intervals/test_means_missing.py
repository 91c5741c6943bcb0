from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.intervals.means import bounds, estimate


def test_by_hand():
    found = bounds([1, 1, 0, 1], "abcd", "ef")
    assert (found.low, found.high, found.missing) == (3 / 6, 5 / 6, 2)
    assert found.complete == estimate([1, 1, 0, 1], "abcd")
    assert found.lowest == estimate([1, 1, 0, 1, 0, 0], "abcdef").low
    assert found.highest == estimate([1, 1, 0, 1, 1, 1], "abcdef").high


def test_nothing_missing_changes_nothing():
    found = bounds([1, 0, 1], "abc", [])
    assert (found.low, found.high) == (found.complete.mean, found.complete.mean)
    assert (found.lowest, found.highest) == (found.complete.low, found.complete.high)


def test_everything_missing():
    found = bounds([], [], "ab")
    assert (found.complete, found.low, found.high, found.lowest, found.highest) == (None, 0.0, 1.0, 0.0, 1.0)
    nothing = bounds([], [], [])
    assert (nothing.complete, nothing.low, nothing.high, nothing.missing) == (None, None, None, 0)


def test_scores_without_an_end_are_not_bounded_there():
    found = bounds([3.0, 4.0, 8.0], "abc", "d", worst=0.0, best=None)
    assert (found.low, found.high, found.highest) == (15 / 4, None, None)


@pytest.mark.parametrize(
    "wrong",
    [([1], "ab", []), ([2], "a", []), ([-1], "a", []), ([1], "a", [], 1.0, 0.0)],
)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match=r"labels|must lie"):
        bounds(*wrong)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(0, 10), st.data())
def test_whatever_the_missing_ones_were_the_truth_lies_between(known, lost, data):
    hidden = data.draw(st.lists(st.booleans(), min_size=lost, max_size=lost))
    found = bounds([float(one) for one in known], range(len(known)), range(100, 100 + lost))
    truth = sum(known + hidden) / len(known + hidden)
    assert found.lowest <= found.low <= truth <= found.high <= found.highest
