"""Constructions of orthogonal arrays: subspaces, difference schemes and Hadamard matrices.

`array(runs, levels)` returns strength 2, `strong_array(runs, levels)` strength 3: one column for each
requested number of levels, in that order, or None if no construction here provides it. The constructions of
strength 2:

- disjoint subspaces of GF(p)^n: columns whose numbers of levels are powers of p (L4, L8, L9, L16, L25, L27,
  L32, L64, L81, with columns of 4, 8, 9, ... levels among them);
- Hadamard matrices: two levels in a multiple of 4 runs (L12, L20, L24, L28, ...);
- difference schemes: n·s runs from a scheme and an array of n runs (L18, L24, L36, L50, L54, ...);
- a few tabulated arrays of one column of 3, 5, 6, 7 or 10 levels with columns of two levels;
- the product of two arrays, every run of one with every run of the other.

Disjoint subspaces: a space of d dimensions partitions into one subspace of d - t and p^(d-t) subspaces of t
dimensions (for d >= 2t); identify the first with GF(p^(d-t)), embed the other t dimensions in it, and
multiply them by every element of the field.

Strength 3, two levels: a Hadamard matrix of half the runs and its foldover. Other prime powers q: vectors
over GF(q) of which no three are dependent (a cap), such as the points of a conic in q^3 runs (q + 1 columns,
one more for even q) and of an ovoid in q^4 runs (q^2 + 1 columns); in more runs, a greedy cap. Mixed levels:
products of such arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product

from peira.design.algebra.finite_fields import Field, field, prime_power
from peira.design.algebra.hadamard import hadamard

# Disjoint subspaces of GF(p)^n


Vector = tuple[int, ...]
Subspace = tuple[Vector, ...]
"""A subspace, represented by a basis."""


def disjoint_subspaces(prime: int, size: int, wanted: Sequence[int]) -> list[Subspace] | None:
    """Disjoint subspaces of the wanted dimensions, in falling order; None if they do not fit."""
    whole = tuple(tuple(int(i == j) for j in range(size)) for i in range(size))
    uncut: list[Subspace] = [whole]
    found: list[Subspace] = []
    for dimension in wanted:
        fitting = [space for space in uncut if len(space) >= dimension]
        if not fitting:
            return None
        smallest = min(fitting, key=len)
        uncut.remove(smallest)
        while len(smallest) > dimension:
            pieces = _parts(prime, smallest, dimension)
            smallest = next(piece for piece in pieces if len(piece) >= dimension)
            pieces.remove(smallest)
            uncut += pieces
        found.append(smallest)
    return found


def _parts(prime: int, space: Subspace, dimension: int) -> list[Subspace]:
    """A partition of a space into disjoint subspaces, at least one of the wanted dimension."""
    small = dimension if len(space) >= 2 * dimension else len(space) - dimension
    large, turned = space[: len(space) - small], space[len(space) - small :]
    f = field(prime ** len(large))
    parts = [
        tuple(
            _added(prime, base, _combined(prime, large, f.multiply(element, prime**nth)))
            for nth, base in enumerate(turned)
        )
        for element in range(f.order)
    ]
    return [*parts, large]


def _combined(prime: int, base: Subspace, element: int) -> Vector:
    """The vector whose coordinates in the basis are the digits of a field element."""
    total: Vector = (0,) * len(base[0])
    for vector in base:
        element, digit = divmod(element, prime)
        for _ in range(digit):
            total = _added(prime, total, vector)
    return total


def _added(prime: int, one: Vector, other: Vector) -> Vector:
    return tuple((a + b) % prime for a, b in zip(one, other, strict=True))


# Difference schemes


Scheme = tuple[tuple[int, ...], ...]
"""A difference scheme: the difference of any two columns contains every residue equally often."""

# Difference scheme of order 12 modulo 3; its shifts are the three-level columns of Taguchi's L36.
TWELVE = (
    "000000000000",
    "000011112222",
    "001201220112",
    "002102121021",
    "010222011012",
    "011220100221",
    "012021022101",
    "012100212210",
    "020121201120",
    "021012202011",
    "021110021202",
    "022212110100",
)


@cache
def scheme(size: int, modulus: int) -> Scheme | None:
    """A square difference scheme over a prime modulus; None if no construction here has one."""
    found = prime_power(modulus)
    if found is None or found[1] > 1 or size % modulus:
        return None
    if modulus == 2:
        return _two_level(size)
    return _odd(size, modulus) or _product(size, modulus)


def _two_level(size: int) -> Scheme | None:
    """A difference scheme modulo 2, from a Hadamard matrix."""
    matrix = hadamard(size)
    return tuple(tuple((1 - x) // 2 for x in row) for row in matrix) if matrix is not None else None


def _odd(size: int, p: int) -> Scheme | None:
    """A difference scheme modulo an odd prime p of order p, 2p, or 12 for p = 3."""
    if size == p:
        return tuple(tuple(x * y % p for y in range(p)) for x in range(p))
    if size == 2 * p:
        return _twice(p)
    return tuple(tuple(map(int, row)) for row in TWELVE) if (size, p) == (12, 3) else None


def _twice(p: int) -> Scheme:
    """A difference scheme of order 2p, from a quadratic non-residue modulo p (Jungnickel 1979)."""
    other = next(n for n in range(2, p) if pow(n, (p - 1) // 2, p) == p - 1)
    quarter, inverse = pow(4, -1, p), pow(other, -1, p)
    upper = [
        [(x * y + times * x * x * quarter) % p for times in (1, other) for y in range(p)] for x in range(p)
    ]
    lower = [
        [(x * y - y * y - x * x * quarter) * times % p for times in (1, inverse) for y in range(p)]
        for x in range(p)
    ]
    return tuple(map(tuple, upper + lower))


def _product(size: int, p: int) -> Scheme | None:
    """The Kronecker sum of two difference schemes."""
    for small in range(p, size // p + 1, p):
        if size % small == 0 and (one := _odd(small, p)) and (other := scheme(size // small, p)):
            return tuple(tuple((x + y) % p for x in a for y in b) for a in one for b in other)
    return None


# Arrays of strength 2


Column = tuple[int, ...]
"""The levels of one factor, run by run."""
Array = tuple[Column, ...]
"""An orthogonal array, as its columns."""
Levels = tuple[int, ...]
"""The number of levels of each column."""
Construct = Callable[[int, Levels], Array | None]
"""A construction: returns the array for a number of runs and levels, or None."""

# By (runs, levels of the first column, whose levels come in turn): the additional two-level columns.
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
    """An array of strength 2 with these numbers of levels; None if no construction here provides it."""
    return sorted_out(_array, runs, levels)


def sorted_out(construct: Construct, runs: int, levels: Sequence[int]) -> Array | None:
    """Call a construction that needs the numbers of levels in falling order; restore the given order."""
    order = sorted(range(len(levels)), key=lambda nth: -levels[nth])
    found = construct(runs, tuple(levels[nth] for nth in order))
    if found is None:
        return None
    columns = dict(zip(order, found, strict=True))
    return tuple(columns[nth] for nth in range(len(levels)))


def possible(runs: int, levels: Sequence[int], strength: int) -> bool:
    """Necessary conditions: degrees of freedom for all main effects, and divisibility for the strength."""
    kinds = [kind for kind in set(levels) for _ in range(min(levels.count(kind), strength))]
    combined = {math.prod(some) for some in combinations(kinds, min(strength, len(kinds)))}
    return runs > sum(n - 1 for n in levels) and all(runs % each == 0 for each in combined)


@cache
def _array(runs: int, levels: Levels) -> Array | None:
    """An array of strength 2, for numbers of levels in falling order."""
    if not possible(runs, levels, 2):
        return None
    for construct in (all_combinations, _linear, _hadamard, _mixed, _shifted, _crossed):
        found = construct(runs, levels)
        if found is not None:
            return found
    return None


def all_combinations(runs: int, levels: Levels) -> Array | None:
    """The full factorial, repeated to fill the runs; None if the runs are not a multiple."""
    every = math.prod(levels)
    if runs % every:
        return None
    rows = list(product(*map(range, levels))) * (runs // every)
    return tuple(zip(*rows, strict=True))


def _linear(runs: int, levels: Levels) -> Array | None:
    """A linear array: each column is a subspace of GF(p)^n, disjoint from the others."""
    power = prime_power(runs)
    found = [prime_power(n) for n in levels]
    if power is None or any(f is None or f[0] != power[0] for f in found):
        return None
    prime, size = power
    spaces = disjoint_subspaces(prime, size, [f[1] for f in found if f is not None])
    if spaces is None:
        return None
    every = list(product(range(prime), repeat=size))
    return tuple(tuple(_number(prime, space, x) for x in every) for space in spaces)


def _number(prime: int, space: Sequence[Sequence[int]], x: Sequence[int]) -> int:
    """The level that run x has in the column of a subspace."""
    total = 0
    for vector in space:
        total = total * prime + sum(a * b for a, b in zip(vector, x, strict=True)) % prime
    return total


def _hadamard(runs: int, levels: Levels) -> Array | None:
    """Two-level columns of a Hadamard matrix."""
    if set(levels) != {2}:
        return None
    matrix = hadamard(runs)
    if matrix is None:
        return None
    return tuple(tuple((1 + row[nth]) // 2 for row in matrix) for nth in range(1, len(levels) + 1))


def _mixed(runs: int, levels: Levels) -> Array | None:
    """A tabulated array of one column of several levels and columns of two."""
    first, *rest = levels
    known = MIXED.get((runs, first), ())
    if any(n != 2 for n in rest) or len(rest) > len(known):
        return None
    return (
        tuple(nth * first // runs for nth in range(runs)),
        *(tuple(map(int, c)) for c in known[: len(rest)]),
    )


def _shifted(runs: int, levels: Levels) -> Array | None:
    """A difference scheme in all its shifts, next to an array with one run for each row of the scheme."""
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
    """The product of two arrays, between which the columns are divided."""
    for some, others in _partitions(levels):
        for size in range(2, runs // 2 + 1):
            if runs % size or not possible(size, some, strength):
                continue
            one, other = construct(size, some), construct(runs // size, others)
            if one is not None and other is not None:
                left = [tuple(x for x in column for _ in range(runs // size)) for column in one]
                return _in_order(levels, left + [column * size for column in other], some, others)
    return None


def _partitions(levels: Levels) -> Iterator[tuple[Levels, Levels]]:
    """The columns divided into two groups; equal numbers of levels stay together."""
    kinds = sorted(set(levels))
    for size in range(1, len(kinds) // 2 + 1):
        for chosen in combinations(kinds, size):
            yield tuple(n for n in levels if n in chosen), tuple(n for n in levels if n not in chosen)


def _without(levels: Levels, kind: int, count: int) -> Levels:
    """The numbers of levels without `count` of one kind."""
    place = levels.index(kind)
    return levels[:place] + levels[place + count :]


def _in_order(levels: Levels, columns: Sequence[Column], *kinds: Sequence[int]) -> Array:
    """The columns, whose numbers of levels are the `kinds`, in the order of `levels`."""
    remaining: dict[int, list[Column]] = {n: [] for n in levels}
    for column, kind in zip(columns, (k for some in kinds for k in some), strict=True):
        remaining[kind].append(column)
    return tuple(remaining[n].pop(0) for n in levels)


# Arrays of strength 3


Vectors = Sequence[tuple[int, ...]]


def strong_array(runs: int, levels: Sequence[int]) -> Array | None:
    """An array of strength 3 with these numbers of levels; None if no construction here provides it."""
    return sorted_out(_strong, runs, levels)


@cache
def _strong(runs: int, levels: Levels) -> Array | None:
    """An array of strength 3, for numbers of levels in falling order."""
    if not possible(runs, levels, 3):
        return None
    for construct in (all_combinations, _folded, _capped, _crossed_triples):
        found = construct(runs, levels)
        if found is not None:
            return found
    return None


def _folded(runs: int, levels: Levels) -> Array | None:
    """Two levels: a Hadamard matrix and its foldover."""
    matrix = hadamard(runs // 2) if set(levels) == {2} and runs % 2 == 0 else None
    if matrix is None or len(levels) > len(matrix):
        return None
    rows = [*matrix, *(tuple(-x for x in row) for row in matrix)]
    return tuple(tuple((1 + row[nth]) // 2 for row in rows) for nth in range(len(levels)))


def _capped(runs: int, levels: Levels) -> Array | None:
    """q levels in q^n runs: the columns are the points of a cap over GF(q)."""
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
    """The points of a conic, with its nucleus for even order."""
    found: Vectors = [(1, t, f.multiply(t, t)) for t in range(f.order)]
    return [*found, (0, 0, 1), *([(0, 1, 0)] if f.prime == 2 else [])]


def _ovoid(f: Field) -> Vectors:
    """The points of an elliptic quadric u + yy + byz + czz = 0, with an anisotropic form in y and z."""
    b, c = next(
        (b, c)
        for b in range(f.order)
        for c in range(1, f.order)
        if all(_form(f, b, c, y, 1) for y in range(f.order))
    )
    places = product(range(f.order), repeat=2)
    return [(1, f.subtract(0, _form(f, b, c, y, z)), y, z) for y, z in places] + [(0, 1, 0, 0)]


def _cap(f: Field, size: int, wanted: int) -> Vectors:
    """Greedily chosen vectors of which no three are dependent."""
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
    """The multiple of a vector whose first non-zero entry is 1."""
    first = next(x for x in vector if x)
    inverse = f.powers[-f.logs[first] % (f.order - 1)]
    return tuple(f.multiply(inverse, x) for x in vector)


def _form(f: Field, b: int, c: int, y: int, z: int) -> int:
    """The quadratic form yy + byz + czz."""
    mixed, square = f.multiply(b, f.multiply(y, z)), f.multiply(c, f.multiply(z, z))
    return f.add(f.multiply(y, y), f.add(mixed, square))


def _dot(f: Field, one: Sequence[int], other: Sequence[int]) -> int:
    """The dot product over the field."""
    total = 0
    for a, b in zip(one, other, strict=True):
        total = f.add(total, f.multiply(a, b))
    return total


def _crossed_triples(runs: int, levels: Levels) -> Array | None:
    return crossed(_strong, runs, levels, 3)
