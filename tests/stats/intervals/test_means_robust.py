from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t
from statsmodels.stats.sandwich_covariance import cov_cluster_2groups

from peira.stats.intervals.means import _satterthwaite, spread, two_way

RNG = np.random.default_rng(11)


def test_balanced_clusters_agree_with_statsmodels() -> None:
    values, labels = RNG.normal(size=60) + np.repeat(RNG.normal(size=12), 5), np.repeat(np.arange(12), 5)
    fit = sm.OLS(values, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": labels}, use_t=True)
    found = spread(values, labels)
    assert found.error == pytest.approx(fit.bse[0], rel=1e-12)
    assert found.df == pytest.approx(11)


def test_the_error_of_unequal_clusters_is_unbiased() -> None:
    """Cluster sums with equal means and independent values: its square averages to the true variance."""
    sizes = [1, 2, 2, 9, 15]
    labels = np.repeat(np.arange(5), sizes)
    squares = [spread(RNG.normal(size=29), labels).error ** 2 for _ in range(4_000)]
    assert np.mean(squares) == pytest.approx(1 / 29, rel=0.04)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=12), st.floats(0, 1))
def test_degrees_of_freedom_are_those_of_the_quadratic_form(sizes: list[int], correlation: float) -> None:
    m = np.array(sizes, float)
    n, weights = m.sum(), 1 / (1 - m / m.sum())
    v = m * (1 + (m - 1) * correlation)
    centred = np.eye(m.size) - np.outer(m, np.ones(m.size)) / n
    covariance = centred @ np.diag(v) @ centred.T
    root = np.sqrt(weights)
    values = np.linalg.eigvalsh(root[:, None] * covariance * root)
    assert _satterthwaite(m, weights, correlation) == pytest.approx(values.sum() ** 2 / (values**2).sum())


def test_independent_values_have_the_degrees_of_freedom_of_clubsandwich() -> None:
    """R, clubSandwich: coef_test(lm(Y ~ 1), vcov = "CR2", test = "Satterthwaite"), in its closed form."""
    m = np.array([3, 1, 4, 1, 5, 9, 2, 6], float)
    n = m.sum()
    rest = n - m
    theirs = n**2 / (
        n**2 * (m**2 / rest**2).sum() - 2 * n * (m**3 / rest**2).sum() + (m**2 / rest).sum() ** 2
    )
    assert _satterthwaite(m, 1 / (1 - m / n), 0.0) == pytest.approx(theirs, rel=1e-12)


def test_the_correlation_is_that_of_the_data() -> None:
    sizes = np.array([1, 2, 3, 4, 10])
    n, codes = sizes.sum(), np.repeat(np.arange(5), sizes)
    weights = 1 / (1 - sizes / n)
    alike = spread(np.array([1.0, 5.0, 2.0, 8.0, 3.0])[codes], codes)
    assert alike.df == pytest.approx(_satterthwaite(sizes.astype(float), weights, 1.0))
    assert alike.df != pytest.approx(_satterthwaite(sizes.astype(float), weights, 0.0), abs=0.1)


def test_two_ways_of_clustering_agree_with_statsmodels() -> None:
    cases, judges = np.repeat(np.arange(20), 6), np.tile(np.arange(6), 20)
    values = RNG.normal(size=120) + RNG.normal(size=20)[cases] + RNG.normal(size=6)[judges]
    fit = sm.OLS(values, np.ones(120)).fit()
    # Their factor (N-1)/(N-1) is 1 for a mean; each of the three variances has its own G/(G-1).
    together = cov_cluster_2groups(fit, cases, judges, use_correction=True)[0]
    half = t.ppf(0.975, 5) * np.sqrt(together[0, 0])
    found = two_way(values, cases, judges)
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert found.method == "two-way clustered"


def test_two_ways_that_are_one_is_one_way() -> None:
    values, labels = RNG.normal(size=40), np.repeat(np.arange(10), 4)
    found = two_way(values, labels, labels)
    assert found.high - found.mean == pytest.approx(t.ppf(0.975, 9) * spread(values, labels).error)


@pytest.mark.parametrize(
    ("values", "one", "two"),
    [([1, 2, 3], "aaa", "abc"), ([1, 2, 3], "abc", "aaa"), ([2, 2, 2, 2], "aabb", "abab"), ([1], "a", "a")],
)
def test_too_little_to_know(values: list[float], one: str, two: str) -> None:
    found = two_way(values, one, two)
    assert (found.low, found.high, found.method) == (None, None, "unknown")


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="labels"):
        two_way([1, 2], "ab", "a")
    with pytest.raises(ValueError, match="level"):
        two_way([1, 2], "ab", "ab", level=2)
