"""Subspaces of a vector space over GF(p) that meet in zero only: the columns of linear orthogonal arrays.

A space of d dimensions falls apart into one of d - t and p^(d-t) of t dimensions (for d >= 2t): take the
first for GF(p^(d-t)), embed the other t dimensions in it, and turn them by every element of the field.
"""

from __future__ import annotations

from collections.abc import Sequence

from peira.design.fields import field

Vector = tuple[int, ...]
Subspace = tuple[Vector, ...]
"""Given by a base."""


def carved(prime: int, size: int, wanted: Sequence[int]) -> list[Subspace] | None:
    """Disjoint subspaces of the wanted dimensions, which fall; None if there is no room for them."""
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
    """Disjoint parts that make up a space, at least one of them of the dimension."""
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
    """The vector whose coordinates in the base are the digits of a field element."""
    total: Vector = (0,) * len(base[0])
    for vector in base:
        element, digit = divmod(element, prime)
        for _ in range(digit):
            total = _added(prime, total, vector)
    return total


def _added(prime: int, one: Vector, other: Vector) -> Vector:
    return tuple((a + b) % prime for a, b in zip(one, other, strict=True))
