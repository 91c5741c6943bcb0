"""Run order: a seeded bijection on the index, so that ten million trials are shuffled at no cost.

A Feistel network permutes the next power of two; positions that fall outside are walked on until they
fall inside, which keeps it one-to-one.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

ROUNDS = 4
MIX = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def shuffled(size: int, seed: int, salt: str = "") -> Iterator[int]:
    """Every number below `size` once, in the order this seed gives."""
    if size <= 1:
        yield from range(size)
        return
    bits = (size - 1).bit_length()
    keys = _keys(seed, salt)
    for position in range(size):
        index = _permute(position, bits, keys)
        while index >= size:
            index = _permute(index, bits, keys)
        yield index


def _keys(seed: int, salt: str) -> tuple[int, ...]:
    material = sha256(f"peira order {seed} {salt}".encode()).digest()
    return tuple(int.from_bytes(material[8 * i : 8 * i + 8], "big") for i in range(ROUNDS))


def _permute(value: int, bits: int, keys: tuple[int, ...]) -> int:
    """An even number of rounds, in which the two parts, of unequal width if need be, change places."""
    low = bits // 2
    high = bits - low
    left, right = value >> low, value & ((1 << low) - 1)
    for key in keys:
        mixed = ((right + key) * MIX) & MASK
        mixed ^= mixed >> 29
        left, right = right, left ^ ((mixed * MIX >> 17) & ((1 << high) - 1))
        low, high = high, low
    return left << low | right
