"""Which rows are taken: by name, the first so many, at random, in proportion to strata.

Each is one pass and holds no more than what it may yet take. Every row that is met draws a number, and those
with the lowest are the sample: every set of that size is equally likely, and one seed gives one sample.
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
    """The places and items with the lowest draws among those it was offered, at most `size` of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, object]] = []
        self.offered = 0

    def offer(self, draw: float, place: int, item: object) -> None:
        self.offered += 1
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (-draw, -place, item))
        elif draw < -self._heap[0][0]:
            heapq.heapreplace(self._heap, (-draw, -place, item))

    def lowest(self, n: int) -> list[tuple[int, object]]:
        return [(-place, item) for _, place, item in sorted(self._heap, key=lambda e: e[:2])[::-1][:n]]


def sampled(rows: Iterable[T], size: int, seed: int, stratum: Callable[[T], object] | None = None) -> list[T]:
    """At most so many rows, at random, in their order. With strata, as many of each as is in proportion."""
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
    """How many of each: in proportion to the counts, the largest remainders rounded up."""
    total = sum(counts)
    if size >= total:
        return counts
    shares = [size * count // total for count in counts]
    remainders = sorted(range(len(counts)), key=lambda i: (-(size * counts[i] % total), i))
    for i in remainders[: size - sum(shares)]:
        shares[i] += 1
    return shares


def shuffled(rows: list[T], seed: int) -> list[T]:
    draw = random.Random(f"peira shuffle {seed}").random
    return [
        row for _, _, row in sorted(((draw(), i, row) for i, row in enumerate(rows)), key=lambda e: e[:2])
    ]


def named(cases: Iterable[tuple[T, Case]], ids: Iterable[str]) -> Iterator[T]:
    """Those whose case has one of the ids, as in the whole set; Invalid if one is missing."""
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
    """The digest of a set of cases: of all that they say, in their order."""
    whole = sha256()
    for case in cases:
        said = [case.input, case.expected, case.id, case.cluster, case.slice, case.metadata]
        whole.update(canonical(said) + b"\n")
    return whole.hexdigest()
