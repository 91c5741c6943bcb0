"""Orthogonal arrays of strength 3: any three columns show every triple of levels equally often.

Two levels: a Hadamard matrix of half the runs and its foldover. Other prime powers q: vectors over GF(q)
of which no three are dependent, as the points of a conic in q^3 runs (q + 1 columns, one more for even q)
and of an ovoid in q^4 runs (q^2 + 1 columns); in more runs the first that are met. Mixed levels: products
of such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

from peira.design.arrays import Array, Levels, all_combinations, crossed, possible, sorted_out
from peira.design.fields import Field, field, prime_power
from peira.design.hadamard import hadamard

Vectors = Sequence[tuple[int, ...]]


def strong_array(runs: int, levels: Sequence[int]) -> Array | None:
    """An array of strength 3 with these numbers of levels; None if no construction here gives it."""
    return sorted_out(_strong, runs, levels)


@cache
def _strong(runs: int, levels: Levels) -> Array | None:
    if not possible(runs, levels, 3):
        return None
    for construct in (all_combinations, _folded, _capped, _crossed):
        found = construct(runs, levels)
        if found is not None:
            return found
    return None


def _folded(runs: int, levels: Levels) -> Array | None:
    matrix = hadamard(runs // 2) if set(levels) == {2} and runs % 2 == 0 else None
    if matrix is None or len(levels) > len(matrix):
        return None
    rows = [*matrix, *(tuple(-x for x in row) for row in matrix)]
    return tuple(tuple((1 + row[nth]) // 2 for row in rows) for nth in range(len(levels)))


def _capped(runs: int, levels: Levels) -> Array | None:
    q = levels[0]
    size = next((n for n in range(3, 11) if q**n == runs), 0)
    if len(set(levels)) > 1 or prime_power(q) is None or not size:
        return None
    f = field(q)
    vectors = _conic(f) if size == 3 else _ovoid(f) if size == 4 else _cap(f, size, len(levels))
    if len(vectors) < len(levels):
        return None
    every = list(product(range(q), repeat=len(vectors[0])))
    return tuple(tuple(_dot(f, vector, x) for x in every) for vector in vectors[: len(levels)])


def _conic(f: Field) -> Vectors:
    found: Vectors = [(1, t, f.multiply(t, t)) for t in range(f.order)]
    return [*found, (0, 0, 1), *([(0, 1, 0)] if f.prime == 2 else [])]


def _ovoid(f: Field) -> Vectors:
    """The points of an elliptic quadric u + yy + byz + czz = 0, whose other terms vanish at zero only."""
    b, c = next(
        (b, c)
        for b in range(f.order)
        for c in range(1, f.order)
        if all(_form(f, b, c, y, 1) for y in range(f.order))
    )
    places = product(range(f.order), repeat=2)
    return [(1, f.subtract(0, _form(f, b, c, y, z)), y, z) for y, z in places] + [(0, 1, 0, 0)]


def _cap(f: Field, size: int, wanted: int) -> Vectors:
    """Vectors of which no three are dependent, the first that are met."""
    found: list[tuple[int, ...]] = []
    taken: set[tuple[int, ...]] = set()
    for vector in product(range(f.order), repeat=size):
        if len(found) < wanted and vector not in taken and next((x for x in vector if x), 0) == 1:
            for times, other in product(range(1, f.order), found):
                sums = tuple(f.add(a, f.multiply(times, b)) for a, b in zip(vector, other, strict=True))
                taken.add(_scaled(f, sums))
            found.append(vector)
    return found


def _scaled(f: Field, vector: Sequence[int]) -> tuple[int, ...]:
    """The multiple of a vector whose first entry other than 0 is 1."""
    first = next(x for x in vector if x)
    inverse = f.powers[-f.logs[first] % (f.order - 1)]
    return tuple(f.multiply(inverse, x) for x in vector)


def _form(f: Field, b: int, c: int, y: int, z: int) -> int:
    mixed, square = f.multiply(b, f.multiply(y, z)), f.multiply(c, f.multiply(z, z))
    return f.add(f.multiply(y, y), f.add(mixed, square))


def _dot(f: Field, one: Sequence[int], other: Sequence[int]) -> int:
    total = 0
    for a, b in zip(one, other, strict=True):
        total = f.add(total, f.multiply(a, b))
    return total


def _crossed(runs: int, levels: Levels) -> Array | None:
    return crossed(_strong, runs, levels, 3)
