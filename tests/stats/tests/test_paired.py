from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.descriptivestats import sign_test as their_sign_test

from peira.stats.intervals.means import spread
from peira.stats.tests.mcnemar import tango
from peira.stats.tests.paired import (
    difference,
    paired_bounded,
    paired_permutation,
    paired_t,
    sign_test,
    wilcoxon,
)
from peira.stats.tests.unpaired import unpaired_difference, welch

# Student's sleep data, as in R: data(sleep)
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_students_own_example():
    # R: t.test(sleep$extra[1:10], sleep$extra[11:20], paired = TRUE)
    found = paired_t(FIRST, SECOND)
    assert (found.statistic, found.p) == pytest.approx((-4.062128, 0.00283289), rel=1e-6)
    interval = difference(FIRST, SECOND)
    assert (interval.mean, interval.low, interval.high) == pytest.approx(
        (-1.58, -2.4598858, -0.7001142), abs=1e-7
    )


def test_wilcoxon_on_the_same():
    # R: wilcox.test(a, b, paired = TRUE, exact = FALSE, correct = FALSE) has V = 0; exactly: 2/2^9
    assert wilcoxon(FIRST, SECOND).p == pytest.approx(2 / 2**9)


def test_sign_test_agrees_with_statsmodels():
    statistic, p = their_sign_test(np.subtract(FIRST, SECOND))
    assert sign_test(FIRST, SECOND).p == pytest.approx(p)
    assert abs(statistic) == 4.5


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_few_cases_are_permuted_exactly(alternative):
    one, two = [3.0, 5.0, 1.0, 4.0, 2.5], [2.0, 5.5, 0.0, 2.0, 2.0]
    theirs = stats.permutation_test(
        (np.subtract(one, two),),
        np.mean,
        permutation_type="samples",
        alternative=alternative,
        n_resamples=np.inf,
    )
    found = paired_permutation(one, two, alternative=alternative)
    assert found.p == pytest.approx(theirs.pvalue)
    assert found.method == "sign-flip permutation (exact)"


def test_sums_that_differ_by_rounding_are_equal():
    tenths = np.array([-6, -5, 3, 3, 1, 1])
    whole = paired_permutation(tenths, np.zeros(6)).p
    assert paired_permutation(tenths / 10, np.zeros(6)).p == whole == 52 / 64


def test_many_cases_are_sampled_and_agree_with_t():
    rng = np.random.default_rng(5)
    one, two = rng.normal(0.1, 1, 300), rng.normal(0, 1, 300)
    found = paired_permutation(one, two)
    assert found.p == pytest.approx(paired_t(one, two).p, abs=0.015)
    assert found == paired_permutation(one, two)
    assert found != paired_permutation(one, two, seed=1)
    assert paired_permutation(one + 5, two).p == pytest.approx(1 / 10_001)


def test_flips_are_by_cluster():
    one, two, labels = [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], "aaabbb"
    assert paired_permutation(one, two).p == pytest.approx(2 / 2**6)
    assert paired_permutation(one, two, labels).p == pytest.approx(2 / 2**2)


def test_clusters_count_once():
    rng = np.random.default_rng(2)
    one, two, labels = rng.normal(size=40), rng.normal(size=40), np.repeat(np.arange(8), 5)
    error = spread(one - two, labels)
    found, interval = paired_t(one, two, labels), difference(one, two, labels)
    assert found.statistic == pytest.approx((one - two).mean() / error.error)
    assert interval.high - interval.mean == pytest.approx(stats.t.ppf(0.975, 7) * error.error)
    assert (found.method, interval.method) == ("paired t, clustered", "clustered (few)")


def test_yes_and_no_of_single_cases_is_tango():
    found = difference([1, 1, 0, 1, 0], [1, 0, 0, 1, 1])
    assert (found.low, found.high) == (tango(1, 1, 5).low, tango(1, 1, 5).high)
    assert found.method == "tango"


def test_yes_and_no_in_clusters_stays_in_range_and_never_closes():
    found = difference([1, 1, 0, 1], [1, 0, 0, 1], "aabb")
    assert -1 <= found.low < found.mean < found.high <= 1
    same = difference([1, 1, 0, 1], [1, 1, 0, 1], "aabb")
    assert same.method == "tango on clusters"
    assert (same.low, same.high) == (tango(0, 0, 2).low, tango(0, 0, 2).high)


