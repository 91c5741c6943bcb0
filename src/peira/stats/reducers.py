"""Reducers: functions that make the scores of one case's repeats into one number.

Each takes a non-empty sequence of scores and raises ValueError for an empty one. A score of at least
`passing` counts as a pass; the default is the full score of 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import fsum, prod

Reducer = Callable[[Sequence[float]], float]


def mean(scores: Sequence[float]) -> float:
    """The arithmetic mean."""
    _require_scores(scores)
    return fsum(scores) / len(scores)


def majority(scores: Sequence[float]) -> float:
    """The most frequent score.

    Among equally frequent ones the lowest, so that a tie is not a success.
    """
    _require_scores(scores)
    counts = Counter(map(float, scores))
    most = max(counts.values())
    return min(score for score, n in counts.items() if n == most)


def best(scores: Sequence[float]) -> float:
    """The maximum. It grows with the number of repeats: compare only equal numbers of repeats."""
    _require_scores(scores)
    return float(max(scores))


def at_least_k(scores: Sequence[float], k: int, passing: float = 1.0) -> float:
    """1 if at least k repeats pass, else 0.

    Raises ValueError unless 1 <= k <= the number of repeats.
    """
    n, c = _count_passes(scores, passing)
    _check(n, k)
    return float(c >= k)


def pass_at_k(scores: Sequence[float], k: int, passing: float = 1.0) -> float:
    """pass@k: the unbiased estimate of the probability that at least one of k repeats passes.

    1 - C(n - c, k) / C(n, k), where c of n >= k repeats pass (Chen et al. 2021). The plug-in estimate 1 - (1
    - c/n)^k is biased downwards.
    """
    n, c = _count_passes(scores, passing)
    _check(n, k)
    return 1.0 - _all_within(n, n - c, k)


def pass_hat_k(scores: Sequence[float], k: int, passing: float = 1.0) -> float:
    """pass^k: the unbiased estimate C(c, k) / C(n, k) that all of k repeats pass.

    c of n >= k repeats pass. Raises ValueError unless 1 <= k <= n.
    """
    n, c = _count_passes(scores, passing)
    _check(n, k)
    return _all_within(n, c, k)


def _all_within(n: int, m: int, k: int) -> float:
    """The probability that k draws without replacement from n are all in a subset of m."""
    return prod((m - i) / (n - i) for i in range(k)) if m >= k else 0.0


_NAMED: dict[str, Reducer] = {"mean": mean, "majority": majority, "best": best}
_OF_K: dict[str, Callable[..., float]] = {
    "pass@": pass_at_k,
    "pass^": pass_hat_k,
    "at_least_": at_least_k,
}
_FORM = re.compile(r"(pass@|pass\^|at_least_)([1-9]\d{0,5})")


def reducer(name: str, passing: float = 1.0) -> Reducer:
    """The reducer with this name: mean, majority, best, pass@5, pass^5, at_least_5.

    Raises ValueError for any other name.
    """
    if name in _NAMED:
        return _NAMED[name]
    found = _FORM.fullmatch(name)
    if found is None:
        known = ", ".join((*_NAMED, "pass@k", "pass^k", "at_least_k"))
        raise ValueError(f"no reducer {name!r}; known: {known}")
    return partial(_OF_K[found[1]], k=int(found[2]), passing=passing)


def _require_scores(scores: Sequence[float]) -> None:
    """Raise ValueError if there are no scores."""
    if not len(scores):
        raise ValueError("no scores to reduce")


def _count_passes(scores: Sequence[float], passing: float) -> tuple[int, int]:
    """The number of scores and the number that pass."""
    _require_scores(scores)
    return len(scores), sum(score >= passing for score in scores)


def _check(n: int, k: int) -> None:
    """Raise ValueError unless k is an integer from 1 to n."""
    if type(k) is not int or not 1 <= k <= n:
        raise ValueError(f"k = {k!r} of {n} repeats: k must be at least 1 and at most the number of repeats")
