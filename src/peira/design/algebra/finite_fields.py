"""Finite fields of small order, and linear algebra over GF(2).

The elements of GF(p^n) are the integers 0 to p^n - 1, whose base-p digits are the coefficients of a
polynomial; p (for n = 1 a generator) represents a root of a primitive polynomial. Vectors over GF(2) are
integers, one bit per coordinate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

# Linear algebra over GF(2)


def span(vectors: Iterable[int]) -> Iterator[int]:
    """All vectors in the span over GF(2), zero first."""
    found = list(vectors)
    total = 0
    yield total
    for step in range(1, 1 << len(found)):
        total ^= found[(step & -step).bit_length() - 1]  # Gray code order: one vector is added or removed
        yield total


def reduced(vectors: Iterable[int]) -> dict[int, int]:
    """A reduced basis of the span, by highest bit; no basis vector has the highest bit of another."""
    found: dict[int, int] = {}
    for vector in vectors:
        rest = remainder(vector, found)
        if rest:
            top = rest.bit_length()
            found = {t: v ^ rest if v >> (top - 1) & 1 else v for t, v in found.items()}
            found[top] = rest
    return found


def remainder(vector: int, base: dict[int, int]) -> int:
    """The vector modulo the span of a reduced basis: equal for all vectors of one coset."""
    for top, other in base.items():
        if vector >> (top - 1) & 1:
            vector ^= other
    return vector


def resolved(vectors: Sequence[int]) -> tuple[list[int], list[int]]:
    """Indices of the vectors independent of earlier ones; the others as sums of these, in bits."""
    base, made_of = _resolved(vectors)
    return base, [made for nth, made in enumerate(made_of) if nth not in base]


def kernel(vectors: Sequence[int]) -> list[int]:
    """A basis of the subsets of vectors (as bits) that sum to zero."""
    base, made_of = _resolved(vectors)
    found = []
    for nth, made in enumerate(made_of):
        if nth not in base:
            found.append(1 << nth | sum(1 << b for i, b in enumerate(base) if made >> i & 1))
    return found


def _resolved(vectors: Sequence[int]) -> tuple[list[int], list[int]]:
    """Gaussian elimination: indices of a basis, and every vector as a combination of the basis."""
    base: list[int] = []
    made_of: list[int] = []
    echelon: dict[int, tuple[int, int]] = {}  # by highest bit: a vector, and its combination of basis vectors
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


# Finite fields


@dataclass(frozen=True)
class Field:
    """The finite field GF(order), with the powers of a generator and their logarithms."""

    order: int
    prime: int
    powers: tuple[int, ...]
    logs: dict[int, int]

    def add(self, a: int, b: int) -> int:
        """The sum of two elements."""
        return _digitwise(a, b, 1, self.prime)

    def subtract(self, a: int, b: int) -> int:
        """The difference of two elements."""
        return _digitwise(a, b, -1, self.prime)

    def multiply(self, a: int, b: int) -> int:
        """The product of two elements."""
        if a == 0 or b == 0:
            return 0
        return self.powers[(self.logs[a] + self.logs[b]) % (self.order - 1)]

    def character(self, a: int) -> int:
        """The quadratic character: 1 for a square, -1 for a non-square, 0 for 0 (odd order only)."""
        return 0 if a == 0 else 1 - 2 * (self.logs[a] % 2)


def prime_power(order: int) -> tuple[int, int] | None:
    """The prime and the exponent; None for a number that is not a prime power."""
    prime = next((p for p in range(2, int(order**0.5) + 1) if order % p == 0), order)
    exponent = 0
    while prime > 1 and order % prime == 0:
        order, exponent = order // prime, exponent + 1
    return (prime, exponent) if order == 1 and exponent else None


@cache
def field(order: int) -> Field:
    """The field with `order` elements; raises `ValueError` if `order` is not a prime power."""
    found = prime_power(order)
    if found is None:
        raise ValueError(f"there is no field with {order} elements")
    prime, _ = found
    tails = (tail for tail in range(1, order) if tail % prime)  # else x would have no inverse
    powers = next(p for p in (_powers(order, prime, tail) for tail in tails) if p is not None)
    return Field(order, prime, powers, {power: log for log, power in enumerate(powers)})


def _powers(order: int, prime: int, tail: int) -> tuple[int, ...] | None:
    """The powers of x where x^n = -tail; None if x is not a generator."""
    found = [1]
    while len(found) < order - 1:
        top, rest = divmod(found[-1] * prime, order)
        for _ in range(top):
            rest = _digitwise(rest, tail, -1, prime)
        if rest == 1:
            return None
        found.append(rest)
    return tuple(found)


def _digitwise(a: int, b: int, sign: int, prime: int) -> int:
    """The digit-wise sum (or difference) of two elements modulo the prime."""
    total, scale = 0, 1
    while a or b:
        a, x = divmod(a, prime)
        b, y = divmod(b, prime)
        total += (x + sign * y) % prime * scale
        scale *= prime
    return total
