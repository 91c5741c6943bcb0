from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial
from statsmodels.stats.contingency_tables import mcnemar as theirs

from peira.stats.intervals.proportions import clopper_pearson
from peira.stats.tests.mcnemar import beyond, matched_odds_ratio, mcnemar, tango, tango_score

# Complete response before and after consolidation therapy (Cavo et al. 2012), rbind(c(59, 6), c(16, 80)), and
# Ezra et al. (2010), as worked in R, contingencytables 3.0.0: McNemar_midP_test_paired_2x2,
# McNemar_exact_cond_test_paired_2x2, McNemar_asymptotic_test_paired_2x2,
# McNemar_exact_unconditional_test_paired_2x2,
# Tango_asymptotic_score_CI_paired_2x2, Transformed_Blaker_exact_CI_paired_2x2.
CAVO = (6, 16, 161)
METHODS = ("exact", "mid-p", "conditional", "asymptotic")


@pytest.mark.parametrize(
    ("method", "p"),
    [("mid-p", 0.034690), ("conditional", 0.052479), ("asymptotic", 0.033006)],
)
def test_mcnemars_published_values(method, p):
    found = mcnemar(*CAVO, method=method)
    assert found.p == pytest.approx(p, abs=1e-6)
    assert found.statistic == pytest.approx(-2.132, abs=5e-4)
    assert found.n == 161


def test_the_published_unconditional_value():
    """Theirs looks only at shares of differing cases within a 99.99% interval, and adds the 0.0001."""
    won, lost, n = CAVO
    likely = clopper_pearson(won + lost, n, 0.9999)
    shares = np.linspace(likely.low, likely.high, 500)[:, None]
    far = beyond((won - lost) / (won + lost) ** 0.5, n, 0.5, "two-sided")
    assert (binom.pmf(np.arange(n + 1), n, shares) @ far).max() + 0.0001 == pytest.approx(0.034053, abs=1e-6)
    assert mcnemar(*CAVO).p == pytest.approx(0.0342, abs=5e-5)


def test_few_cases_are_exact_and_very_many_asymptotic():
    assert mcnemar(*CAVO).method == "mcnemar exact"
    assert mcnemar(6, 16, 10**6).method == "mcnemar asymptotic"
    assert mcnemar(300, 240, 4000).p == pytest.approx(
        mcnemar(300, 240, 4000, method="asymptotic").p, rel=0.05
    )


def test_tangos_published_values():
    found = tango(*CAVO)
    assert (found.mean, found.low, found.high) == pytest.approx((-0.0621, -0.1240, -0.0054), abs=5e-5)


def test_the_published_odds_ratio():
    found = matched_odds_ratio(25, 2)
    assert (found.value, found.low, found.high) == pytest.approx((12.5, 3.2994, 74.0582), abs=5e-5)


@given(st.integers(0, 60), st.integers(0, 60))
def test_conditional_agrees_with_statsmodels(won, lost):
    table, n = [[5, won], [lost, 5]], won + lost + 10
    assert mcnemar(won, lost, n, method="conditional").p == pytest.approx(theirs(table, exact=True).pvalue)
    if won + lost:
        ours = mcnemar(won, lost, n, method="asymptotic").p
        assert ours == pytest.approx(theirs(table, exact=False, correction=False).pvalue)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 40))
def test_sides_are_mirror_images(won, lost, agreed):
    n = won + lost + agreed
    for method in METHODS:
        assert mcnemar(won, lost, n, method=method).p == pytest.approx(mcnemar(lost, won, n, method=method).p)
        greater = mcnemar(won, lost, n, "greater", method).p
        assert greater == pytest.approx(mcnemar(lost, won, n, "less", method).p)
    one, two = tango(won, lost, n), tango(lost, won, n)
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 60), st.sampled_from([0.5, 0.95, 0.999]))
def test_tango_holds_the_mean_within_its_range_and_never_closes(won, lost, agreed, level):
    n = won + lost + agreed
    if n:
        found = tango(won, lost, n, level)
        assert -1 <= found.low <= found.mean <= found.high <= 1
        assert found.low < found.high


@given(st.integers(1, 40), st.integers(1, 40))
def test_tango_at_zero_is_mcnemar(won, lost):
    n = won + lost + 10
    assert tango_score(won, lost, n, 0.0) == pytest.approx(mcnemar(won, lost, n).statistic)


@pytest.mark.parametrize(
    ("n", "won", "lost"), [(25, 0.1, 0.1), (25, 0.3, 0.1), (40, 0.2, 0.01), (40, 0.05, 0.05)]
)
def test_tango_covers_and_mcnemar_keeps_its_level(n, won, lost):
    """By enumeration of every possible outcome: no simulation."""
    held = rejected = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            chance = multinomial.pmf([b, c, n - b - c], n, [won, lost, 1 - won - lost])
            found = tango(b, c, n)
            held += chance * (found.low <= won - lost <= found.high)
            rejected += chance * (mcnemar(b, c, n).p <= 0.05)
    assert held >= 0.94
    if won == lost:
        assert 0.03 <= rejected <= 0.05


def test_no_differences():
    assert mcnemar(0, 0, 3).p == 1.0
    assert mcnemar(0, 0, 3).method == "mcnemar, no differences"
    found = matched_odds_ratio(0, 0)
    assert (found.value, found.low, found.high, found.method) == (None, None, None, "unknown")
    assert matched_odds_ratio(4, 0).high is None
    assert matched_odds_ratio(0, 4).value == 0


@pytest.mark.parametrize("wrong", [(-1, 2, 5), (3, 3, 5), (0, 0, 0)])
def test_impossible_counts_are_refused(wrong):
    for made in (tango, mcnemar):
        with pytest.raises(ValueError, match="need"):
            made(*wrong)


def test_misspelt_choices_are_refused():
    for wrong in ({"alternative": "larger"}, {"method": "midp"}):
        with pytest.raises(ValueError, match="one of"):
            mcnemar(3, 1, 9, **wrong)
