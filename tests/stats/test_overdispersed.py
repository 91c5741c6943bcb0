from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.overdispersed import Clusters
from peira.stats.proportions import wilson


def bounds(successes: list[int] | np.ndarray, sizes: list[int] | np.ndarray, level: float = 0.95):
    return Clusters(np.asarray(successes, float), np.asarray(sizes, float)).bounds(level)


@pytest.mark.parametrize(("yes", "n"), [(0, 7), (3, 10), (10, 10), (70, 90)])
def test_clusters_of_one_give_wilsons_interval(yes: int, n: int) -> None:
    found = wilson(yes, n)
    values = [1] * yes + [0] * (n - yes)
    assert bounds(values, [1] * n) == pytest.approx((found.low, found.high), abs=1e-8)


def test_many_clusters_that_are_all_or_nothing_count_once_each() -> None:
    found = wilson(350, 500)
    low, high = bounds([8] * 350 + [0] * 150, [8] * 500)
    assert (low, high) == pytest.approx((found.low, found.high), abs=0.002)


def test_many_clusters_without_correlation_count_every_value() -> None:
    rng = np.random.default_rng(5)
    found = wilson(2800, 4000)
    successes = rng.multivariate_hypergeometric([8] * 500, 2800)
    low, high = bounds(successes, [8] * 500)
    assert (low, high) == pytest.approx((found.low, found.high), abs=0.004)


def test_never_narrower_than_the_clusters_themselves_show() -> None:
    """Cases that are mostly alike with a few altogether different: not a beta-binomial."""
    successes, sizes = np.array([10] * 95 + [0] * 5), np.full(100, 10)
    error = np.sqrt(100 / 99 * ((successes - 9.5) ** 2).sum()) / 1000
    low, high = bounds(successes, sizes)
    assert high - low > 3.8 * error


clusters = st.lists(
    st.integers(1, 9).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))), min_size=2, max_size=15
)


@given(clusters, st.sampled_from([0.5, 0.95, 0.999]))
def test_bounds_hold_the_mean_and_lie_within_the_range(given: list[tuple[int, int]], level: float) -> None:
    successes, sizes = zip(*given, strict=True)
    low, high = bounds(list(successes), list(sizes), level)
    mean = sum(successes) / sum(sizes)
    assert 0 <= low <= mean <= high <= 1
    assert low < high
    assert (low == 0) == (mean == 0)
    assert (high == 1) == (mean == 1)


@given(clusters)
def test_yes_and_no_are_mirror_images(given: list[tuple[int, int]]) -> None:
    successes, sizes = (np.array(part) for part in zip(*given, strict=True))
    low, high = bounds(successes, sizes)
    assert bounds(sizes - successes, sizes) == pytest.approx((1 - high, 1 - low), abs=1e-7)


def test_large_clusters_are_no_trouble() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 20_000, 60)
    successes = rng.binomial(sizes, rng.beta(6, 4, 60))
    low, high = bounds(successes, sizes)
    assert 0.5 < low < high < 0.7
