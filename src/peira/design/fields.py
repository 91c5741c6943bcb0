"""Finite fields of small order: the arithmetic behind orthogonal arrays, Hadamard and conference matrices.

The elements of GF(p^n) are the numbers 0 to p^n - 1, whose digits to base p are the coefficients of a
polynomial; p itself (or 1 + 1 + ... for n = 1, a generator) stands for a root of a primitive polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Field:
    """GF(order), with the powers of a generator and their logarithms."""

    order: int
    prime: int
    powers: tuple[int, ...]
    logs: dict[int, int]

    def add(self, a: int, b: int) -> int:
        return _digitwise(a, b, 1, self.prime)

    def subtract(self, a: int, b: int) -> int:
        return _digitwise(a, b, -1, self.prime)

    def multiply(self, a: int, b: int) -> int:
        if a == 0 or b == 0:
            return 0
        return self.powers[(self.logs[a] + self.logs[b]) % (self.order - 1)]

    def character(self, a: int) -> int:
        """1 for a square, -1 for any other, 0 for 0 (in a field of odd order)."""
        return 0 if a == 0 else 1 - 2 * (self.logs[a] % 2)


def prime_power(order: int) -> tuple[int, int] | None:
    """The prime and the exponent; None for a number that is no prime power."""
    prime = next((p for p in range(2, int(order**0.5) + 1) if order % p == 0), order)
    exponent = 0
    while prime > 1 and order % prime == 0:
        order, exponent = order // prime, exponent + 1
    return (prime, exponent) if order == 1 and exponent else None


@cache
def field(order: int) -> Field:
    """The field with so many elements, which must be a prime power."""
    found = prime_power(order)
    if found is None:
        raise ValueError(f"there is no field with {order} elements")
    prime, _ = found
    tails = (tail for tail in range(1, order) if tail % prime)  # else x would have no inverse
    powers = next(p for p in (_powers(order, prime, tail) for tail in tails) if p is not None)
    return Field(order, prime, powers, {power: log for log, power in enumerate(powers)})


def _powers(order: int, prime: int, tail: int) -> tuple[int, ...] | None:
    """The powers of x where x^n = -tail; None if they do not reach every element."""
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
    total, scale = 0, 1
    while a or b:
        a, x = divmod(a, prime)
        b, y = divmod(b, prime)
        total += (x + sign * y) % prime * scale
        scale *= prime
    return total
