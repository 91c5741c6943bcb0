"""Balanced incomplete block designs (BIBD): constructions from finite geometry and by symmetry.

In a design of b blocks of k out of t treatments every treatment occurs r times and every pair `together`
times (lambda), with b k = t r and r (k - 1) = together (t - 1); there are never fewer blocks than treatments
(Fisher's inequality). Blocks come from finite geometry, from a search under a symmetry group, or are all
subsets of size k, which are always balanced.

Geometry: any two points lie on one line, so lines are balanced incomplete blocks; so are the translates of
the squares of a field whose order is congruent to 3 modulo 4 (Paley).

Symmetry: under a group of permutations of the points, pairs and blocks fall into few orbits, and balance
becomes a small exact cover problem (Kramer and Mesner), searched for a bounded number of steps. Most balanced
incomplete block designs of practical size have such a symmetry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, islice, product
from typing import TYPE_CHECKING

from peira.design.algebra.finite_fields import Field, field, prime_power

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]


# Finite geometry


Blocks = tuple[tuple[int, ...], ...]
"""The blocks of a design, as tuples of point indices."""
Vector = tuple[int, ...]


def families(t: int, k: int, together: int) -> Iterator[Blocks]:
    """The known designs for t points in blocks of k, every pair of points in `together` blocks."""
    if t % 4 == 3 and (k, together) == (t // 2, t // 4) and prime_power(t):
        yield paley(t)
    for dimension in range(2, 7):
        if together == 1 and t == k**dimension and prime_power(k):
            yield affine_lines(k, dimension)
        if together == 1 and t == sum((k - 1) ** n for n in range(dimension + 1)) and prime_power(k - 1):
            yield projective_lines(k - 1, dimension)


def paley(order: int) -> Blocks:
    """The Paley design: the translates of the squares of a field."""
    gf = field(order)
    squares = gf.powers[::2]
    return tuple(tuple(sorted(gf.add(point, square) for square in squares)) for point in range(order))


def affine_lines(order: int, dimension: int) -> Blocks:
    """The lines of the affine geometry AG(dimension, order)."""
    gf, points = field(order), list(product(range(order), repeat=dimension))
    number = {point: n for n, point in enumerate(points)}
    lines = {
        tuple(sorted(number[_moved(gf, point, way, step)] for step in range(order)))
        for way in _directions(order, dimension)
        for point in points
    }
    return tuple(sorted(lines))


def projective_lines(order: int, dimension: int) -> Blocks:
    """The lines of the projective geometry PG(dimension, order)."""
    gf, points = field(order), _directions(order, dimension + 1)
    number = {point: n for n, point in enumerate(points)}
    lines = {
        tuple(sorted([number[b], *(number[_direction(gf, _moved(gf, a, b, step))] for step in range(order))]))
        for a, b in combinations(points, 2)
    }
    return tuple(sorted(lines))


def _directions(order: int, size: int) -> list[Vector]:
    """One vector for each direction: its first non-zero coordinate is 1."""
    return [v for v in product(range(order), repeat=size) if next(filter(None, v), 0) == 1]


def _moved(gf: Field, point: Vector, way: Vector, step: int) -> Vector:
    """The point at a multiple of a direction from a point."""
    return tuple(gf.add(p, gf.multiply(step, w)) for p, w in zip(point, way, strict=True))


def _direction(gf: Field, vector: Vector) -> Vector:
    """The representative of the direction of a vector."""
    lead = next(filter(None, vector))
    inverse = gf.powers[-gf.logs[lead] % (gf.order - 1)]
    return tuple(gf.multiply(inverse, x) for x in vector)


# Search under a symmetry group


BlockList = tuple[tuple[int, ...], ...]
Permutation = tuple[int, ...]

SUBSETS = 60_000
"""Maximum number of subsets enumerated by the search."""
ORBITS = 3_000
"""Maximum approximate number of block orbits of the search."""
STEPS = 300
"""Maximum number of steps of the exact cover search."""


def symmetric(t: int, k: int, together: int) -> BlockList | None:
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
    """Permutation groups on t points by their generators, with the cycle length, longest first.

    The points form equal cycles (and one fixed point if needed), which are rotated together; some groups also
    multiply by a unit.
    """
    for length in range(t, 1, -1):
        if t % length in (0, 1):
            turn = _acting(t, length, lambda x, n=length: (x + 1) % n)  # type: ignore[misc]
            yield length, [turn]
            for unit in _units(length):
                yield length, [turn, _acting(t, length, lambda x, n=length, u=unit: x * u % n)]  # type: ignore[misc]


def _acting(t: int, length: int, act: Callable[[int], int]) -> Permutation:
    """The permutation that acts on every cycle; points outside the cycles are fixed."""
    cycles = t // length * length
    return tuple(x - x % length + act(x % length) if x < cycles else x for x in range(t))


def _units(n: int) -> list[int]:
    """One multiplier of each multiplicative order above 1, lowest order first."""
    found: dict[int, int] = {}
    for unit in (u for u in range(2, n) if math.gcd(u, n) == 1):
        order = next(e for e in range(1, n) if pow(unit, e, n) == 1)
        found.setdefault(order, unit)
    return [found[order] for order in sorted(found)]


def _orbits(t: int, k: int, group: Sequence[Permutation]) -> list[list[tuple[int, ...]]]:
    """The orbits of the subsets of size k under the group."""
    seen: set[tuple[int, ...]] = set()
    orbits = []
    for subset in combinations(range(t), k):
        if subset not in seen:
            seen.add(subset)
            orbit = [subset]
            for member in orbit:  # grows during iteration
                moved = {tuple(sorted(turn[x] for x in member)) for turn in group} - seen
                seen |= moved
                orbit += sorted(moved)
            orbits.append(orbit)
    return orbits


def _incidence(pairs: list[list[tuple[int, ...]]], blocks: list[list[tuple[int, ...]]]) -> Counts:
    """Kramer-Mesner matrix: blocks of an orbit (column) that contain a given pair of an orbit (row)."""
    import numpy as np

    number = {pair: n for n, orbit in enumerate(pairs) for pair in orbit}
    counts = np.zeros((len(pairs), len(blocks)), dtype=np.int64)
    for n, orbit in enumerate(blocks):
        for pair in combinations(orbit[0], 2):
            counts[number[pair], n] += len(orbit)
    counts //= np.array([[len(orbit)] for orbit in pairs])
    return counts


class _Cover:
    """Exact cover: columns, with repetition, that sum to the same total in every row."""

    def __init__(self, counts: Counts) -> None:
        self.counts, self.steps = counts, 0

    def find(self, total: int) -> list[int] | None:
        """Indices of columns that sum to `total` in every row; None if the search finds none."""

        import numpy as np

        rows, columns = self.counts.shape
        return self._extend(np.full(rows, total), np.arange(columns))

    def _extend(self, need: Counts, columns: Counts) -> list[int] | None:
        """Columns that cover what is still needed, by backtracking; None if there are none."""
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
        """The row with the fewest remaining columns."""
        open_rows = need.nonzero()[0]
        choices = (self.counts[open_rows][:, columns] > 0).sum(axis=1)
        return int(open_rows[choices.argmin()])


# Choice of a construction


SEARCHES = 4
"""Number of values of lambda tried."""


def step(t: int, k: int) -> int:
    """The smallest admissible lambda for t and k; all others are multiples of it."""
    pairs, own = t * (t - 1), k * (k - 1)
    return math.lcm((k - 1) // math.gcd(t - 1, k - 1), own // math.gcd(pairs, own))


def count(t: int, k: int, together: int) -> int:
    """The number of blocks if every pair occurs in `together` blocks."""
    return together * t * (t - 1) // (k * (k - 1))


@cache
def fewest(t: int, k: int, most: int) -> Blocks | None:
    """The design with the fewest blocks that can be built, at most `most`; requires 2 <= k < t."""
    every, full = step(t, k), math.comb(t - 2, k - 2)
    for together in (*islice(range(every, full, every), SEARCHES), full):
        found = _build(t, k, together) if count(t, k, together) <= most else None
        if found:
            return found
    return None


def exactly(t: int, k: int, blocks: int, most: int) -> Blocks | None:
    """A design of exactly `blocks` blocks: copies of the smallest, or built directly; None if unknown."""
    if blocks < t:
        return None
    base = fewest(t, k, most)
    if base and blocks % len(base) == 0:
        return base * (blocks // len(base))
    together, odd = divmod(blocks * k * (k - 1), t * (t - 1))
    return None if odd or together % step(t, k) else _build(t, k, together)


@cache
def _build(t: int, k: int, together: int) -> Blocks | None:
    """A design with the given lambda; None if no construction or search finds one."""
    blocks = count(t, k, together)
    if blocks < t:
        return None
    if together == math.comb(t - 2, k - 2):
        return tuple(combinations(range(t), k))
    if 2 * k > t:  # complements of the blocks of a design with smaller blocks
        small = _build(t, t - k, blocks * (t - k) * (t - k - 1) // (t * (t - 1)))
        return small and tuple(tuple(x for x in range(t) if x not in block) for block in small)
    return next(families(t, k, together), None) or symmetric(t, k, together)
