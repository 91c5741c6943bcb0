"""Linear algebra over GF(2), on whole numbers as vectors of bits: addition is exclusive or."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def span(vectors: Iterable[int]) -> Iterator[int]:
    """Every sum of some of the vectors, zero first."""
    found = list(vectors)
    total = 0
    yield total
    for step in range(1, 1 << len(found)):
        total ^= found[(step & -step).bit_length() - 1]  # Gray's order: one vector comes or goes
        yield total


def reduced(vectors: Iterable[int]) -> dict[int, int]:
    """A base of what the vectors span, by highest bit; no vector has the highest bit of another."""
    found: dict[int, int] = {}
    for vector in vectors:
        rest = remainder(vector, found)
        if rest:
            top = rest.bit_length()
            found = {t: v ^ rest if v >> (top - 1) & 1 else v for t, v in found.items()}
            found[top] = rest
    return found


def remainder(vector: int, base: dict[int, int]) -> int:
    """What is left of a vector without the reduced base: the same for all that differ by what it spans."""
    for top, other in base.items():
        if vector >> (top - 1) & 1:
            vector ^= other
    return vector


def resolved(vectors: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which vectors depend on no earlier one; and of which of these, by bits, the others are the sums."""
    base, made_of = _resolved(vectors)
    return base, [made for nth, made in enumerate(made_of) if nth not in base]


def kernel(vectors: Sequence[int]) -> list[int]:
    """A base of the sets of vectors (as bits) that add to zero."""
    base, made_of = _resolved(vectors)
    found = []
    for nth, made in enumerate(made_of):
        if nth not in base:
            found.append(1 << nth | sum(1 << b for i, b in enumerate(base) if made >> i & 1))
    return found


def _resolved(vectors: Sequence[int]) -> tuple[list[int], list[int]]:
    base: list[int] = []
    made_of: list[int] = []
    echelon: dict[int, tuple[int, int]] = {}  # by highest bit: a vector, and which of the base add to it
    for nth, vector in enumerate(vectors):
        made = 0
        while vector and (known := echelon.get(vector.bit_length())):
            vector, made = vector ^ known[0], made ^ known[1]
        if vector:
            made ^= 1 << len(base)
            echelon[vector.bit_length()] = (vector, made)
            base.append(nth)
        made_of.append(made)
    return base, made_of
