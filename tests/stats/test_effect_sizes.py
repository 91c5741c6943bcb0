from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, nct

from peira.stats.effect_sizes import cliffs_delta, cohen_d, cohen_dz, cohen_h, hedges_g

RNG = np.random.default_rng(8)
ONE, TWO = RNG.normal(0.6, 1, 21), RNG.normal(0, 1, 15)

# R, effsize: cliff.delta(treatment, control)
TREATMENT = [10, 10, 20, 20, 20, 30, 30, 30, 40, 50]
CONTROL = [10, 20, 30, 40, 40, 50]


def test_cliffs_delta_as_in_effsize():
    found = cliffs_delta(TREATMENT, CONTROL)
    assert (found.value, found.low, found.high) == pytest.approx((-0.25, -0.7265846, 0.3890062), abs=1e-7)


def test_cliffs_delta_is_a_count_of_pairs():
    gaps = np.sign(np.subtract.outer(ONE, TWO))
    assert cliffs_delta(ONE, TWO).value == pytest.approx(gaps.mean())


def test_sides_that_do_not_overlap():
    found = cliffs_delta([5, 6, 7], [1, 2])
    assert (found.value, found.high, found.method) == (1.0, 1.0, "cliff's delta, separated")
    assert found.low < 0.35
    assert cliffs_delta([5], [1, 2]).low is None


def test_cohens_d_by_its_definition():
    pooled = math.sqrt((20 * ONE.var(ddof=1) + 14 * TWO.var(ddof=1)) / 34)
    found = cohen_d(ONE, TWO)
    assert found.value == pytest.approx((ONE.mean() - TWO.mean()) / pooled)
    root = math.sqrt(1 / 21 + 1 / 15)
    t = found.value / root
    assert nct.sf(t, 34, found.low / root) == pytest.approx(0.025, rel=1e-4)
    assert nct.cdf(t, 34, found.high / root) == pytest.approx(0.025, rel=1e-4)


def test_hedges_takes_the_bias_off():
    # The exact factor at 34 degrees of freedom; 1 - 3 / (4 x 34 - 1) approximates it.
    assert hedges_g(ONE, TWO).value / cohen_d(ONE, TWO).value == pytest.approx(1 - 3 / 135, abs=5e-5)


def test_students_sleep_data():
    # R: effectsize::cohens_d(Pair(a, b) ~ 1) is -1.28 [-2.12, -0.41]; unpaired d -0.83 [-1.74, 0.10]
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    dz, d = cohen_dz(first, second), cohen_d(first, second)
    assert (dz.value, dz.low, dz.high) == pytest.approx((-1.28, -2.12, -0.41), abs=0.005)
    assert (d.value, d.low, d.high) == pytest.approx((-0.83, -1.74, 0.10), abs=0.005)


def test_cohens_h():
    # Cohen (1988): 2 arcsin sqrt(0.65) - 2 arcsin sqrt(0.5)
    found = cohen_h(65, 100, 50, 100)
    assert found.value == pytest.approx(0.3047, abs=5e-5)
    assert found.high - found.value == pytest.approx(1.95996 * math.sqrt(2 / 100), abs=1e-5)
    assert cohen_h(3, 3, 0, 2).high == math.pi


@pytest.mark.parametrize(
    "found",
    [
        cohen_d([1], [2]),
        cohen_d([1, 1], [2, 2]),
        hedges_g([1, 2], [2]),
        hedges_g([2, 2], [1, 1]),
        cohen_dz([1], [2]),
        cohen_dz([1, 2], [2, 3]),
    ],
)
def test_without_spread_nothing_is_known(found):
    assert (found.value, found.low, found.high, found.method) == (None, None, None, "unknown")


numbers = st.lists(st.integers(-20, 20), min_size=2, max_size=15)


@given(numbers, numbers)
def test_sides_are_mirror_images(one, two):
    for size in (cohen_d, hedges_g, cliffs_delta):
        forth, back = size(one, two), size(two, one)
        if forth.low is not None:
            assert (forth.value, forth.low, forth.high) == pytest.approx((-back.value, -back.high, -back.low))
            assert forth.low <= forth.value <= forth.high


@given(numbers, numbers)
def test_cliffs_delta_knows_only_the_order(one, two):
    def stretched(values):
        return [math.exp(value / 10) for value in values]

    assert cliffs_delta(one, two) == cliffs_delta(stretched(one), stretched(two))


@pytest.mark.parametrize("t", [900.0, 1100.0, 1e8, 1e100, -1100.0, -1e12])
def test_a_huge_effect_has_bounds_and_takes_no_time(t: float) -> None:
    """About the true bounds: t times the root of a chi-square over its degrees of freedom."""
    n = 5
    one = [t + step for step in (-1.0, 0.0, 1.0, 2.0, -2.0)]
    found = cohen_dz(one, [0.0] * n)
    spread = sum(x * x for x in (1, 1, 2, 2)) / (n - 1)
    ends = [chi2.isf(p, n - 1) for p in (0.975, 0.025)]
    wanted = sorted(t / spread**0.5 * (end / (n - 1)) ** 0.5 for end in ends)
    if found.low is not None:  # so far out the spread is rounding
        assert (found.low, found.high) == pytest.approx(wanted, rel=2e-3)
