from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

from peira.stats.intervals.proportions import clopper_pearson, exact, rule_of_three, wilson
from peira.stats.values import Estimate


def bounds(found: Estimate) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


# R, BlakerCI 1.0-6: binom.blaker.limits(3, 10)
# R, contingencytables: Blaker_exact_CI_1x2(1, 100)
@pytest.mark.parametrize(
    ("successes", "n", "low", "high", "digits"),
    [(3, 10, 0.08726443, 0.61941066, 8), (1, 100, 0.0005, 0.0513, 4)],
)
def test_blakers_published_values(successes: int, n: int, low: float, high: float, digits: int) -> None:
    assert bounds(exact(successes, n)) == pytest.approx((low, high), abs=0.51 * 10**-digits)


def acceptability(n: int, p: float) -> np.ndarray:
    """Blaker's definition: the chance of a count whose smaller tail is no larger than this one's."""
    x = np.arange(n + 1)
    tails = np.minimum(binom.cdf(x, n, p), binom.sf(x - 1, n, p))
    return ((tails[None] <= tails[:, None] * (1 + 1e-9)) * binom.pmf(x, n, p)).sum(axis=1)


@pytest.mark.parametrize(("n", "level"), [(1, 0.95), (2, 0.9), (7, 0.95), (12, 0.5), (19, 0.99)])
def test_blakers_interval_is_the_hull_of_what_its_definition_accepts(n: int, level: float) -> None:
    step = 1e-3
    points = np.arange(step / 2, 1, step)
    accepted = np.array([acceptability(n, p) > 1 - level for p in points])
    for x in range(n + 1):
        inside = points[accepted[:, x]]
        assert bounds(exact(x, n, level)) == pytest.approx((inside[0], inside[-1]), abs=step)


@pytest.mark.parametrize("n", [1, 4, 10, 33, 50, 100])
def test_exact_means_that_the_level_is_kept_everywhere(n: int) -> None:
    """Also at a half, where the tails of mirrored counts tie."""
    held = [bounds(exact(x, n)) for x in range(n + 1)]
    for p in (*np.linspace(0.001, 0.999, 334), 0.5, 0.25, 0.1):
        chances = binom.pmf(np.arange(n + 1), n, p)
        assert sum(c for c, (low, high) in zip(chances, held, strict=True) if low <= p <= high) >= 0.95 - 1e-9


def test_wilson_dips_where_exact_does_not() -> None:
    held = sum(
        binom.pmf(x, 50, 0.02)
        for x in range(51)
        if bounds(wilson(x, 50))[0] <= 0.02 <= bounds(wilson(x, 50))[1]
    )
    assert held == pytest.approx(0.9216, abs=1e-4)


counted = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counted, st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_blaker_lies_within_clopper_and_pearson(count: tuple[int, int], level: float) -> None:
    (low, high), (outer_low, outer_high) = (
        bounds(exact(*count, level)),
        bounds(clopper_pearson(*count, level)),
    )
    assert outer_low - 1e-12 <= low <= count[0] / count[1] <= high <= outer_high + 1e-12
    assert low < high


@given(counted)
def test_blaker_is_nested_and_symmetric(count: tuple[int, int]) -> None:
    found = [bounds(exact(*count, level)) for level in (0.5, 0.9, 0.95, 0.99)]
    assert [low for low, _ in found] == sorted((low for low, _ in found), reverse=True)
    assert [high for _, high in found] == sorted(high for _, high in found)
    low, high = bounds(exact(count[1] - count[0], count[1]))
    assert bounds(exact(*count)) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (10, 10), (13, 16), (250, 533), (3, 10**6)])
def test_clopper_pearson_and_wilson_agree_with_statsmodels(successes: int, n: int) -> None:
    for method, ours in (("beta", clopper_pearson), ("wilson", wilson)):
        theirs = proportion_confint(successes, n, 0.05, method)
        assert bounds(ours(successes, n)) == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_large_counts_are_fast_and_close_to_normal() -> None:
    low, high = bounds(exact(300_000, 10**6))
    error = math.sqrt(0.3 * 0.7 / 10**6)
    assert (low, high) == pytest.approx((0.3 - 1.96 * error, 0.3 + 1.96 * error), abs=3e-6)


def test_rule_of_three() -> None:
    assert rule_of_three(100) == pytest.approx(0.0295, abs=5e-5)
    assert rule_of_three(10_000) * 10_000 == pytest.approx(3, abs=0.01)
    for n in (1, 7, 300):
        assert (1 - rule_of_three(n, 0.9)) ** n == pytest.approx(0.1)


@pytest.mark.parametrize("wrong", [(0, 0), (3, 2), (-1, 2)])
def test_impossible_counts_are_refused(wrong: tuple[int, int]) -> None:
    for interval in (exact, wilson, clopper_pearson):
        with pytest.raises(ValueError, match="need 0 <= successes"):
            interval(*wrong)
    with pytest.raises(ValueError, match="level"):
        exact(1, 2, 1.0)
    with pytest.raises(ValueError, match="n >= 1"):
        rule_of_three(0)
