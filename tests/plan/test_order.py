"""Run order: every index once, another order for another seed, and nothing lines up with position."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, islice, pairwise, permutations
from statistics import correlation

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from peira import Case, Study
from peira.plan.expansion import expand
from peira.plan.order import MOST_DRAWN, permutation, shuffled

seed = st.integers(-(2**53), 2**53)


@pytest.mark.parametrize("size", [*range(70), 127, 128, 129, 1000])
def test_every_index_comes_once(size: int) -> None:
    for seed in (0, 1, -5):
        assert sorted(shuffled(size, seed)) == list(range(size))


@given(st.integers(0, 3000), seed, st.text(max_size=3))
def test_every_index_comes_once_for_any_seed(size: int, seed: int, salt: str) -> None:
    assert sorted(shuffled(size, seed, salt)) == list(range(size))


@given(st.integers(0, 300), seed)
def test_the_order_is_the_seeds(size: int, seed: int) -> None:
    assert list(shuffled(size, seed)) == list(shuffled(size, seed))


def test_other_seeds_and_salts_give_other_orders() -> None:
    orders = {tuple(shuffled(40, seed, salt)) for seed in range(100) for salt in ("", "a")}
    assert len(orders) == 200


def test_ten_million_are_shuffled_without_holding_them() -> None:
    first = list(islice(shuffled(10_000_000, 3), 1000))
    assert len(set(first)) == 1000
    assert min(first) < 1_000_000
    assert max(first) > 9_000_000


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 8, 12])
def test_each_index_comes_at_each_place_about_as_often(size: int) -> None:
    rounds = 2000
    at = Counter((place, index) for seed in range(rounds) for place, index in enumerate(shuffled(size, seed)))
    expected = rounds / size
    spread = max(abs(at[p, i] - expected) for p in range(size) for i in range(size))
    assert spread < 6 * expected**0.5  # six standard deviations


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_every_order_is_equally_likely(size: int) -> None:
    """Chi-square over all permutations; four rounds of a Feistel network fail it from size 5 on."""
    every = list(permutations(range(size)))
    rounds = 20 * len(every)
    seen = Counter(tuple(shuffled(size, seed, "all")) for seed in range(rounds))
    statistic = sum((seen[order] - 20) ** 2 / 20 for order in every)
    assert chi2.sf(statistic, len(every) - 1) > 0.001


@pytest.mark.parametrize("size", [40, 1000, MOST_DRAWN + 1])
def test_neighbours_are_torn_apart_as_often_as_by_chance(size: int) -> None:
    """Over many seeds the index after i follows it once in `size` times, and every step is as likely."""
    rounds = max(10, 40_000 // size)
    follows = exchanged = 0
    for seed in range(rounds):
        order = list(islice(shuffled(size, seed, "pairs"), 2000))
        follows += sum(b - a == 1 for a, b in pairwise(order))
        exchanged += sum(a > b for a, b in pairwise(order))
    pairs = rounds * (min(size, 2000) - 1)
    assert abs(follows - pairs / size) < 4 * max(1, pairs / size) ** 0.5
    assert abs(exchanged / pairs - 0.5) < 4 * 0.5 / pairs**0.5


def test_plans_of_the_first_version_keep_their_order() -> None:
    """Recorded from the release before; a stored plan that names no version resumes in this order."""
    assert list(shuffled(10, 0, version=1)) == [7, 0, 6, 8, 2, 5, 3, 1, 4, 9]
    assert list(shuffled(6, 5, "cases", 1)) == [4, 3, 5, 2, 0, 1]
    assert list(islice(shuffled(100_000, 1, "rounds", 1), 5)) == [91533, 93033, 52312, 75167, 38586]


@pytest.mark.parametrize("size", [36, 64, 100, 256, 1000])
def test_no_level_lines_up_with_position(size: int) -> None:
    """Conditions, cases and repeats are blocks or residues of the index: none may drift or take turns."""
    for seed in range(20):
        order = list(shuffled(size, seed))
        places = list(range(size))
        bound = 5 / size**0.5
        assert abs(correlation(places, order)) < bound
        for levels in (2, 3, 4, 5):
            for level in ([i % levels for i in order], [i * levels // size for i in order]):
                assert abs(correlation(places, level)) < bound
                for period in (2, 3, 4):
                    assert abs(correlation([p % period for p in places], level)) < bound


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 99), st.text("-kl", min_size=1, max_size=8))
def test_case_by_case_each_is_complete_before_the_next(levels, repeats, seed, clusters) -> None:
    """Cases of a cluster together; every trial once."""
    cases = [Case(i, cluster=None if name == "-" else name) for i, name in enumerate(clusters)]
    study = Study(
        agent=lambda case, m: m,
        cases=cases,
        factors={"m": list(range(levels))},
        repeats=repeats,
        seed=seed,
        order="cases",
    )
    layout = expand(study).layout
    order = list(layout.in_run_order())
    assert sorted(order) == list(range(len(layout)))
    places = [layout.place(index).case for index in order]
    units = [case.cluster or case.id for case in places]
    runs = [unit for unit, _ in groupby(units)]
    assert len(runs) == len(set(units))


@pytest.mark.parametrize("order", ["random", "interleaved", "cases", "given"])
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 99),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from([None, 1, 3, 7]),
)
def test_a_position_is_found_without_those_before_it(
    order, levels, repeats, seed, cases, anchors, limit
) -> None:
    study = Study(
        agent=lambda case, m: m,
        cases=[Case(i) for i in range(1 + cases)],
        factors={"m": list(range(levels))},
        repeats=repeats,
        seed=seed,
        order=order,
        anchors=anchors,
    )
    layout = expand(study, limit=limit).layout
    indexes = list(layout.in_run_order())
    assert [layout.at(position) for position in reversed(range(len(layout)))] == indexes[::-1]
    with pytest.raises(IndexError):
        layout.at(len(layout))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [MOST_DRAWN, MOST_DRAWN + 1])
def test_a_permutation_by_position_is_the_same(size, version) -> None:
    by_position = permutation(size, 3, "x", version)
    some = range(0, size, 997)
    whole = list(shuffled(size, 3, "x", version))
    assert [by_position(position) for position in some] == [whole[position] for position in some]
