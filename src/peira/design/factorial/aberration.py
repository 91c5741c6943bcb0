"""Minimum aberration: the search for the columns of a regular two-level fraction.

The runs of a fraction are the points of GF(2)^m, and every factor is a column: a vector of m bits. Columns
that sum to zero form a word of the defining relation, so the minimum-aberration fraction (the one with the
fewest short words) is the set of columns with the fewest small subsets that sum to zero. Columns are
exchanged one at a time for the vector that gives the fewest words of length 3, then of length 4, and so on,
from several random starts; for up to 11 factors this finds the published fractions. Fractions too large for a
search are constructed directly, and have resolution IV where the greedy construction does not reach V.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from peira.design.algebra.finite_fields import resolved

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

MOST_BITS = 12
"""Largest searched fraction: 2^12 runs."""
EFFORT = 240
"""Number of random starts of a search, times the number of factors."""
SEARCHED = 1 << 15
"""Number of factors times runs above which the fraction is constructed directly, not searched for."""
LONGEST = 9
"""Longer words are not counted."""


@cache
def columns(factors: int, bits: int) -> tuple[int, ...]:
    """The columns of the factors in 2^bits runs: the basic factors (single bits), then the generated ones.

    Requires bits <= factors < 2^bits, and bits <= MOST_BITS unless at most one factor is generated.
    """
    single = tuple(1 << bit for bit in range(bits))
    if factors - bits <= 1:
        return (*single, (1 << bits) - 1)[:factors]
    if factors << bits > SEARCHED or factors == (1 << bits) - 1:
        return tuple(_direct(factors, bits))
    starts = range(min(20, 1 + EFFORT // factors))
    found = [_exchange_search(factors, bits, random.Random(start)) for start in starts]
    return _on_single_bits(min(found, key=lambda columns: _pattern(columns, bits)), bits)


def subsets(columns: Sequence[int], bits: int, sizes: Sequence[int]) -> Counts:
    """For each size (row) and vector (column), the number of subsets of that many columns that sum to it."""
    return _subsets(_weights(columns, bits), len(columns), sizes)


def length_of_shortest(columns: Sequence[int], bits: int) -> int:
    """The resolution: the fewest columns that sum to zero, or one more than was counted."""
    pattern = _pattern(columns, bits)
    return next((3 + i for i, count in enumerate(pattern) if count), 3 + len(pattern))


def countable(factors: int, bits: int, least: int) -> list[int]:
    """Subset sizes from `least` to `LONGEST` whose counts are exact in 62-bit integers."""
    return [
        size
        for size in range(least, min(factors, LONGEST) + 1)
        if math.comb(factors, min(size, factors // 2)) << bits < 1 << 62
    ]


def _pattern(columns: Sequence[int], bits: int) -> list[int]:
    """The word length pattern: the number of words of length 3, 4, ..."""
    counts: list[int] = subsets(columns, bits, countable(len(columns), bits, 3))[:, 0].tolist()
    return counts


def _exchange_search(factors: int, bits: int, rng: random.Random) -> list[int]:
    """Columns from one random start, exchanged until no single exchange improves the word lengths."""
    others = [vector for vector in range(1, 1 << bits) if vector.bit_count() > 1]
    found = [1 << bit for bit in range(bits)] + rng.sample(others, factors - bits)
    changed = True
    while changed:
        changed = False
        for nth, column in enumerate(found):
            best = _fewest_words(found[:nth] + found[nth + 1 :], bits)
            if column not in best:
                found[nth], changed = rng.choice(best), True
    return found


def _fewest_words(columns: Sequence[int], bits: int) -> list[int]:
    """The vectors that, as an additional column, add the fewest words of length 3, then 4, ..."""
    import numpy as np

    candidates = np.setdiff1d(np.arange(1, 1 << bits), columns)
    for counts in subsets(columns, bits, countable(len(columns), bits, 2)):
        candidates = candidates[counts[candidates] == counts[candidates].min()]
    found: list[int] = candidates.tolist()
    return found


def _weights(columns: Sequence[int], bits: int) -> Counts:
    """For every x, the number of columns that share an odd number of bits with it."""
    import numpy as np

    weights = np.zeros(1 << bits, dtype=np.int64)
    for first in range(0, len(columns), 64):  # in chunks: there may be thousands of columns
        shared = np.arange(1 << bits) & np.array(columns[first : first + 64])[:, None]
        weights += _parity(bits)[shared].sum(axis=0)
    return weights


def _subsets(weights: Counts, length: int, sizes: Sequence[int]) -> Counts:
    """Subset counts: the Walsh-Hadamard transforms of the Krawtchouk polynomials of the weights."""
    import numpy as np

    values: Counts = np.array([_krawtchouk(length, size) for size in sizes], dtype=np.int64)[:, weights]
    shape, step = values.shape, 1
    while step < shape[1]:
        pairs = values.reshape(shape[0], -1, 2, step)
        values = np.concatenate(
            [pairs[:, :, :1] + pairs[:, :, 1:], pairs[:, :, :1] - pairs[:, :, 1:]], axis=2
        )
        step *= 2
    counts: Counts = values.reshape(shape) // shape[1]
    return counts


@cache
def _parity(bits: int) -> NDArray[np.int8]:
    """The parity of the number of set bits of 0 to 2^bits - 1."""

    import numpy as np

    found = np.zeros(1, dtype=np.int8)
    for _ in range(bits):
        found = np.concatenate([found, 1 - found])
    return found


@cache
def _krawtchouk(length: int, degree: int) -> list[int]:
    """For x of every weight, the sum of (-1)^|S and x| over all S of size `degree`."""
    return [
        sum((-1) ** j * math.comb(w, j) * math.comb(length - w, degree - j) for j in range(degree + 1))
        for w in range(length + 1)
    ]


def _direct(factors: int, bits: int) -> list[int]:
    """A fraction of resolution V if the greedy construction reaches it; else of IV, else of III.

    No three vectors of odd weight sum to zero, so such columns give resolution IV.
    """
    found = _greedy_resolution_five(factors, bits)
    if len(found) == factors:
        return found
    return sorted(range(1, 1 << bits), key=lambda v: (v.bit_count() > 1, v.bit_count() % 2 == 0, v))[:factors]


def _greedy_resolution_five(factors: int, bits: int) -> list[int]:
    """Greedily chosen vectors of which no four sum to zero: `factors` of them, or as many as found."""
    found: list[int] = []
    pairs: set[int] = set()
    taken = {0}
    for vector in sorted(range(1, 1 << bits), key=lambda v: v.bit_count() > 1):
        if vector not in taken and len(found) < factors:
            taken |= {vector, *(vector ^ one for one in found), *(vector ^ pair for pair in pairs)}
            pairs |= {vector ^ one for one in found}
            found.append(vector)
    return found


def _on_single_bits(columns: Sequence[int], bits: int) -> tuple[int, ...]:
    """The same fraction after a change of basis, with the single bits as the first columns."""
    base, made_of = resolved(sorted(columns))
    assert len(base) == bits
    return (*(1 << bit for bit in range(bits)), *sorted(made_of, key=lambda c: (-c.bit_count(), c)))