@pytest.mark.parametrize(
    ("one", "two", "labels", "p"),
    [([0.5], [0.2], None, None), ([1, 2, 3], [0, 1, 2], None, 0.25), ([1, 2, 3], [1, 2, 3], None, 1.0),
     ([0.1, 0.9], [0.3, 0.4], "aa", None)],
)  # fmt: skip
def test_without_spread_there_is_no_t_interval_and_signs_are_flipped(one, two, labels, p):
    assert paired_t(one, two, labels).p == p
    found = difference(one, two, labels)
    assert (found.low, found.high, found.method) == (None, None, "unknown")


@pytest.mark.parametrize(("alternative", "p"), [("two-sided", 2**-199), ("less", 2**-200), ("greater", 1)])
def test_equal_differences_are_evidence(alternative, p):
    found = paired_t([2.0] * 200, [7.0] * 200, None, alternative)
    assert (found.p, found.method) == (p, "sign-flip permutation, equal differences")


def test_scores_within_limits_are_tested_in_agreement_with_their_interval():
    rng = np.random.default_rng(3)
    for n in (3, 8, 20):
        one, two = rng.beta(8, 2, n), rng.beta(5, 5, n)
        p = paired_bounded(one, two, (0, 1)).p
        for level in (1 - p - 1e-4, 1 - p + 1e-4):
            found = difference(one, two, None, level, (0, 1))
            assert found.method == "bounded"
            assert found.excludes_zero == (level < 1 - p)


def test_ranks_and_signs_without_differences():
    assert wilcoxon([1, 2], [1, 2]).p == sign_test([1, 2], [1, 2]).p == 1.0


def test_a_misspelt_alternative_is_refused():
    for test in (paired_t, paired_permutation, wilcoxon, sign_test):
        with pytest.raises(ValueError, match=r"[Aa]lternative"):
            test([1.0, 2.0, 4.0], [0.5, 2.5, 3.0], alternative="larger")


def test_wrong_input_is_refused():
    for test in (difference, paired_t, paired_permutation, wilcoxon, sign_test):
        with pytest.raises(ValueError, match="pairs"):
            test([1, 2], [1, 2, 3])
        with pytest.raises(ValueError, match="finite"):
            test([1, np.nan], [1, 2])


values = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=12)


@given(values)
def test_sides_are_mirror_images(rows):
    one, two = (np.array(part, float) for part in zip(*rows, strict=True))
    forth, back = difference(one, two), difference(two, one)
    if forth.low is not None:
        assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert paired_permutation(one, two).p == pytest.approx(paired_permutation(two, one).p)
    assert paired_t(one, two).p == pytest.approx(paired_t(two, one).p)


@given(values)
def test_the_interval_and_the_test_agree(rows):
    one, two = (np.array(part, float) for part in zip(*rows, strict=True))
    found, p = difference(one, two), paired_t(one, two).p
    if found.method.startswith("t") and found.method != "tango" and p is not None and abs(p - 0.05) > 1e-9:
        assert (found.low <= 0 <= found.high) == (p > 0.05)


def test_skewed_differences_are_tested_as_their_interval_says() -> None:
    rng = np.random.default_rng(8)
    for n in (12, 40, 150):
        for shift in (0.0, 0.3, 0.6, 1.0, 1.7):
            one, two = rng.lognormal(0, 1, n) - 1 + shift, rng.normal(0, 0.1, n)
            found, tested = difference(one, two, skewed=True), paired_t(one, two, skewed=True)
            assert found.excludes_zero == (tested.p < 0.05)
            assert tested.p >= paired_t(one, two).p
            apart, welched = unpaired_difference(one, two, skewed=True), welch(one, two, skewed=True)
            assert apart.excludes_zero == (welched.p < 0.05)
            sides = [paired_t(one, two, None, side, True).p for side in ("greater", "less")]
            assert min(1.0, 2 * min(sides)) == pytest.approx(tested.p)


def test_a_long_tail_is_not_taken_for_a_difference() -> None:
    """30 log-normal values against tight ones of the same mean: plain t rejects in 0.11."""
    rng, wrong = np.random.default_rng(9), 0
    for _ in range(500):
        one, two = rng.lognormal(0, 1, 30) - math.exp(0.5), rng.normal(0, 0.1, 30)
        wrong += (paired_t(one, two, skewed=True).p or 1.0) <= 0.05
    assert wrong / 500 < 0.075


def test_few_values_without_limits_are_marked_paired_or_not() -> None:
    one, two = np.arange(12.0), 3.0 - np.arange(12.0) / 2
    assert difference(one, two, skewed=True).method == "t (few)"
    assert unpaired_difference(one, two, skewed=True).method == "welch (few)"
    assert unpaired_difference(one, two).method == "welch"
