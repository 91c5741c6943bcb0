"""Permutation tests: sign flips of paired differences, shuffled labels of two groups.

All permutations are enumerated if there are few; otherwise a seeded random sample is drawn, in which the
observed data count as one permutation, so that p is never 0 and the test keeps its level.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from peira.stats.inputs import Floats, known
from peira.stats.values import ALTERNATIVES, Alternative

ROUNDS = 10_000
"""The default number of random permutations."""
_FEW = 1 << 14
_CHUNK = 1 << 22


def sign_flip(
    differences: Floats, alternative: Alternative, seed: int, rounds: int = ROUNDS
) -> tuple[float, float, bool]:
    """The p-value, the sum of the differences, and whether all sign assignments were enumerated.

    Zero differences are left out. Up to 2^14 assignments are enumerated, beyond that `rounds` are drawn.
    """
    moving, seen = differences[differences != 0], float(differences.sum())
    if 2**moving.size <= _FEW:
        sums = np.zeros(1)
        for one in moving:
            sums = np.concatenate([sums + one, sums - one])
        return _share_extreme(sums, seen, alternative), seen, True
    rng, scale = np.random.default_rng(seed), float(np.abs(moving).sum())
    found = 0
    for size in _chunks(rounds, moving.size):
        bits = np.unpackbits(rng.integers(0, 256, (size, -(-moving.size // 8)), dtype=np.uint8), axis=1)
        sums = 2 * (bits[:, : moving.size] @ moving) - moving.sum()
        found += _count_extreme(sums, seen, alternative, scale)
    return (found + 1) / (rounds + 1), seen, False


def shuffle(
    one: Floats, two: Floats, alternative: Alternative, seed: int, rounds: int = ROUNDS
) -> tuple[float, float, bool]:
    """The p-value, the difference of the means, and whether all group assignments were enumerated.

    Up to 2^14 assignments of the pooled values are enumerated, beyond that `rounds` are drawn.
    """
    pool, k = np.concatenate([one, two]), one.size
    seen, total = float(one.sum()), float(pool.sum())
    middle = total * k / pool.size
    difference = seen / k - (total - seen) / two.size
    if comb(pool.size, k) <= _FEW:
        sums = np.array([pool[list(chosen)].sum() for chosen in combinations(range(pool.size), k)])
        return _share_extreme(sums - middle, seen - middle, alternative), difference, True
    rng, scale, found = np.random.default_rng(seed), float(np.abs(pool).sum()), 0
    for size in _chunks(rounds, pool.size):
        order = rng.permuted(np.broadcast_to(pool, (size, pool.size)), axis=1)
        found += _count_extreme(order[:, :k].sum(axis=1) - middle, seen - middle, alternative, scale)
    return (found + 1) / (rounds + 1), difference, False


def _share_extreme(sums: Floats, seen: float, alternative: Alternative) -> float:
    """The share of permutations at least as extreme as the observed one."""
    return _count_extreme(sums, seen, alternative, float(np.abs(sums).max())) / sums.size


def _count_extreme(sums: Floats, seen: float, alternative: Alternative, scale: float) -> int:
    """The number of permutations at least as extreme as the observed one, up to rounding."""
    known("the alternative", alternative, ALTERNATIVES)
    slack = 1e-12 * scale
    if alternative == "two-sided":
        return int((np.abs(sums) >= abs(seen) - slack).sum())
    return int((sums >= seen - slack).sum() if alternative == "greater" else (sums <= seen + slack).sum())


def _chunks(rounds: int, width: int) -> list[int]:
    """Batch sizes such that a batch of rows of this width fits into memory."""
    each = max(1, min(rounds, _CHUNK // max(1, width)))
    return [each] * (rounds // each) + ([rounds % each] if rounds % each else [])
