"""Gaffke's bound: Clopper and Pearson's for 0/1 values, simulated quantiles for others, and valid."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.intervals.bounded import bounded_mean, bounded_test, scale_of
from peira.stats.intervals.means import estimate
from peira.stats.intervals.proportions import clopper_pearson

VALUES = st.lists(st.integers(0, 1000).map(lambda k: k / 1000), min_size=1, max_size=40)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_of_yes_and_no_it_is_clopper_and_pearsons(counts):
    yes, n = counts
    found, known = bounded_mean([1.0] * yes + [0.0] * (n - yes)), clopper_pearson(yes, n)
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-6)


def test_the_quantiles_are_those_of_random_weights():
    # R: w <- matrix(rexp(4e6 * 16), ncol = 16); m <- (w %*% c(x, 0)) / rowSums(w); quantile(m, .025)
    rng = np.random.default_rng(0)
    values = rng.random(15)
    weights = rng.dirichlet(np.ones(16), 400_000)
    found = bounded_mean(values)
    assert found.low == pytest.approx(np.quantile(weights @ np.append(values, 0), 0.025), abs=0.001)
    assert found.high == pytest.approx(np.quantile(weights @ np.append(values, 1), 0.975), abs=0.001)


def test_many_values_are_close_to_t():
    values = np.random.default_rng(1).random(20_000)
    found, error = bounded_mean(values), values.std() / 20_000**0.5
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=0.3 * error)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=0.3 * error)


@given(VALUES)
def test_known_and_nested_and_within_the_limits(values):
    wide, narrow = bounded_mean(values, level=0.99), bounded_mean(values, level=0.8)
    assert 0 <= wide.low <= narrow.low <= narrow.mean <= narrow.high <= wide.high <= 1
    assert narrow.low < narrow.high


@given(VALUES, st.floats(-3, 3), st.floats(0.1, 5))
def test_it_moves_with_the_scale(values, shift, width):
    found = bounded_mean(values)
    moved = bounded_mean([shift + width * v for v in values], None, (shift, shift + width))
    assert (moved.low, moved.high) == pytest.approx(
        (shift + width * found.low, shift + width * found.high), abs=1e-6
    )


@given(VALUES, st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_interval_and_p_agree(values, level):
    found = bounded_mean(values, level=level)
    for bound, limit in ((found.low, 0.0), (found.high, 1.0)):
        if bound not in (limit, found.mean):
            assert bounded_test(values, None, (0, 1), null=bound).p == pytest.approx(1 - level, abs=1e-4)


def test_a_cluster_is_one_unit_and_counts_by_its_size():
    repeated = bounded_mean([0.9, 0.7, 0.9, 0.7], "aabb")
    single = bounded_mean([0.8, 0.8])
    assert (repeated.low, repeated.high) == pytest.approx((single.low, single.high))
    uneven = bounded_mean([0.9, 0.9, 0.9, 0.5], "aaab")
    assert uneven.mean == pytest.approx(0.8)
    assert uneven.low < bounded_mean([0.9, 0.9, 0.9, 0.5]).low


@pytest.mark.parametrize("n", [3, 8, 15])
@pytest.mark.parametrize(
    ("values", "shares"),
    [((0, 0.5, 1), (0.1, 0.2, 0.7)), ((0, 0.9, 1), (0.05, 0.9, 0.05)), ((0, 0.25, 1), (0.01, 0.04, 0.95))],
)
def test_no_distribution_is_missed_more_often_than_promised(n, values, shares):
    """All samples of three values, enumerated: each one-sided bound misses in at most 5%."""
    truth = float(np.dot(values, shares))
    missed = [0.0, 0.0]
    for sample in combinations_with_replacement(range(3), n):
        counts = [sample.count(k) for k in range(3)]
        chance = factorial(n) / prod(map(factorial, counts)) * prod(np.power(shares, counts))
        found = bounded_mean([values[k] for k in sample], level=0.9)
        missed[0] += chance * (found.low > truth + 1e-9)
        missed[1] += chance * (found.high < truth - 1e-9)
    assert max(missed) <= 0.05 + 1e-9


def test_scales_that_are_known_by_their_values():
    assert scale_of([0.2, 1]) == (0, 1)
    assert scale_of([1, 5, 4]) == (1, 5)
    assert scale_of([5, 5]) == (1, 5)
    assert scale_of([4.5]) is None
    assert scale_of([-0.1]) is None
    assert scale_of([]) is None


def test_values_outside_the_limits_are_refused():
    with pytest.raises(ValueError, match=r"within \[0, 1\]"):
        bounded_mean([0.5, 1.2])


def test_t_is_used_where_it_is_as_good():
    rng = np.random.default_rng(5)
    even, few, near = rng.random(60), rng.beta(30, 3, 12), rng.uniform(0.88, 0.92, 60)
    assert estimate(even, range(60), limits=(0, 1)).method == "t"
    assert estimate(few, range(12), limits=(0, 1)).method == "bounded"
    assert estimate(near, range(60), limits=(0, 1)).method == "bounded"
    assert estimate([0.9] * 12, range(12), limits=(0, 1)).method == "bounded"
    assert estimate([0.9] * 12, range(12)).method == "unknown"
