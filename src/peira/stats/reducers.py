"""Scores of one case over its repeats, made into one number.

Each reducer takes the scores of one case, at least one. A score of at least `passing` counts as a pass; by
default that is the full score of 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import fsum, prod

Reducer = Callable[[Sequence[float]], float]


def mean(scores: Sequence[float]) -> float:
    _some(scores)
    return fsum(scores) / len(scores)


def majority(scores: Sequence[float]) -> float:
    """The score most repeats have; of those that equally many have, the lowest: a tie is no success."""
    _some(scores)
    counts = Counter(map(float, scores))
    most = max(counts.values())
    return min(score for score, n in counts.items() if n == most)


def best(scores: Sequence[float]) -> float:
    """The highest. It grows with the number of repeats: compare only what was repeated equally often."""
    _some(scores)
    return float(max(scores))


def at_least_k(scores: Sequence[float], k: int, passing: float = 1.0) -> float:
    """1 if at least k repeats pass, else 0."""
    n, c = _counted(scores, passing)
    _check(n, k)
    return float(c >= k)


def pass_at_k(scores: Sequence[float], k: int, passing: float = 1.0) -> float:
    """The chance that at least one of k repeats passes, estimated without bias from n >= k of them.

    1 - C(n - c, k) / C(n, k), where c of n pass (Chen et al. 2021). To look at the first k only would waste
    the rest, and 1 - (1 - c/n)^k is too low on average.
    """
    n, c = _counted(scores, passing)
    _check(n, k)
    return 1.0 - _all_from(n, n - c, k)


def pass_hat_k(scores: Sequence[float], k: int, passing: float = 1.0) -> float:
    """The chance that all of k repeats pass, estimated without bias from n >= k: C(c, k) / C(n, k)."""
    n, c = _counted(scores, passing)
    _check(n, k)
    return _all_from(n, c, k)


def _all_from(n: int, m: int, k: int) -> float:
    """The chance that k drawn from n without putting back are all among a certain m of them."""
    return prod((m - i) / (n - i) for i in range(k)) if m >= k else 0.0


_NAMED: dict[str, Reducer] = {"mean": mean, "majority": majority, "best": best}
_OF_K: dict[str, Callable[..., float]] = {
    "pass@": pass_at_k,
    "pass^": pass_hat_k,
    "at_least_": at_least_k,
}
_FORM = re.compile(r"(pass@|pass\^|at_least_)([1-9]\d{0,5})")


def reducer(name: str, passing: float = 1.0) -> Reducer:
    """The reducer of a name: mean, majority, best, pass@5, pass^5, at_least_5. ValueError for any other."""
    if name in _NAMED:
        return _NAMED[name]
    found = _FORM.fullmatch(name)
    if found is None:
        known = ", ".join((*_NAMED, "pass@k", "pass^k", "at_least_k"))
        raise ValueError(f"no reducer {name!r}; known: {known}")
    return partial(_OF_K[found[1]], k=int(found[2]), passing=passing)


def _some(scores: Sequence[float]) -> None:
    if not len(scores):
        raise ValueError("no scores to reduce")


def _counted(scores: Sequence[float], passing: float) -> tuple[int, int]:
    _some(scores)
    return len(scores), sum(score >= passing for score in scores)


def _check(n: int, k: int) -> None:
    if type(k) is not int or not 1 <= k <= n:
        raise ValueError(f"k = {k!r} of {n} repeats: k must be at least 1 and at most the number of repeats")
