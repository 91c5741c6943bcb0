"""Balanced blocks by symmetry: whole orbits of blocks that cover every orbit of pairs equally often.

Under a group of rotations of the points, pairs and blocks fall into few orbits, and balance becomes a small
exact cover (Kramer and Mesner), searched for a bounded number of steps. Most balanced incomplete blocks of
practical size have such a symmetry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

Blocks = tuple[tuple[int, ...], ...]
Permutation = tuple[int, ...]

SUBSETS = 60_000
ORBITS = 3_000
STEPS = 300


def symmetric(t: int, k: int, together: int) -> Blocks | None:
    """Blocks of k out of t points, every pair in `together` of them; None if the search finds none."""
    if math.comb(t, k) > SUBSETS:
        return None
    for rotated, group in _groups(t):
        if math.comb(t, k) <= rotated * ORBITS:
            pairs, blocks = _orbits(t, 2, group), _orbits(t, k, group)
            chosen = _Cover(_incidence(pairs, blocks)).find(together)
            if chosen is not None:
                return tuple(block for n in chosen for block in blocks[n])
    return None


def _groups(t: int) -> Iterator[tuple[int, list[Permutation]]]:
    """Groups on t points by their generators, and how long their rotation is, the longest first.

    The points are equal cycles (and one fixed point, if need be); they are rotated together, and with some
    groups also multiplied by a unit.
    """
    for length in range(t, 1, -1):
        if t % length in (0, 1):
            turn = _acting(t, length, lambda x, n=length: (x + 1) % n)  # type: ignore[misc]
            yield length, [turn]
            for unit in _units(length):
                yield length, [turn, _acting(t, length, lambda x, n=length, u=unit: x * u % n)]  # type: ignore[misc]


def _acting(t: int, length: int, act: Callable[[int], int]) -> Permutation:
    cycles = t // length * length
    return tuple(x - x % length + act(x % length) if x < cycles else x for x in range(t))


def _units(n: int) -> list[int]:
    """One multiplier of each order above 1, the lowest order first."""
    found: dict[int, int] = {}
    for unit in (u for u in range(2, n) if math.gcd(u, n) == 1):
        order = next(e for e in range(1, n) if pow(unit, e, n) == 1)
        found.setdefault(order, unit)
    return [found[order] for order in sorted(found)]


def _orbits(t: int, k: int, group: Sequence[Permutation]) -> list[list[tuple[int, ...]]]:
    seen: set[tuple[int, ...]] = set()
    orbits = []
    for subset in combinations(range(t), k):
        if subset not in seen:
            seen.add(subset)
            orbit = [subset]
            for member in orbit:  # grows while it is walked
                moved = {tuple(sorted(turn[x] for x in member)) for turn in group} - seen
                seen |= moved
                orbit += sorted(moved)
            orbits.append(orbit)
    return orbits


def _incidence(pairs: list[list[tuple[int, ...]]], blocks: list[list[tuple[int, ...]]]) -> Counts:
    """How many blocks of an orbit (column) hold any one pair of an orbit of pairs (row)."""
    import numpy as np

    number = {pair: n for n, orbit in enumerate(pairs) for pair in orbit}
    counts = np.zeros((len(pairs), len(blocks)), dtype=np.int64)
    for n, orbit in enumerate(blocks):
        for pair in combinations(orbit[0], 2):
            counts[number[pair], n] += len(orbit)
    counts //= np.array([[len(orbit)] for orbit in pairs])
    return counts


class _Cover:
    """Columns, each any number of times, that add up to the same number in every row."""

    def __init__(self, counts: Counts) -> None:
        self.counts, self.steps = counts, 0

    def find(self, total: int) -> list[int] | None:
        import numpy as np

        rows, columns = self.counts.shape
        return self._extend(np.full(rows, total), np.arange(columns))

    def _extend(self, need: Counts, columns: Counts) -> list[int] | None:
        self.steps += 1
        if not need.any():
            return []
        columns = columns[(self.counts[:, columns] <= need[:, None]).all(axis=0)]
        row = self._scarcest(need, columns)
        for column in columns[self.counts[row, columns] > 0]:
            if self.steps > STEPS:
                return None
            rest = self._extend(need - self.counts[:, column], columns)
            if rest is not None:
                return [int(column), *rest]
            columns = columns[columns != column]
        return None

    def _scarcest(self, need: Counts, columns: Counts) -> int:
        """The row with the fewest columns left to fill it."""
        open_rows = need.nonzero()[0]
        choices = (self.counts[open_rows][:, columns] > 0).sum(axis=1)
        return int(open_rows[choices.argmin()])
