from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep
from statsmodels.stats.weightstats import ttest_ind

from peira.stats.intervals.means import estimate
from peira.stats.tests.two_proportions import mover, newcombe, odds_ratio, two_proportions
from peira.stats.tests.unpaired import mann_whitney, permutation, unpaired_difference, welch
from peira.stats.values import Estimate

RNG = np.random.default_rng(4)
ONE, TWO = RNG.normal(0.4, 1, 17), RNG.normal(0, 3, 9)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_welch_agrees_with_statsmodels(alternative):
    their = {"two-sided": "two-sided", "greater": "larger", "less": "smaller"}[alternative]
    statistic, p, _ = ttest_ind(ONE, TWO, alternative=their, usevar="unequal")
    found = welch(ONE, TWO, alternative=alternative)
    assert (found.statistic, found.p) == pytest.approx((statistic, p))


def test_the_interval_agrees_with_scipy():
    theirs = stats.ttest_ind(ONE, TWO, equal_var=False).confidence_interval(0.9)
    found = unpaired_difference(ONE, TWO, level=0.9)
    assert (found.low, found.high) == pytest.approx(tuple(theirs))


def test_clusters_of_one_change_nothing():
    one, two = unpaired_difference(ONE, TWO), unpaired_difference(ONE, TWO, range(17), range(9))
    assert (one.low, one.high) == pytest.approx((two.low, two.high))
    repeated = unpaired_difference(np.repeat(ONE, 3), TWO, np.repeat(np.arange(17), 3))
    assert (repeated.low, repeated.high) == pytest.approx((one.low, one.high))


def test_permutation_agrees_with_scipy():
    few, more = ONE[:5], TWO[:4]

    def gap(x, y, axis):
        return x.mean(axis) - y.mean(axis)

    theirs = stats.permutation_test((few, more), gap, n_resamples=np.inf).pvalue
    assert permutation(few, more).p == pytest.approx(theirs)
    sampled = permutation(ONE, TWO)
    assert sampled.p == pytest.approx(stats.permutation_test((ONE, TWO), gap, rng=RNG).pvalue, abs=0.02)
    assert sampled == permutation(ONE, TWO)


def test_mann_whitney_is_exact_for_few():
    assert mann_whitney([1, 2, 3], [4, 5, 6]).p == pytest.approx(2 / 20)
    assert mann_whitney([1, 1], [1, 1]).p == 1.0


@pytest.mark.parametrize(
    ("one", "two"), [([1.5], [2.0, 3.0]), ([2.0, 2.0], [3.0, 3.0]), ([0.1] * 7, [0.7] * 9)]
)
def test_without_spread_nothing_is_claimed(one, two):
    found = unpaired_difference(one, two)
    assert (found.low, found.high, found.method) == (None, None, "unknown")
    assert welch(one, two).p is None


def test_one_side_without_spread_is_carried_by_the_other():
    assert unpaired_difference([2.0, 2.0, 2.0], [1.0, 3.0, 5.5]).method == "welch"


