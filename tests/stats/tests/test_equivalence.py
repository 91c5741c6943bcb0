from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from peira.stats.normal import p_value
from peira.stats.tests.equivalence import equivalence, paired_equivalence, unpaired_equivalence
from peira.stats.tests.mcnemar import tango_score
from peira.stats.values import Estimate

RNG = np.random.default_rng(6)
ONE = RNG.normal(size=40)
TWO = ONE + RNG.normal(0.03, 0.3, 40)


@pytest.mark.parametrize(("low", "high"), [(-0.2, 0.2), (-0.05, 0.4), (0.1, 0.4)])
def test_paired_agrees_with_statsmodels(low, high):
    p, (_, p_low, _), (_, p_high, _) = ttost_paired(ONE, TWO, low, high)
    found = paired_equivalence(ONE, TWO, low, high)
    assert (found.p, found.p_low, found.p_high) == pytest.approx((p, p_low, p_high), rel=1e-6)


def test_unpaired_agrees_with_statsmodels():
    p, (_, p_low, _), (_, p_high, _) = ttost_ind(ONE, TWO[:25], -0.5, 0.5, usevar="unequal")
    found = unpaired_equivalence(ONE, TWO[:25], -0.5, 0.5)
    assert (found.p, found.p_low, found.p_high) == pytest.approx((p, p_low, p_high), rel=1e-6)


def test_a_published_example():
    # R, TOSTER: TOSTtwo(m1 = 5.25, m2 = 5.22, sd1 = 0.95, sd2 = 0.83, n1 = 95, n2 = 89,
    # low_eqbound_d = -0.43, high_eqbound_d = 0.43, var.equal = FALSE): p = 0.001 below, 0.004 above
    parts = [0.95**2 / 95, 0.83**2 / 89]
    df = sum(parts) ** 2 / (parts[0] ** 2 / 94 + parts[1] ** 2 / 88)

    def interval(level):
        half = t.ppf(0.5 + level / 2, df) * np.sqrt(sum(parts))
        return Estimate(0.03, 0.03 - half, 0.03 + half, 184, "welch")

    margin = 0.43 * np.sqrt((0.95**2 + 0.83**2) / 2)
    found = equivalence(interval, -margin, margin)
    assert (found.p_low, found.p_high) == pytest.approx((0.001, 0.004), abs=5e-4)
    assert (found.p, found.answer) == (found.p_high, "within")


def test_yes_and_no_on_the_same_cases_is_tangos_score():
    one, two = np.repeat([1, 1, 0, 0], [60, 9, 6, 25]), np.repeat([1, 0, 1, 0], [60, 9, 6, 25])
    found = paired_equivalence(one, two, -0.1, None)
    assert found.p_low == pytest.approx(p_value(tango_score(9, 6, 100, -0.1), "greater"), rel=1e-5)
    assert (found.p_high, found.answer) == (None, "within")


def test_answers():
    def interval(level):
        return Estimate(0.0, -level, level, 9, "made up")

    assert equivalence(interval, -0.95, 0.95).answer == "within"
    assert equivalence(interval, -0.5, 0.95).answer == "undecided"
    assert equivalence(interval, 0.91, 0.95).answer == "outside"
    assert equivalence(interval, None, -0.91).answer == "outside"
    assert equivalence(interval, -0.95, None).p_high is None


def test_one_side_is_non_inferiority():
    both, one = paired_equivalence(ONE, TWO, -0.2, 0.2), paired_equivalence(ONE, TWO, -0.2, None)
    assert one.p == both.p_low
    assert one.interval == both.interval


@pytest.mark.parametrize(("one", "two"), [([1.5], [1.0]), ([1.5, 1.5], [1.0, 1.0])])
def test_what_cannot_be_known_is_undecided(one, two):
    found = paired_equivalence(one, two, -1, 1)
    assert (found.answer, found.p, found.interval.method) == ("undecided", None, "unknown")


@pytest.mark.parametrize(
    ("low", "high", "alpha"), [(None, None, 0.05), (1, 1, 0.05), (2, 1, 0.05), (0, 1, 0.6)]
)
def test_impossible_margins_are_refused(low, high, alpha):
    with pytest.raises(ValueError, match=r"margin|alpha"):
        paired_equivalence(ONE, TWO, low, high, alpha=alpha)
