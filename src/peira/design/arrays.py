"""Orthogonal arrays: columns of levels in which any two (strength 2) show every pair of levels equally often.

`array(runs, levels)` has a column for every number of levels asked for, in that order, or is None if no
construction here gives it. The constructions, each checked by tests for what it promises:

- subspaces of GF(p)^n, cut so that no two meet: all columns whose levels are powers of p (L4, L8, L9, L16,
  L25, L27, L32, L64, L81, with columns of 4, 8, 9, ... levels among them);
- Hadamard matrices: two levels in a multiple of 4 runs (L12, L20, L24, L28, ...);
- difference schemes: n·s runs from a scheme and an array of n runs (L18, L24, L36, L50, L54, ...);
- a few arrays of one column of 3, 5, 6, 7 or 10 levels with columns of two;
- the product of two arrays, every run of one with every run of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product

from peira.design.differences import scheme
from peira.design.fields import prime_power
from peira.design.geometry import carved
from peira.design.hadamard import hadamard

Column = tuple[int, ...]
Array = tuple[Column, ...]
Levels = tuple[int, ...]
Construct = Callable[[int, Levels], Array | None]

# (runs, levels of the first column, which come in turn): the columns of two levels beside it.
MIXED = {
    (12, 3): ("001101010011", "010101101001", "010110010101", "011001011100"),
    (12, 6): ("010101011001", "011010101001"),
    (20, 5): (
        "01010011100110101100",
        "01010110110001010101",
        "01011001101010010011",
        "01011100010111001010",
        "01100101001111000101",
        "01101001110001101001",
        "01101010011010011100",
        "01101100100100110110",
    ),
    (20, 10): ("01010101101010101010", "01100110101001010110"),
    (28, 7): (
        "0011001100110011100110011100",
        "0011010110010110101010100011",
        "0011011011001100101001011100",
        "0011101001011100010110100110",
        "0011110000111001110001010011",
        "0101001110011001011000111010",
        "0101010110101100010110010101",
        "0101011001010011011011000101",
        "0101101010100110110011001010",
        "0101110011000011100100110110",
        "0110101010101001101010100101",
        "0110110000110110011000111100",
    ),
}


def array(runs: int, levels: Sequence[int]) -> Array | None:
    """An array of strength 2 with these numbers of levels; None if no construction here gives it."""
    return sorted_out(_array, runs, levels)


def sorted_out(construct: Construct, runs: int, levels: Sequence[int]) -> Array | None:
    """The array of a construction that takes the numbers of levels in falling order, in the order given."""
    order = sorted(range(len(levels)), key=lambda nth: -levels[nth])
    found = construct(runs, tuple(levels[nth] for nth in order))
    if found is None:
        return None
    columns = dict(zip(order, found, strict=True))
    return tuple(columns[nth] for nth in range(len(levels)))


def possible(runs: int, levels: Sequence[int], strength: int) -> bool:
    """Whether an array could be: it has room for all effects, and all its combinations come equally often."""
    kinds = [kind for kind in set(levels) for _ in range(min(levels.count(kind), strength))]
    combined = {math.prod(some) for some in combinations(kinds, min(strength, len(kinds)))}
    return runs > sum(n - 1 for n in levels) and all(runs % each == 0 for each in combined)


@cache
def _array(runs: int, levels: Levels) -> Array | None:
    """For numbers of levels in falling order."""
    if not possible(runs, levels, 2):
        return None
    for construct in (all_combinations, _linear, _hadamard, _mixed, _shifted, _crossed):
        found = construct(runs, levels)
        if found is not None:
            return found
    return None


def all_combinations(runs: int, levels: Levels) -> Array | None:
    """Every combination, as often as there is room for."""
    every = math.prod(levels)
    if runs % every:
        return None
    rows = list(product(*map(range, levels))) * (runs // every)
    return tuple(zip(*rows, strict=True))


def _linear(runs: int, levels: Levels) -> Array | None:
    power = prime_power(runs)
    found = [prime_power(n) for n in levels]
    if power is None or any(f is None or f[0] != power[0] for f in found):
        return None
    prime, size = power
    spaces = carved(prime, size, [f[1] for f in found if f is not None])
    if spaces is None:
        return None
    every = list(product(range(prime), repeat=size))
    return tuple(tuple(_number(prime, space, x) for x in every) for space in spaces)


def _number(prime: int, space: Sequence[Sequence[int]], x: Sequence[int]) -> int:
    """Which of the levels of a subspace the run x has."""
    total = 0
    for vector in space:
        total = total * prime + sum(a * b for a, b in zip(vector, x, strict=True)) % prime
    return total


def _hadamard(runs: int, levels: Levels) -> Array | None:
    if set(levels) != {2}:
        return None
    matrix = hadamard(runs)
    if matrix is None:
        return None
    return tuple(tuple((1 + row[nth]) // 2 for row in matrix) for nth in range(1, len(levels) + 1))


def _mixed(runs: int, levels: Levels) -> Array | None:
    first, *rest = levels
    known = MIXED.get((runs, first), ())
    if any(n != 2 for n in rest) or len(rest) > len(known):
        return None
    return (
        tuple(nth * first // runs for nth in range(runs)),
        *(tuple(map(int, c)) for c in known[: len(rest)]),
    )


def _shifted(runs: int, levels: Levels) -> Array | None:
    """Every row of a scheme in all its shifts, beside a run of an array with as many runs as it has rows."""
    for modulus in sorted(set(levels)):
        rows = runs // modulus
        found = scheme(rows, modulus) if runs % modulus == 0 else None
        if found is None:
            continue
        taken = min(levels.count(modulus), rows)
        rest = _without(levels, modulus, taken)
        inner = _array(rows, rest)
        if inner is not None:
            outer = [
                tuple((row[nth] + shift) % modulus for row in found for shift in range(modulus))
                for nth in range(taken)
            ]
            repeated = [tuple(x for x in column for _ in range(modulus)) for column in inner]
            return _in_order(levels, [*outer, *repeated], [modulus] * taken, rest)
    return None


def _crossed(runs: int, levels: Levels) -> Array | None:
    return crossed(_array, runs, levels, 2)


def crossed(construct: Construct, runs: int, levels: Levels, strength: int) -> Array | None:
    """Every run of one array with every run of another, which share the columns."""
    for some, others in _parted(levels):
        for size in range(2, runs // 2 + 1):
            if runs % size or not possible(size, some, strength):
                continue
            one, other = construct(size, some), construct(runs // size, others)
            if one is not None and other is not None:
                left = [tuple(x for x in column for _ in range(runs // size)) for column in one]
                return _in_order(levels, left + [column * size for column in other], some, others)
    return None


def _parted(levels: Levels) -> Iterator[tuple[Levels, Levels]]:
    """The columns in two groups: equal numbers of levels stay together."""
    kinds = sorted(set(levels))
    for size in range(1, len(kinds) // 2 + 1):
        for chosen in combinations(kinds, size):
            yield tuple(n for n in levels if n in chosen), tuple(n for n in levels if n not in chosen)


def _without(levels: Levels, kind: int, count: int) -> Levels:
    place = levels.index(kind)
    return levels[:place] + levels[place + count :]


def _in_order(levels: Levels, columns: Sequence[Column], *kinds: Sequence[int]) -> Array:
    """The columns, whose numbers of levels are the `kinds`, in the order of the levels."""
    waiting: dict[int, list[Column]] = {n: [] for n in levels}
    for column, kind in zip(columns, (k for some in kinds for k in some), strict=True):
        waiting[kind].append(column)
    return tuple(waiting[n].pop(0) for n in levels)
