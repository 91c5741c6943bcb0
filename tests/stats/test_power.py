from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestIndPower, TTestPower

from peira.stats.power import (
    cases_needed,
    design_effect,
    deviation_interval,
    error_bars_cases,
    mcnemar_cases,
    mcnemar_power,
    mcnemar_smallest,
    more_cases,
    paired,
    power,
    proportions_cases,
    proportions_power,
    repeated,
    smallest_difference,
    unpaired,
)
from peira.stats.tests.mcnemar import mcnemar


@pytest.mark.parametrize(("effect", "n"), [(0.5, 34), (0.2, 100), (1.0, 5), (0.05, 3000)])
def test_power_agrees_with_statsmodels(effect, n):
    assert power(paired(1.0), n, effect) == pytest.approx(TTestPower().power(effect, n, 0.05), abs=1e-9)
    assert power(unpaired(1.0), n, effect) == pytest.approx(TTestIndPower().power(effect, n, 0.05), abs=1e-9)


@pytest.mark.parametrize(
    ("design", "n", "difference", "alpha", "known"),
    [
        (paired, 8, 2.5, 0.01, 0.9958189744),
        (paired, 9, 2.5, 0.01, 0.99925677),
        (unpaired, 5, 4, 0.001, 0.81745038),
        (paired, 4, 8, 0.01, 0.99988743),
        (paired, 100, 3, 0.05, 1.0),
    ],
)
def test_power_as_r_has_it(design, n, difference, alpha, known):
    # R: power.t.test(n = 8, delta = 2.5, sd = 1, sig.level = .01, type = "paired", strict = TRUE)$power
    # (type = "two.sample" for the unpaired one)
    assert power(design(1.0), n, difference, alpha) == pytest.approx(known, abs=1e-8)


def test_sample_sizes_as_r_has_them():
    # R: power.t.test(delta = 2.5, sd = 1, sig.level = .01, power = .8, type = "paired", strict = TRUE)$n
    assert cases_needed(paired(1.0), 2.5, 0.01) == 6
    # R: power.t.test(delta = 6, sd = 1, sig.level = .01, power = .9, type = "paired", strict = TRUE)$n: 3.439
    assert cases_needed(paired(1.0), 6, 0.01, 0.9) == 4


@given(
    st.sampled_from([paired, unpaired]),
    st.integers(2, 2000),
    st.floats(0.001, 100),
    st.floats(0.0001, 0.4),
)
def test_power_is_a_number_between_alpha_and_1(design, n, difference, alpha):
    assert alpha - 1e-9 <= power(design(1.0), n, difference, alpha) <= 1


def test_the_interval_of_a_deviation():
    # R: 2 * sqrt(9 / qchisq(c(.975, .025), 9))
    assert deviation_interval(2.0, 9) == pytest.approx((1.375670413, 3.651220365), rel=1e-8)


def test_cohens_table():
    # Cohen (1988), table 2.4.1: two-sided alpha 0.05, power 0.80, n on each side
    for d, n in ((0.2, 393), (0.5, 64), (0.8, 26)):
        assert cases_needed(unpaired(1.0), d) == pytest.approx(n, abs=1)
    assert cases_needed(unpaired(2.5), 0.5 * 2.5) == cases_needed(unpaired(1.0), 0.5)


# Miller (2024), "Adding Error Bars to Evals", on power: between-case variance 1/9, no within-case variance, a
# difference of 0.03 at alpha 0.05 with power 0.80
def test_error_bars_for_evals():
    assert round(error_bars_cases(1 / 9, 0, 0.03)) == 969
    assert cases_needed(repeated(1 / 9, 0, 1), 0.03) == pytest.approx(969, abs=3)
    with_noise = error_bars_cases(1 / 9, 2 * (1 / 6) / 10, 0.03)
    assert cases_needed(repeated(1 / 9, 1 / 6, 10), 0.03) == pytest.approx(with_noise, abs=3)


