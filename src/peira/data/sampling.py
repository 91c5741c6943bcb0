"""Selection of rows: by id, at random, or stratified.

Each is one pass and holds no more rows than it may select. Every row draws a random number, and the rows with
the lowest numbers are the sample (reservoir sampling): every subset of that size is equally likely, and the
seed determines the sample.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import TypeVar

from peira.core.ids import canonical, normalise
from peira.errors import Invalid
from peira.spec.case import Case, case_ids

T = TypeVar("T")


class Reservoir:
    """The items with the lowest random numbers among those offered, at most `size` of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, object]] = []
        self.offered = 0

    def offer(self, draw: float, place: int, item: object) -> None:
        """Offer an item with its random number and position."""
        self.offered += 1
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (-draw, -place, item))
        elif draw < -self._heap[0][0]:
            heapq.heapreplace(self._heap, (-draw, -place, item))

    def lowest(self, n: int) -> list[tuple[int, object]]:
        """The positions and items with the `n` lowest numbers."""
        return [(-place, item) for _, place, item in sorted(self._heap, key=lambda e: e[:2])[::-1][:n]]


def sampled(rows: Iterable[T], size: int, seed: int, stratum: Callable[[T], object] | None = None) -> list[T]:
    """A random sample of at most `size` rows, in their order; with strata, proportionally allocated."""
    draw = random.Random(f"peira sample {seed}").random
    strata: dict[bytes, Reservoir] = {}
    for place, row in enumerate(rows):
        key = b"" if stratum is None else canonical(normalise(stratum(row), "stratify"))
        if key not in strata:
            strata[key] = Reservoir(size)
        strata[key].offer(draw(), place, row)
    shares = allotted(size, [one.offered for one in strata.values()])
    taken = [pair for one, n in zip(strata.values(), shares, strict=True) for pair in one.lowest(n)]
    return [row for _, row in sorted(taken, key=lambda pair: pair[0])]  # type: ignore[misc]


def allotted(size: int, counts: list[int]) -> list[int]:
    """Proportional allocation to strata, by the largest remainder method."""
    total = sum(counts)
    if size >= total:
        return counts
    shares = [size * count // total for count in counts]
    remainders = sorted(range(len(counts)), key=lambda i: (-(size * counts[i] % total), i))
    for i in remainders[: size - sum(shares)]:
        shares[i] += 1
    return shares


def shuffled(rows: list[T], seed: int) -> list[T]:
    """The rows in a random order that the seed determines."""
    draw = random.Random(f"peira shuffle {seed}").random
    return [
        row for _, _, row in sorted(((draw(), i, row) for i, row in enumerate(rows)), key=lambda e: e[:2])
    ]


def named(cases: Iterable[tuple[T, Case]], ids: Iterable[str]) -> Iterator[T]:
    """The rows whose cases have these ids, as in the whole set; raises `Invalid` for a missing id."""
    wanted = dict.fromkeys(ids)
    roots = {one.partition("-")[0] for one in wanted}
    met: Counter[str] = Counter()
    for row, case in cases:
        [name] = case_ids([case])
        if case.id is None and name in roots:
            met[name] += 1
            name = name if met[name] == 1 else f"{name}-{met[name] - 1}"
        if name in wanted:
            del wanted[name]
            yield row
        if not wanted:
            return
    raise Invalid(f"ids: there is no case {one!r}" for one in wanted)


def content(cases: Iterable[Case]) -> str:
    """The digest of a set of cases: of all their fields, in order."""
    whole = sha256()
    for case in cases:
        fields = [case.input, case.expected, case.id, case.cluster, case.slice, case.metadata]
        whole.update(canonical(fields) + b"\n")
    return whole.hexdigest()
