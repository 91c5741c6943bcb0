from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.tests.multiplicity import letters, rank_intervals


def test_by_hand():
    assert rank_intervals(4, [(0, 3), (1, 3)]) == [(1, 3), (1, 3), (1, 4), (3, 4)]
    assert letters([0, 1, 2, 3], [(0, 3), (1, 3)]) == ["a", "a", "ab", "b"]


def test_nobody_and_everybody_apart():
    assert letters([2, 0, 1], []) == ["a", "a", "a"]
    assert rank_intervals(3, []) == [(1, 3)] * 3
    everybody = list(combinations(range(4), 2))
    assert letters([0, 1, 2, 3], everybody) == ["a", "b", "c", "d"]
    assert rank_intervals(4, everybody) == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_piephos_example_of_a_ladder():
    """Each differs from all but its neighbours: every letter joins two."""
    apart = [(i, j) for i, j in combinations(range(5), 2) if j - i > 1]
    assert letters([0, 1, 2, 3, 4], apart) == ["a", "ab", "bc", "cd", "d"]


def test_more_than_the_alphabet():
    everybody = list(combinations(range(30), 2))
    found = letters(list(range(30)), everybody)
    assert len(set(found)) == 30
    assert found[26] == "a1"


pairs = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.permutations(range(n)),
        st.sets(st.sampled_from(list(combinations(range(n), 2)))),
    )
)


def split(marks):
    """Letters with their turn: a1 is one letter."""
    found = []
    for character in marks:
        if character.isdigit():
            found[-1] += character
        else:
            found.append(character)
    return set(found)


@given(pairs)
def test_letters_say_exactly_which_pairs_differ(case):
    n, order, chosen = case
    different = {(order[i], order[j]) for i, j in chosen}
    found = [split(marks) for marks in letters(order, different)]
    for i, j in combinations(range(n), 2):
        apart = (i, j) in different or (j, i) in different
        assert apart == (not found[i] & found[j])
    assert all(found)


@given(pairs)
def test_ranks_contain_every_order_that_the_pairs_allow(case):
    n, order, chosen = case
    different = {(order[i], order[j]) for i, j in chosen}
    for entry, (best, worst) in enumerate(rank_intervals(n, different)):
        assert 1 <= best <= order.index(entry) + 1 <= worst <= n


@pytest.mark.parametrize("wrong", [[(0, 0)], [(0, 3)], [(0, 1), (1, 0)]])
def test_impossible_pairs_are_refused(wrong):
    with pytest.raises(ValueError, match="pairs"):
        rank_intervals(3, wrong)
    with pytest.raises(ValueError, match="order"):
        letters([0, 0], [])
