"""Equivalence and non-inferiority tests against a margin (two one-sided tests).

A difference that is not significant is not thereby shown to be absent; here the null hypothesis is that it is
at or beyond a margin. Each margin is tested one-sided at alpha by inverting the interval method that fits the
data, so that the p-values always agree with the interval at level 1 - 2 alpha; for t intervals this is
Schuirmann's TOST.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from numpy.typing import ArrayLike

from peira.stats.tests.paired import difference
from peira.stats.tests.unpaired import unpaired_difference
from peira.stats.values import Estimate

Answer = Literal["within", "outside", "undecided"]
"""The decision of an equivalence test."""
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Equivalence:
    """The result of an equivalence or non-inferiority test.

    `p` is the larger of the p-values against the margins; a margin that was not given has none. The answer is
    "within" if p <= alpha, "outside" if the interval lies entirely beyond a margin, otherwise "undecided".
    `interval` has level 1 - 2 alpha. P-values are bounded below by 1e-12.
    """

    answer: Answer
    p: float | None
    p_low: float | None
    p_high: float | None
    interval: Estimate


def paired_equivalence(
    one: ArrayLike,
    two: ArrayLike,
    low: float | None,
    high: float | None,
    clusters: Iterable[Hashable] | None = None,
    alpha: float = 0.05,
) -> Equivalence:
    """Whether the mean of the paired differences `one - two` lies above `low` and below `high`.

    A margin of None is not tested: `low=-0.02, high=None` tests non-inferiority of the first side.
    """
    labels = None if clusters is None else list(clusters)
    return equivalence(partial(difference, one, two, labels), low, high, alpha)


def unpaired_equivalence(
    one: ArrayLike,
    two: ArrayLike,
    low: float | None,
    high: float | None,
    clusters_one: Iterable[Hashable] | None = None,
    clusters_two: Iterable[Hashable] | None = None,
    alpha: float = 0.05,
) -> Equivalence:
    """Whether the mean of `one` minus the mean of `two` lies above `low` and below `high`.

    A margin of None is not tested. The interval is that of `unpaired_difference`, clustered if clusters are
    given.
    """
    first = None if clusters_one is None else list(clusters_one)
    second = None if clusters_two is None else list(clusters_two)
    return equivalence(partial(unpaired_difference, one, two, first, second), low, high, alpha)


def equivalence(
    interval: Callable[[float], Estimate], low: float | None, high: float | None, alpha: float = 0.05
) -> Equivalence:
    """The test for any estimate, given its interval as a function of the confidence level.

    Intervals must be nested in the level. Raises ValueError for no margin, low >= high, or alpha outside (0,
    0.5).
    """
    _check(low, high, alpha)
    shown = interval(1 - 2 * alpha)
    if shown.low is None or shown.high is None:
        return Equivalence("undecided", None, None, None, shown)
    p_low = None if low is None else _above(interval, low)
    p_high = None if high is None else 1 - _above(interval, high)
    p = max(found for found in (p_low, p_high) if found is not None)
    beyond = (low is not None and shown.high < low) or (high is not None and shown.low > high)
    answer: Answer = "within" if p <= alpha else "outside" if beyond else "undecided"
    return Equivalence(answer, p, p_low, p_high, shown)


def _above(interval: Callable[[float], Estimate], margin: float) -> float:
    """The one-sided p-value of the null "not above the margin", by inverting the interval."""
    above = interval(0.5).mean > margin

    def clears(alpha: float) -> bool:
        found = interval(1 - 2 * alpha)
        if found.low is None or found.high is None:
            return False
        return found.low > margin if above else found.high < margin

    small, large = math.log(_SMALLEST), math.log(0.5)
    for _ in range(40):
        middle = (small + large) / 2
        small, large = (small, middle) if clears(math.exp(middle)) else (middle, large)
    return math.exp(large) if above else 1 - math.exp(large)


def _check(low: float | None, high: float | None, alpha: float) -> None:
    """Raise ValueError for missing or unordered margins, or alpha out of range."""
    margins = [margin for margin in (low, high) if margin is not None]
    if not margins or not all(map(math.isfinite, margins)) or margins != sorted(set(margins)):
        raise ValueError(f"need a margin, and low < high where both are given, not low={low}, high={high}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, not {alpha}")
