from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from peira.stats.intervals.means import clustered
from peira.stats.intervals.ratios import fieller
from peira.stats.intervals.resampling import bootstrap, bootstrap_mean

RNG = np.random.default_rng(51)


def test_bca_agrees_with_scipy():
    data = RNG.lognormal(size=40)
    theirs = stats.bootstrap((data,), np.mean, n_resamples=20_000, method="BCa", rng=RNG).confidence_interval
    found = bootstrap_mean(data, resamples=20_000)
    width = theirs.high - theirs.low
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=0.03 * width)


def test_ratios_agree_with_fieller():
    cost, right = RNG.gamma(2, 1, 300), RNG.random(300) < 0.5
    found = bootstrap(np.column_stack([cost, right]), lambda means: means[:, 0] / means[:, 1])
    exact = fieller(cost, right)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=0.03)


def test_whole_clusters_are_drawn():
    labels = np.repeat(np.arange(80), 5)
    data = RNG.normal(size=80)[labels] + RNG.normal(size=400)
    found, robust = bootstrap_mean(data, labels), clustered(data, labels)
    assert found.high - found.low == pytest.approx(robust.high - robust.low, rel=0.07)
    assert bootstrap_mean(data).high - bootstrap_mean(data).low < 0.8 * (found.high - found.low)


def test_seeded():
    data = RNG.normal(size=30)
    assert bootstrap_mean(data) == bootstrap_mean(data)
    assert bootstrap_mean(data) != bootstrap_mean(data, seed=1)


def test_ten_thousand_resamples_of_ten_thousand_cases_fit_in_memory():
    data = RNG.random(10_000)
    found = bootstrap_mean(data, resamples=300)
    assert found.low < data.mean() < found.high


@pytest.mark.parametrize("data", [[1.0], [2.0, 2.0, 2.0]])
def test_what_cannot_be_known(data):
    found = bootstrap_mean(data)
    assert (found.low, found.high, found.method) == (None, None, "unknown")


def test_a_ratio_that_may_divide_by_zero_is_unknown():
    with np.errstate(divide="ignore", invalid="ignore"):
        found = bootstrap([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0]], lambda means: means[:, 0] / means[:, 1])
    assert (found.value, found.low, found.method) == (4.0, None, "unknown")


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="table"):
        bootstrap([1.0, 2.0], lambda means: means[:, 0])
    with pytest.raises(ValueError, match="labels"):
        bootstrap_mean([1.0, 2.0], "a")
