"""All combinations of levels, in an order whose every beginning is balanced.

However few are taken from the beginning, the levels of each factor differ in number by at most one. The one
at any place follows from the sizes alone, so a few of very many cost no more than a few of few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul

from peira.plan.order import shuffled


class Even:
    """Factors of these `sizes`. Each goes through its levels again and again, one step at a time; where that
    would bring back a combination, it is shifted by one. Which level comes first is the seed's to say."""

    def __init__(self, sizes: Sequence[int], seed: int) -> None:
        ends = list(accumulate(sizes, mul, initial=1))
        self._size = ends[-1]
        self._levels = [list(shuffled(size, seed, f"even {i}")) for i, size in enumerate(sizes)]
        # A factor and those before it meet in the same way again after the least multiple of both.
        self._turns = [
            (end, math.lcm(end // n, n) if n else 1, n) for end, n in zip(ends[1:], sizes, strict=True)
        ]

    def __len__(self) -> int:
        return self._size

    def at(self, place: int) -> tuple[int, ...]:
        """The number of each factor's level."""
        return tuple(
            levels[(place % end + place % end // again) % n]
            for levels, (end, again, n) in zip(self._levels, self._turns, strict=True)
        )

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return map(self.at, range(self._size))
