"""Blocks from finite fields: the lines of affine and projective spaces, and the squares of a field.

Any two points lie on one line, so that lines are balanced incomplete blocks; so are the translates of the
squares of a field whose order leaves 3 when divided by 4 (Paley).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from peira.design.fields import Field, field, prime_power

Blocks = tuple[tuple[int, ...], ...]
Vector = tuple[int, ...]


def families(t: int, k: int, together: int) -> Iterator[Blocks]:
    """The designs known here for t points in blocks of k, every pair of points together so often."""
    if t % 4 == 3 and (k, together) == (t // 2, t // 4) and prime_power(t):
        yield paley(t)
    for dimension in range(2, 7):
        if together == 1 and t == k**dimension and prime_power(k):
            yield affine_lines(k, dimension)
        if together == 1 and t == sum((k - 1) ** n for n in range(dimension + 1)) and prime_power(k - 1):
            yield projective_lines(k - 1, dimension)


def paley(order: int) -> Blocks:
    gf = field(order)
    squares = gf.powers[::2]
    return tuple(tuple(sorted(gf.add(point, square) for square in squares)) for point in range(order))


def affine_lines(order: int, dimension: int) -> Blocks:
    gf, points = field(order), list(product(range(order), repeat=dimension))
    number = {point: n for n, point in enumerate(points)}
    lines = {
        tuple(sorted(number[_moved(gf, point, way, step)] for step in range(order)))
        for way in _directions(order, dimension)
        for point in points
    }
    return tuple(sorted(lines))


def projective_lines(order: int, dimension: int) -> Blocks:
    gf, points = field(order), _directions(order, dimension + 1)
    number = {point: n for n, point in enumerate(points)}
    lines = {
        tuple(sorted([number[b], *(number[_direction(gf, _moved(gf, a, b, step))] for step in range(order))]))
        for a, b in combinations(points, 2)
    }
    return tuple(sorted(lines))


def _directions(order: int, size: int) -> list[Vector]:
    """One vector of each direction: the first of its places that is not 0 is 1."""
    return [v for v in product(range(order), repeat=size) if next(filter(None, v), 0) == 1]


def _moved(gf: Field, point: Vector, way: Vector, step: int) -> Vector:
    return tuple(gf.add(p, gf.multiply(step, w)) for p, w in zip(point, way, strict=True))


def _direction(gf: Field, vector: Vector) -> Vector:
    lead = next(filter(None, vector))
    inverse = gf.powers[-gf.logs[lead] % (gf.order - 1)]
    return tuple(gf.multiply(inverse, x) for x in vector)
