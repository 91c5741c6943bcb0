from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from peira.stats.intervals.ratios import delta, fieller

RNG = np.random.default_rng(23)
COST, RIGHT = RNG.gamma(2, 1, 60), (RNG.random(60) < 0.4).astype(float)


def test_fieller_is_the_set_of_ratios_that_a_t_test_does_not_reject():
    found = fieller(COST, RIGHT)
    assert found.value == pytest.approx(COST.sum() / RIGHT.sum())
    for bound in (found.low, found.high):
        residual = COST - bound * RIGHT
        statistic = residual.mean() / (residual.std(ddof=1) / np.sqrt(60))
        assert 2 * t.sf(abs(statistic), 59) == pytest.approx(0.05)


def test_delta_by_its_formula():
    found = delta(COST, RIGHT)
    residual = COST - found.value * RIGHT
    error = residual.std(ddof=1) / np.sqrt(60) / RIGHT.mean()
    assert found.high - found.value == pytest.approx(t.ppf(0.975, 59) * error)


def test_both_agree_when_the_denominator_is_certain():
    one, two = fieller(COST, np.ones(60) + 1e-3 * RIGHT), delta(COST, np.ones(60) + 1e-3 * RIGHT)
    assert (one.low, one.high) == pytest.approx((two.low, two.high), rel=1e-3)


def test_clusters_are_the_unit():
    labels = np.repeat(np.arange(60), 3)
    one, three = fieller(COST, RIGHT), fieller(np.repeat(COST, 3), np.repeat(RIGHT, 3), labels)
    assert (three.low, three.high) == pytest.approx((one.low, one.high))


def test_an_uncertain_denominator_bounds_nothing():
    found = fieller([1.0, 2.0, 3.0], [0.0, 0.0, 1.0])
    assert (found.low, found.high, found.method) == (None, None, "fieller, unbounded")
    assert found.value == 6.0


@pytest.mark.parametrize(("top", "bottom"), [([1.0], [1.0]), ([1, 2], [0, 0]), ([1, 1], [2, 2])])
def test_what_cannot_be_known(top, bottom):
    for ratio in (fieller, delta):
        found = ratio(top, bottom)
        assert (found.low, found.high, found.method) == (None, None, "unknown")


def test_coverage_of_cost_per_success():
    rng = np.random.default_rng(29)
    held = 0
    for _ in range(600):
        found = fieller(rng.gamma(2, 1, 40), rng.random(40) < 0.5)
        held += found.low <= 4.0 <= found.high
    assert 0.92 < held / 600 < 0.98
