"""Balanced incomplete blocks: t treatments in blocks of k, every pair of treatments together equally often.

Each treatment then comes r times and each pair `together` times (lambda), with b k = t r and
r (k - 1) = together (t - 1); there are never fewer blocks than treatments (Fisher). Blocks are taken from
finite geometry, found by symmetry, or are all the subsets there are, which are always balanced.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations, islice

from peira.design.lines import Blocks, families
from peira.design.orbits import symmetric

SEARCHES = 4


def step(t: int, k: int) -> int:
    """What the number of times that pairs come together must be a multiple of."""
    pairs, own = t * (t - 1), k * (k - 1)
    return math.lcm((k - 1) // math.gcd(t - 1, k - 1), own // math.gcd(pairs, own))


def count(t: int, k: int, together: int) -> int:
    """How many blocks there are if every pair comes together so often."""
    return together * t * (t - 1) // (k * (k - 1))


@cache
def fewest(t: int, k: int, most: int) -> Blocks | None:
    """The fewest blocks that can be built, if that is at most so many; 2 <= k < t."""
    every, full = step(t, k), math.comb(t - 2, k - 2)
    for together in (*islice(range(every, full, every), SEARCHES), full):
        found = _build(t, k, together) if count(t, k, together) <= most else None
        if found:
            return found
    return None


def exactly(t: int, k: int, blocks: int, most: int) -> Blocks | None:
    """So many blocks: copies of the fewest, or built as such; None where that cannot be done here."""
    if blocks < t:
        return None
    base = fewest(t, k, most)
    if base and blocks % len(base) == 0:
        return base * (blocks // len(base))
    together, odd = divmod(blocks * k * (k - 1), t * (t - 1))
    return None if odd or together % step(t, k) else _build(t, k, together)


@cache
def _build(t: int, k: int, together: int) -> Blocks | None:
    blocks = count(t, k, together)
    if blocks < t:
        return None
    if together == math.comb(t - 2, k - 2):
        return tuple(combinations(range(t), k))
    if 2 * k > t:  # what the blocks of a design with smaller blocks leave out
        small = _build(t, t - k, blocks * (t - k) * (t - k - 1) // (t * (t - 1)))
        return small and tuple(tuple(x for x in range(t) if x not in block) for block in small)
    return next(families(t, k, together), None) or symmetric(t, k, together)