@given(st.floats(0.01, 3), st.integers(2, 5000), st.sampled_from([0.01, 0.05, 0.1]))
def test_the_smallest_difference_is_just_seen(deviation, n, alpha):
    for design in (paired(deviation), unpaired(deviation)):
        found = smallest_difference(design, n, alpha)
        assert power(design, n, found, alpha) == pytest.approx(0.8, abs=1e-6)


@given(st.floats(0.05, 2), st.sampled_from([0.5, 0.8, 0.95]))
def test_one_case_fewer_is_not_enough(difference, wanted):
    n = cases_needed(paired(1.0), difference, wanted=wanted)
    assert power(paired(1.0), n, difference) >= wanted
    assert n == 2 or power(paired(1.0), n - 1, difference) < wanted
    assert more_cases(paired(1.0), 10, difference, wanted=wanted) == max(0, n - 10)


def test_repeats_help_only_so_far():
    needed = [cases_needed(repeated(0.04, 0.2, k), 0.05) for k in (1, 2, 10, 1000)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] == pytest.approx(cases_needed(paired(0.2), 0.05), abs=2)


def test_related_cases_count_for_less():
    assert design_effect(10, 0.2) == pytest.approx(2.8)
    alone, related = cases_needed(paired(1.0), 0.2), cases_needed(paired(1.0, design_effect(10, 0.2)), 0.2)
    assert related == pytest.approx(2.8 * alone, rel=0.01)


def test_nothing_to_see():
    assert cases_needed(paired(1.0), 0.0) is None
    assert mcnemar_cases(0.1, 0.1) is None
    assert proportions_cases(0.4, 0.4) is None
    assert smallest_difference(paired(1.0), 1) is None
    assert mcnemar_smallest(0.05, 20) is None
    assert power(paired(1.0), 1, 5.0) == 0.0


def test_mcnemars_power_by_simulation():
    rng = np.random.default_rng(21)
    draws = rng.multinomial(120, [0.18, 0.06, 0.76], 1500)
    seen = np.mean([mcnemar(int(b), int(c), 120).p <= 0.05 for b, c, _ in draws])
    assert mcnemar_power(0.18, 0.06, 120) == pytest.approx(seen, abs=0.035)


def test_connors_formula():
    # Connor (1987): n = (z sqrt(psi) + z' sqrt(psi - d^2))^2 / d^2
    won, lost = 0.25, 0.1
    psi, d = won + lost, won - lost
    n = (1.959964 * math.sqrt(psi) + 0.841621 * math.sqrt(psi - d**2)) ** 2 / d**2
    assert mcnemar_cases(won, lost) == pytest.approx(n, rel=0.05)
    assert mcnemar_power(won, lost, 5000) == pytest.approx(1.0)
    assert mcnemar_power(0.11, 0.09, 2000) == pytest.approx(mcnemar_power(0.11, 0.09, 2001), abs=0.01)


def test_the_smallest_matched_difference_is_just_seen():
    found = mcnemar_smallest(0.2, 150)
    assert mcnemar_power(0.1 + found / 2, 0.1 - found / 2, 150) == pytest.approx(0.8, abs=1e-3)


def test_independent_proportions():
    # Fleiss, Levin and Paik (2003), formula 4.14 without correction: 0.6 against 0.5 takes 388 on each side
    assert proportions_cases(0.6, 0.5) == pytest.approx(388, abs=1)
    assert proportions_power(0.6, 0.5, 388) == pytest.approx(0.8, abs=0.002)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: paired(0.0),
        lambda: repeated(-1, 0, 1),
        lambda: repeated(1, 1, 0),
        lambda: design_effect(0, 0.1),
        lambda: power(paired(1.0), 10, 1.0, alpha=0),
        lambda: cases_needed(paired(1.0), 1.0, wanted=0.01),
        lambda: mcnemar_power(0.6, 0.6, 10),
        lambda: proportions_power(0.6, 1.6, 10),
    ],
)
def test_impossible_studies_are_refused(wrong):
    with pytest.raises(ValueError, match="need"):
        wrong()
