"""Hadamard and conference matrices.

Hadamard matrices come from Paley's two constructions, Williamson's (for order 92) and doubling: every
multiple of 4 up to 100. Conference matrices come from Paley's construction and from doubling a skew one.
"""

from __future__ import annotations

from functools import cache

from peira.design.algebra.finite_fields import field, prime_power

Matrix = tuple[tuple[int, ...], ...]

# First rows of the four circulant blocks of order 23 found by Baumert, Golomb and Hall (1962).
WILLIAMSON = {
    92: (
        "++---+---+-++-+---+---+",
        "+-++-++--++++++--++-++-",
        "+++---++-+-++-+-++---++",
        "+++-+++-+------+-+++-++",
    )
}
# Williamson's array of four such blocks: sign and index of each.
ARRANGED = (
    ((1, 0), (1, 1), (1, 2), (1, 3)),
    ((-1, 1), (1, 0), (-1, 3), (1, 2)),
    ((-1, 2), (1, 3), (1, 0), (-1, 1)),
    ((-1, 3), (-1, 2), (1, 1), (1, 0)),
)


@cache
def hadamard(order: int) -> Matrix | None:
    """A Hadamard matrix, normalised: first column 1, last row -1 in all other columns.

    For 12, 20 and 24 the other columns are the design as Plackett and Burman published it. None if no
    construction here has that order.
    """
    if order in (1, 2):
        return ((1,),) if order == 1 else ((1, 1), (1, -1))
    if order % 4 or order < 4:
        return None
    for construct in (_paley_one, _paley_two, _williamson, _doubled):
        found = construct(order)
        if found is not None:
            return _normalised(found)
    return None


@cache
def conference(order: int) -> Matrix | None:
    """A conference matrix: 0 on the diagonal, 1 and -1 elsewhere, orthogonal columns; None if unknown."""
    if order % 2 or order < 2:
        return None
    if prime_power(order - 1) or order == 2:
        return _paley_conference(order - 1)
    half = conference(order // 2) if order % 8 == 0 else None
    return _doubled_skew(half) if half is not None else None


def _paley_one(order: int) -> Matrix | None:
    """Paley's first construction, for a prime power order - 1 congruent to 3 modulo 4."""
    q = order - 1
    if q % 4 != 3 or not prime_power(q):
        return None
    f = field(q)
    rows = [(1, *(f.character(f.subtract(j, i)) or 1 for j in range(q))) for i in range(q)]
    return (*rows, (1, *[-1] * q))


def _paley_two(order: int) -> Matrix | None:
    """Paley's second construction, for a prime power order / 2 - 1 congruent to 1 modulo 4."""
    q = order // 2 - 1
    if q % 4 != 1 or not prime_power(q):
        return None
    blocks = {0: ((1, -1), (-1, -1)), 1: ((1, 1), (1, -1)), -1: ((-1, -1), (-1, 1))}
    return tuple(
        tuple(entry for value in row for entry in blocks[value][half])
        for row in _paley_conference(q)
        for half in (0, 1)
    )


def _williamson(order: int) -> Matrix | None:
    """Williamson's construction from four circulant blocks."""
    if order not in WILLIAMSON:
        return None
    size = order // 4
    blocks = [
        [tuple(1 if row[(j - i) % size] == "+" else -1 for j in range(size)) for i in range(size)]
        for row in WILLIAMSON[order]
    ]
    return tuple(
        tuple(sign * entry for sign, block in row for entry in blocks[block][i])
        for row in ARRANGED
        for i in range(size)
    )


def _doubled(order: int) -> Matrix | None:
    """Sylvester's doubling of a matrix of half the order."""
    half = hadamard(order // 2)
    if half is None:
        return None
    return (*(row + row for row in half), *(row + tuple(-x for x in row) for row in half))


def _normalised(matrix: Matrix) -> Matrix:
    """Normalise: the first column to 1, the last row to -1 in all other columns."""
    rows = [tuple(x * row[0] for x in row) for row in matrix]
    signs = [1, *(-x for x in rows[-1][1:])]
    return tuple(tuple(x * s for x, s in zip(row, signs, strict=True)) for row in rows)


def _paley_conference(q: int) -> Matrix:
    """Paley's conference matrix of order q + 1."""
    if q == 1:
        return ((0, 1), (1, 0))
    f = field(q)
    side = f.character(f.subtract(0, 1))
    rows = [(side, *(f.character(f.subtract(j, i)) for j in range(q))) for i in range(q)]
    return ((0, *[1] * q), *rows)


def _doubled_skew(half: Matrix) -> Matrix:
    """The doubling of a skew conference matrix C: (C, C + I; C - I, -C), which is skew again."""
    size = len(half)
    upper = [row + tuple(x + (i == j) for j, x in enumerate(row)) for i, row in enumerate(half)]
    lower = [
        tuple(x - (i == j) for j, x in enumerate(row)) + tuple(-x for x in row) for i, row in enumerate(half)
    ]
    assert all(half[i][j] == -half[j][i] for i in range(size) for j in range(i))
    return (*upper, *lower)
