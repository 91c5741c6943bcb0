"""Amounts that are not known exactly: a low end, what is expected, a high end; and how they are told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

FEW = 5
"""Below so many observations their own spread is not believed."""


class Range(msgspec.Struct, frozen=True, gc=False):
    """0 <= low <= expected <= high."""

    low: float
    expected: float
    high: float

    @classmethod
    def of(cls, amount: float) -> Range:
        return cls(amount, amount, amount)

    def __add__(self, other: Range) -> Range:
        """Both together. Ends are added: what is wrong with one estimate is likely wrong with the next."""
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def times(self, n: float | Range) -> Range:
        other = n if isinstance(n, Range) else Range.of(n)
        return Range(self.low * other.low, self.expected * other.expected, self.high * other.high)

    def or_more(self, other: Range) -> Range:
        """Whichever is more, at each end."""
        return Range(max(self.low, other.low), max(self.expected, other.expected), max(self.high, other.high))

    def or_nothing(self) -> Range:
        """The same, if it may also turn out to be nothing at all."""
        return Range(0.0, self.expected, self.high)


NOTHING = Range.of(0.0)


def total(amounts: Iterable[Range | None]) -> Range | None:
    """All together; None as soon as one of them is not known."""
    result = NOTHING
    for amount in amounts:
        if amount is None:
            return None
        result = result + amount
    return result


def predicted(seen: Sequence[float], n: float) -> Range:
    """The sum of `n` more values like those seen: two standard errors of prediction to either side. Fewer
    than FEW values are taken to be wrong by half, at the least."""
    known = len(seen)
    mean = sum(seen) / known
    squares = sum((value - mean) ** 2 for value in seen)
    deviation = math.sqrt(squares / (known - 1)) if known > 1 else 0.0
    margin = 2 * deviation * math.sqrt(1 / known + 1 / max(n, 1.0))
    margin = max(margin, mean / 2) if known < FEW else margin
    return Range(max(0.0, mean - margin), mean, mean + margin).times(n)


def ends(amount: Range, said: Callable[[float], str]) -> str:
    """From the low to the high end."""
    low, high = said(amount.low), said(amount.high)
    return low if low == high else f"{low} to {high}"


def spoken(amount: Range, said: Callable[[float], str]) -> str:
    """What is expected, and from where to where it may go."""
    expected, span = said(amount.expected), ends(amount, said)
    return expected if span == expected else f"{expected} ({span})"


def dollars(amount: float) -> str:
    """Cents, or two digits of what is less than ten cents."""
    digits = 2 if not 0 < amount < 0.1 else min(6, 1 - math.floor(math.log10(amount)))
    return f"${amount:,.{digits}f}"


def whole(amount: float) -> str:
    return f"{amount:,.0f}"
