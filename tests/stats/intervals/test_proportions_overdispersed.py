from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, norm

from peira.stats.intervals.proportions import Clusters, wilson


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
    """Cases that are mostly alike with a few altogether different: no beta-binomial spreads like that."""
    successes, sizes = np.array([10] * 60 + [9] * 30 + [8] * 7 + [0] * 3), np.full(100, 10)
    error = np.sqrt(100 / 99 * ((successes - successes.mean()) ** 2).sum()) / 1000
    low, high = bounds(successes, sizes)
    assert high - low > 3.9 * error


@pytest.mark.parametrize(
    ("successes", "sizes"),
    [([5, 5, 5, 4, 5], [5] * 5), ([3, 0, 2, 9], [3, 1, 4, 9]), ([1] * 9 + [0], [2] * 10), ([4] * 6, [4] * 6)],
)
def test_by_its_definition(successes: list[int], sizes: list[int]) -> None:
    """Wilson's tail averaged over a fine grid of all correlations, with SciPy's beta-binomial."""
    y, m = np.array(successes), np.array(sizes)
    n, mean = m.sum(), y.sum() / m.sum()
    correlation = np.sin(np.linspace(0, np.pi / 2, 1002)[1:-1]) ** 2
    residuals = ((y - m * mean) ** 2 / (1 - m / n)).sum() / n**2
    shown = min(residuals / (mean * (1 - mean)), (m**2).sum() / n**2) if 0 < mean < 1 else 0.0

    def tail(p: float) -> float:
        loose = 1 / correlation[:, None] - 1
        weights = np.exp(betabinom.logpmf(y, m, p * loose, (1 - p) * loose).sum(axis=1))
        dispersion = np.maximum((m * (1 + np.outer(correlation, m - 1))).sum(axis=1) / n**2, shown)
        return float(np.average(norm.sf(abs(mean - p) / np.sqrt(p * (1 - p) * dispersion)), weights=weights))

    low, high = bounds(successes, sizes)
    for bound in (low, high):
        if 0 < bound < 1:
            assert tail(bound) == pytest.approx(0.025, abs=5e-4)


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
