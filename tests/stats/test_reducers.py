from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from math import comb

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.reducers import at_least_k, best, majority, mean, pass_at_k, pass_hat_k, reducer

PASSES = st.lists(st.booleans(), min_size=1, max_size=10)
SCORES = st.lists(st.floats(-10, 10), min_size=1, max_size=10)


@given(PASSES, st.data())
def test_pass_at_k_and_pass_hat_k_are_shares_of_all_samples_of_k(
    passes: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(passes)))
    samples = list(combinations(passes, k))
    assert pass_at_k(passes, k) == pytest.approx(sum(map(any, samples)) / len(samples))
    assert pass_hat_k(passes, k) == pytest.approx(sum(map(all, samples)) / len(samples))


@pytest.mark.parametrize(
    ("n", "c", "k"), [(200, 3, 100), (1000, 1, 1), (1000, 999, 500), (5, 0, 5), (5, 5, 5), (10_000, 7, 100)]
)
def test_they_equal_the_closed_form_for_many_repeats(n: int, c: int, k: int) -> None:
    passes = [True] * c + [False] * (n - c)
    assert pass_at_k(passes, k) == pytest.approx(float(1 - Fraction(comb(n - c, k), comb(n, k))), rel=1e-12)
    assert pass_hat_k(passes, k) == pytest.approx(float(Fraction(comb(c, k), comb(n, k))), rel=1e-9)


def test_they_equal_the_published_estimator() -> None:
    # Chen et al. 2021: 1 - prod(1 - k / arange(n - c + 1, n + 1)), and 1 where n - c < k.
    for n, c, k in [(20, 5, 3), (20, 18, 3), (100, 40, 10)]:
        theirs = 1.0 if n - c < k else 1.0 - numpy.prod(1.0 - k / numpy.arange(n - c + 1, n + 1))
        assert pass_at_k([True] * c + [False] * (n - c), k) == pytest.approx(theirs)


def test_the_estimate_is_unbiased() -> None:
    n, k, p = 6, 3, 0.3
    weights = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    draws = [[True] * c + [False] * (n - c) for c in range(n + 1)]
    assert sum(w * pass_at_k(d, k) for w, d in zip(weights, draws, strict=True)) == pytest.approx(
        1 - (1 - p) ** k
    )
    assert sum(w * pass_hat_k(d, k) for w, d in zip(weights, draws, strict=True)) == pytest.approx(p**k)


@given(PASSES)
def test_k_of_one_is_the_mean_and_all_are_shares(passes: list[bool]) -> None:
    share = sum(passes) / len(passes)
    assert pass_at_k(passes, 1) == pytest.approx(share)
    assert pass_hat_k(passes, 1) == pytest.approx(share)
    rising = [pass_at_k(passes, k) for k in range(1, len(passes) + 1)]
    falling = [pass_hat_k(passes, k) for k in range(1, len(passes) + 1)]
    assert all(a <= b + 1e-12 for a, b in pairwise(rising))
    assert all(a >= b - 1e-12 for a, b in pairwise(falling))
    assert (rising[-1], falling[-1]) == (float(any(passes)), float(all(passes)))


@given(SCORES)
def test_simple_reducers(scores: list[float]) -> None:
    assert mean(scores) == pytest.approx(numpy.mean(scores))
    assert best(scores) == max(scores)
    assert majority(scores) in scores
    assert mean([scores[0]]) == best([scores[0]]) == majority([scores[0]]) == scores[0]


def test_a_tie_is_no_success() -> None:
    assert majority([True, True, False]) == 1.0
    assert majority([True, False]) == 0.0
    assert majority([3, 2, 2, 3, 1]) == 2


def test_what_passes_can_be_said() -> None:
    scores = [0.9, 0.7, 0.2]
    assert at_least_k(scores, 2) == 0.0
    assert at_least_k(scores, 2, passing=0.7) == 1.0
    assert pass_hat_k(scores, 2, passing=0.7) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean", 0.5),
        ("majority", 0.0),
        ("best", 1.0),
        ("pass@2", 1 - 1 / 6),
        ("pass^2", 1 / 6),
        ("at_least_3", 0.0),
    ],
)
def test_reducers_have_names(name: str, value: float) -> None:
    assert reducer(name)([True, False, True, False]) == pytest.approx(value)


@pytest.mark.parametrize("name", ["median", "pass@0", "pass@", "pass@k", "at_least_x", ""])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no reducer"):
        reducer(name)


def test_too_few_repeats_are_refused() -> None:
    for reduce in (pass_at_k, pass_hat_k, at_least_k):
        for k in (0, 3, 1.5, True):
            with pytest.raises(ValueError, match="k = "):
                reduce([True, False], k)  # type: ignore[arg-type]
    for reduce in (mean, majority, best, reducer("pass@1")):
        with pytest.raises(ValueError, match="no scores"):
            reduce([])  # type: ignore[operator]
