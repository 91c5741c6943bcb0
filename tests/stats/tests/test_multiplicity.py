from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multicomp import pairwise_tukeyhsd
from statsmodels.stats.multitest import multipletests

from peira.stats.tests.multiplicity import (
    benjamini_hochberg,
    bonferroni,
    dunnett,
    family_level,
    holm,
    largest_t,
    tukey,
)
from peira.stats.tests.paired import paired_t

ALL = {"bonferroni": bonferroni, "holm": holm, "fdr_bh": benjamini_hochberg}


@pytest.mark.parametrize("name", ALL)
def test_adjusted_as_in_statsmodels(name):
    rng = np.random.default_rng(1)
    for p in (rng.random(9) ** 2, [0.01, 0.01, 0.5, 0.02], [0.3]):
        assert ALL[name](list(p)) == pytest.approx(multipletests(p, method=name)[1].tolist(), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusting_keeps_the_order_and_never_makes_smaller(p):
    order = np.argsort(p, kind="stable")
    for adjust in ALL.values():
        found = np.array(adjust(p))
        assert (found >= np.array(p) - 1e-12).all()
        assert (np.diff(found[order]) >= -1e-12).all()
    pairs = zip(bonferroni(p), holm(p), benjamini_hochberg(p), strict=True)
    assert all(one >= two - 1e-12 >= three - 2e-12 for one, two, three in pairs)


def test_benjamini_and_hochbergs_own_example():
    # Benjamini and Hochberg (1995), section 4: 15 p-values, of which four are discoveries at 0.05.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719]
    p += [0.6528, 0.7590, 1.0]
    assert sum(value <= 0.05 for value in benjamini_hochberg(p)) == 4
    assert sum(value <= 0.05 for value in bonferroni(p)) == 3


def test_a_test_that_could_not_be_made_still_counts():
    assert holm([0.01, None, 0.02]) == [0.03, None, 0.04]
    assert bonferroni([None, None]) == [None, None]
    assert benjamini_hochberg([]) == []


def test_levels_of_a_family():
    assert family_level(0.95, 5) == pytest.approx(0.99)
    for wrong in ((1.0, 2), (0.95, 0)):
        with pytest.raises(ValueError, match=r"level|family"):
            family_level(*wrong)


def test_what_is_no_p_value_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, 1.5])


# Dunnett (1955): blood counts of animals under a control and two drugs.
CONTROL = [7.40, 8.50, 7.20, 8.24, 9.84, 8.32]
DRUG_A = [9.76, 8.80, 7.68, 9.36]
DRUG_B = [12.80, 9.68, 12.16, 9.20, 10.55]


def test_dunnetts_own_example():
    first, second = dunnett(CONTROL, [DRUG_A, DRUG_B])
    assert (first.first, first.second, first.difference) == (1, 0, pytest.approx(0.65))
    assert first.p == pytest.approx(0.62004941, abs=2e-4)
    assert second.p == pytest.approx(0.0058847, abs=2e-4)
    assert (first.low, first.high) == pytest.approx((-1.253, 2.553), abs=0.01)
    assert (second.low, second.high) == pytest.approx((0.841, 4.415), abs=0.01)


def test_tukey_agrees_with_statsmodels():
    rng = np.random.default_rng(3)
    groups = [rng.normal(mean, 1, size) for mean, size in ((0, 8), (0.7, 11), (1.5, 9))]
    labels = np.repeat(np.arange(3), [8, 11, 9])
    theirs = pairwise_tukeyhsd(np.concatenate(groups), labels)
    found = tukey(groups)
    assert [one.p for one in found] == pytest.approx(theirs.pvalues, abs=1e-4)
    # Theirs is the later minus the earlier.
    assert [one.low for one in found] == pytest.approx(-theirs.confint[:, 1], abs=1e-3)


def test_groups_too_small_to_compare():
    assert [one.p for one in tukey([[1.0], [2.0, 3.0]])] == [None]
    assert [one.low for one in dunnett([1, 1], [[2, 2]])] == [None]


def test_one_contrast_keeps_its_p_value_and_level():
    table = np.random.default_rng(9).normal(size=(12, 2))
    found, single = largest_t(table, [(0, 1)]), paired_t(table[:, 0], table[:, 1]).p
    assert found.adjusted(single) == pytest.approx(single, abs=0.01)
    assert found.own_level(0.95) == pytest.approx(0.95, abs=0.003)


def test_contrasts_that_are_one_cost_nothing_and_independent_ones_cost_sidak():
    table = np.random.default_rng(10).normal(size=(400, 8))
    same = largest_t(table, [(0, 1), (1, 0), (0, 1)])
    assert same.own_level(0.95) == pytest.approx(0.95, abs=0.003)
    apart = largest_t(table, [(0, 1), (2, 3), (4, 5), (6, 7)])
    for p in (0.001, 0.01, 0.2):
        assert apart.adjusted(p) == pytest.approx(1 - (1 - p) ** 4, abs=0.02)
    assert apart.own_level(0.95) == pytest.approx(0.95**0.25, abs=0.002)


def test_all_pairs_hold_together():
    """Four sides that do not differ, on the same cases: a family is wrong about 5 times in 100."""
    rng = np.random.default_rng(12)
    pairs, wrong = [(i, j) for i in range(4) for j in range(i)], 0
    for seed in range(50):
        table = rng.normal(size=(15, 4)) + rng.normal(size=(15, 1))
        least = min(paired_t(table[:, i], table[:, j]).p for i, j in pairs)
        wrong += largest_t(table, pairs, seed=seed).adjusted(least) <= 0.05
    assert wrong <= 7


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=1, max_size=12),
    st.floats(0, 1),
    st.floats(0, 1),
)
@settings(max_examples=40, deadline=None)
def test_adjusted_p_values_are_never_below_the_plain_ones(rows, one, two):
    """Nor beyond Bonferroni's, but for the error of the simulation; and the smaller stays the smaller."""
    found = largest_t(rows, [(0, 1), (0, 2), (1, 2)])
    low, high = sorted((one, two))
    assert low <= found.adjusted(low) <= found.adjusted(high) <= 1
    assert found.adjusted(low) <= 3 * low + 0.01
    assert 0.95 - 1e-9 <= found.own_level(0.95) < 1
    assert found.adjusted(1 - found.own_level(0.95)) <= 0.05 + 1e-9


def test_a_contrast_without_spread_counts_by_bonferroni():
    table = np.column_stack([np.random.default_rng(14).normal(size=20), np.zeros(20), np.zeros(20)])
    assert largest_t(table, [(1, 2), (0, 1)]).adjusted(0.01) == pytest.approx(0.02, abs=0.002)
    assert largest_t([[1.0, 2.0]], [(0, 1)]).adjusted(0.01) == 0.01
    with pytest.raises(ValueError, match="table"):
        largest_t([1.0, 2.0], [(0, 1)])
