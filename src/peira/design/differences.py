"""Difference schemes: n rows and columns over the numbers modulo s, in which the differences of any two
columns take every value equally often. Each makes an orthogonal array of n·s runs.
"""

from __future__ import annotations

from functools import cache

from peira.design.fields import prime_power
from peira.design.hadamard import hadamard

Scheme = tuple[tuple[int, ...], ...]

# The three-level columns of Taguchi's L36 are the shifts of this scheme.
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
    """A square difference scheme over a prime modulus; None where no construction here has one."""
    found = prime_power(modulus)
    if found is None or found[1] > 1 or size % modulus:
        return None
    if modulus == 2:
        return _two_level(size)
    return _odd(size, modulus) or _product(size, modulus)


def _two_level(size: int) -> Scheme | None:
    matrix = hadamard(size)
    return tuple(tuple((1 - x) // 2 for x in row) for row in matrix) if matrix is not None else None


def _odd(size: int, p: int) -> Scheme | None:
    if size == p:
        return tuple(tuple(x * y % p for y in range(p)) for x in range(p))
    if size == 2 * p:
        return _twice(p)
    return tuple(tuple(map(int, row)) for row in TWELVE) if (size, p) == (12, 3) else None


def _twice(p: int) -> Scheme:
    """Of order 2p, from a number that is no square modulo p (Jungnickel 1979)."""
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
    """The sums of every entry of one scheme with every entry of another."""
    for small in range(p, size // p + 1, p):
        if size % small == 0 and (one := _odd(small, p)) and (other := scheme(size // small, p)):
            return tuple(tuple((x + y) % p for x in a for y in b) for a in one for b in other)
    return None
