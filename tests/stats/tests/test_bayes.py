from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from peira.stats.tests import bayes

RNG = np.random.default_rng(15)


def test_independent_proportions_against_the_exact_integral():
    one, two = stats.beta(8.5, 27.5), stats.beta(1.5, 33.5)
    better = one.expect(two.cdf)
    found = bayes.proportions(8, 35, 1, 34)
    assert found.better == pytest.approx(better, abs=0.005)
    assert found.mean == pytest.approx(one.mean() - two.mean(), abs=0.002)
    assert found.low < found.mean < found.high


def test_matched_answers_against_the_exact_beta():
    """Whether won exceeds lost depends only on their shares of both, which are beta."""
    found = bayes.matched(16, 6, 161)
    assert found.better == pytest.approx(stats.beta(16.5, 6.5).sf(0.5), abs=0.005)
    assert found.mean == pytest.approx(10 / 163, abs=0.002)


def test_means_have_a_t_posterior():
    one, two = RNG.normal(0.3, 1, 20), RNG.normal(0, 1, 20)
    found = bayes.paired_means(one, two, rope=(-0.1, 0.1))
    data = one - two
    posterior = stats.t(19, data.mean(), data.std(ddof=1) / np.sqrt(20))
    assert (found.low, found.high) == pytest.approx(posterior.interval(0.95))
    assert (found.better, found.below, found.above) == pytest.approx(
        (posterior.sf(0), posterior.cdf(-0.1), posterior.sf(0.1))
    )
    # With a flat prior, the chance of being worse is the one-sided p-value.
    assert 1 - found.better == pytest.approx(stats.ttest_rel(one, two, alternative="greater").pvalue)
    unpaired = bayes.unpaired_means(one, two)
    assert 1 - unpaired.better == pytest.approx(
        stats.ttest_ind(one, two, equal_var=False, alternative="greater").pvalue
    )


def test_mass_is_shared_out():
    for found in (
        bayes.proportions(8, 35, 1, 34, (-0.05, 0.02)),
        bayes.matched(3, 3, 50, (-0.1, 0.1)),
        bayes.paired_means([1, 2, 4.0], [1, 1, 1], rope=(-0.5, 0.5)),
    ):
        assert found.below + found.within + found.above == pytest.approx(1)
        assert min(found.below, found.within, found.above) >= 0


def test_clusters_make_it_less_sure():
    one, labels = np.repeat(RNG.normal(0.3, 1, 8), 5), np.repeat(np.arange(8), 5)
    alone, clustered = bayes.paired_means(one, one * 0), bayes.paired_means(one, one * 0, labels)
    assert clustered.high - clustered.low > 1.8 * (alone.high - alone.low)


@pytest.mark.parametrize(
    "found",
    [
        bayes.paired_means([1.0], [0.0]),
        bayes.paired_means([1.0, 2.0], [0.0, 1.0]),
        bayes.unpaired_means([1.0], [0.0, 2.0]),
        bayes.unpaired_means([1.0, 1.0], [2.0, 2.0]),
    ],
)
def test_without_spread_nothing_is_known(found):
    assert (found.better, found.low, found.high, found.method) == (None, None, None, "unknown")


def test_seeded_and_refused():
    assert bayes.matched(3, 1, 9) == bayes.matched(3, 1, 9)
    with pytest.raises(ValueError, match="practical equivalence"):
        bayes.matched(3, 1, 9, rope=(0.1, 0.2))
    with pytest.raises(ValueError, match="need"):
        bayes.matched(3, 1, 3)