# R, contingencytables: Newcombe_hybrid_score_CI_2x2(rbind(c(7, 27), c(1, 33)))
def test_newcombes_published_values():
    found = newcombe(7, 34, 1, 34)
    assert (found.mean, found.low, found.high) == pytest.approx((0.1765, 0.0189, 0.3404), abs=5e-5)
    theirs = confint_proportions_2indep(56, 70, 48, 80, method="newcomb", compare="diff")
    ours = newcombe(56, 70, 48, 80)
    # Newcombe (1998), example (a), method 10
    assert (ours.low, ours.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert (ours.low, ours.high) == pytest.approx(theirs)


def test_yes_and_no_values_take_the_same_way():
    found = unpaired_difference([1] * 7 + [0] * 27, [1] + [0] * 33)
    assert (found.low, found.high, found.method) == (newcombe(7, 34, 1, 34).low, newcombe(7, 34, 1, 34).high,
                                                     "newcombe")  # fmt: skip


def test_clustered_proportions_are_recovered_from_the_two_intervals():
    one, two, labels = RNG.random(40) < 0.8, RNG.random(30) < 0.4, np.repeat(np.arange(8), 5)
    found = unpaired_difference(one, two, labels)
    alone = mover(estimate(one, labels), estimate(two, range(30)))
    assert found == alone
    assert found.method == "hybrid of wilson on clusters and exact"


def test_an_unknown_side_leaves_the_difference_unknown():
    assert mover(Estimate(0.5, None, None, 1, "unknown"), estimate([0, 1], "ab")).method == "unknown"


# R, contingencytables: Fisher_exact_test_2x2(rbind(c(0, 16), c(15, 57)))
def test_fishers_published_value():
    assert two_proportions(0, 16, 15, 72, method="fisher").p == pytest.approx(0.06287, abs=5e-6)


def test_the_score_test_is_pearsons_with_campbells_factor():
    statistic = stats.chi2_contingency([[7, 27], [1, 33]], correction=False).statistic
    found = two_proportions(7, 34, 1, 34, method="score")
    assert found.statistic**2 == pytest.approx(statistic * 67 / 68)
    assert found.p == pytest.approx(stats.chi2.sf(statistic * 67 / 68, 1))
    assert found.method == "two proportions, score"
    assert two_proportions(1, 2000, 0, 2000).method == "two proportions, score"
    assert two_proportions(0, 5, 0, 7).p == two_proportions(5, 5, 7, 7).p == 1.0


# R, contingencytables: Exact_unconditional_test_2x2(rbind(c(3, 1), c(1, 3))) is 0.28916, in which 0.0001 is
# Berger and Boos' price for looking only at likely proportions.
def test_the_published_value_of_suissa_and_shuster():
    assert two_proportions(3, 4, 1, 4).p == pytest.approx(0.28916 - 0.0001, abs=1e-5)


def test_exact_agrees_with_scipys_barnard():
    # Theirs has no factor (N-1)/N, which changes no order.
    for table in ([[7, 27], [1, 33]], [[3, 2], [6, 9]]):
        (a, b), (c, d) = table
        for alternative in ("two-sided", "greater", "less"):
            # Their table is columns by outcome rows.
            theirs = stats.barnard_exact([[a, c], [b, d]], alternative=alternative, pooled=True).pvalue
            assert two_proportions(a, a + b, c, c + d, alternative).p == pytest.approx(theirs, abs=2e-4)


def test_the_level_is_kept_by_enumeration():
    for n, m, p in ((10, 10, 0.3), (20, 15, 0.1), (24, 24, 0.5), (20, 20, 0.02)):
        one, two = stats.binom.pmf(np.arange(n + 1), n, p), stats.binom.pmf(np.arange(m + 1), m, p)
        rejected = sum(
            one[x] * two[y]
            for x in range(n + 1)
            for y in range(m + 1)
            if two_proportions(x, n, y, m).p <= 0.05
        )
        assert rejected <= 0.05


# R, contingencytables: Woolf_logit_CI_2x2 gives exp(log(5.625) +- 1.96 sqrt(1/9 + 1/4 + 1/4 + 1/10))
def test_odds_ratios():
    found = odds_ratio(9, 13, 4, 14)
    assert (found.value, found.low, found.high) == pytest.approx((5.625, 1.0773, 29.3710), abs=5e-5)
    # R: fisher.test(rbind(c(0, 16), c(15, 57)))$conf.int
    none = odds_ratio(0, 16, 15, 72)
    assert (none.value, none.low, none.method) == (0.0, 0.0, "exact")
    assert none.high == pytest.approx(
        stats.contingency.odds_ratio([[0, 16], [15, 57]]).confidence_interval().high
    )
    assert odds_ratio(16, 16, 57, 72).high is None
    assert odds_ratio(0, 5, 0, 5).method == "unknown"


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="successes"):
        newcombe(5, 4, 1, 2)
    with pytest.raises(ValueError, match="successes"):
        two_proportions(5, 4, 1, 2)
    for wrong in ({"alternative": "larger"}, {"method": "chi2"}):
        with pytest.raises(ValueError, match="one of"):
            two_proportions(1, 4, 1, 2, **wrong)
    with pytest.raises(ValueError, match="level"):
        unpaired_difference([1.5, 2], [1, 2], level=0)
    with pytest.raises(ValueError, match="labels"):
        unpaired_difference([1.5, 2], [1, 2], "a")


@pytest.mark.parametrize(("few", "many"), [(5, 20), (3, 30)])
def test_a_small_side_beside_a_large_one_keeps_its_level(few, many):
    """Welch's own degrees of freedom reject in 5.7% and 7.6% (400,000 rounds), if nothing differs."""
    rng, rounds = np.random.default_rng(5), 3000
    found = [welch(rng.normal(size=few), rng.normal(size=many)) for _ in range(rounds)]
    assert sum(one.p <= 0.05 for one in found) / rounds <= 0.05
    assert found[0].method == "welch, few"
    assert welch(rng.normal(size=12), rng.normal(size=40)).method == "welch"
