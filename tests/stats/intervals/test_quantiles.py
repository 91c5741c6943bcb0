from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from peira.stats.intervals.quantiles import _ranks, quantile


def chance(n, q, low, high):
    return binom.cdf(high - 1, n, q) - (binom.cdf(low - 1, n, q) if low else 0)


def test_the_classical_table_of_the_median():
    # Conover, Practical Nonparametric Statistics: at least 0.95; ranks of the median of n values
    for n, ranks in ((6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (25, (8, 18)), (50, (18, 32))):
        assert _ranks(n, 0.5, 0.95) == ranks


@given(st.integers(1, 400), st.sampled_from([0.01, 0.5, 0.9, 0.99]), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_no_closer_ranks_would_do(n, q, level):
    low, high = _ranks(n, q, level)
    assert chance(n, q, low, high) >= level - 1e-9
    narrower = [(low + 1, high), (low, high - 1)]
    assert all(chance(n, q, *ranks) < level for ranks in narrower if ranks[0] < ranks[1])


def test_bounds_are_values_of_the_data():
    data = np.random.default_rng(1).lognormal(size=200)
    found = quantile(data, 0.95)
    assert {found.low, found.high} <= set(data.tolist())
    assert found.low <= found.value <= found.high


def test_the_far_tail_of_few_values_has_no_bound():
    found = quantile(range(50), 0.99)
    assert found.high is None
    assert found.low is not None
    assert (quantile([3.0], 0.5).low, quantile([3.0], 0.5).high) == (None, None)


def test_many_values_are_fast():
    assert quantile(np.arange(1_000_001), 0.5).value == 500_000


def test_coverage_of_a_long_tail():
    rng = np.random.default_rng(2)
    truth = np.exp(1.2815515655446004)
    found = [quantile(rng.lognormal(size=60), 0.9) for _ in range(600)]
    held = np.mean([one.low <= truth <= (np.inf if one.high is None else one.high) for one in found])
    assert 0.935 < held < 0.99


@pytest.mark.parametrize("wrong", [([], 0.5, 0.95), ([1], 0, 0.95), ([1], 1, 0.95), ([1], 0.5, 1)])
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match=r"need|level"):
        quantile(*wrong)
