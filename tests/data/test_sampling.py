"""Samples: of the right size, every row as likely as any other, strata in proportion, one seed one sample."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from peira.data.sampling import allotted, sampled, shuffled


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 200))
def test_shares_add_up_and_are_in_proportion(counts, size):
    shares = allotted(size, counts)
    assert sum(shares) == min(size, sum(counts))
    for share, count in zip(shares, counts, strict=True):
        exact = min(size / sum(counts), 1) * count
        assert 0 <= share <= count
        assert abs(share - exact) < 1


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 70), st.integers(0, 5))
def test_a_stratified_sample_has_its_shares_in_order(levels, size, seed):
    rows = list(enumerate(levels))
    taken = sampled(iter(rows), size, seed, lambda row: row[1])
    assert taken == sorted(taken)
    counts = Counter(levels)
    expected = dict(zip(counts, allotted(size, list(counts.values())), strict=True))
    assert Counter(level for _, level in taken) == +Counter(expected)


def test_every_row_is_as_likely_as_any_other():
    seeds = 3000
    met = Counter(row for seed in range(seeds) for row in sampled(range(10), 3, seed))
    # Three standard deviations of a share of 0.3 in 3,000 draws are 75; ten rows are allowed four.
    assert all(abs(met[row] - 0.3 * seeds) < 100 for row in range(10))
    pairs = Counter(tuple(sampled(range(5), 2, seed)) for seed in range(seeds))
    assert len(pairs) == 10
    assert all(abs(n - seeds / 10) < 66 for n in pairs.values())


@given(st.lists(st.integers(), max_size=30), st.integers(-5, 5))
def test_a_shuffle_keeps_everything_and_is_the_same_again(rows, seed):
    assert sorted(shuffled(rows, seed)) == sorted(rows)
    assert shuffled(rows, seed) == shuffled(rows, seed)


def test_other_seeds_other_samples():
    assert len({tuple(sampled(range(100), 5, seed)) for seed in range(20)}) == 20
    assert len({tuple(shuffled(list(range(10)), seed)) for seed in range(20)}) == 20
