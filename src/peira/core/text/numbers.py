"""Parsing numbers as people write them, as exact decimals: 0.1 is a tenth, and no digit is lost."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import NamedTuple, TypeGuard

from peira.core.ids import MAX_INT, Json

MINUS = "\u2212"
NUMBER = re.compile(
    r"""
    (?P<sign> (?<! [\w.)%] ) [-+\u2212] )?          # 3-5 is two numbers, not 3 and -5
    (?: [$\u00a2-\u00a5\u20a0-\u20c0] \s? )?        # a currency sign
    (?P<inner> (?<! [\w.)%] ) [-+\u2212] )?         # $-5
    (?<! \w ) (?<! \d\. )                           # neither the 2 of H2O nor the 3 of 1.2.3
    (?P<digits>
        (?: \d{1,3} (?P<separator> [,_'\u2019\u00a0\u2009\u202f] ) \d{3}
              (?: (?P=separator) \d{3} ){0,12} (?!\d)
          | \d+ )
        (?: \.\d+ )?
      | (?<! \. ) \.\d+
    )
    (?P<exponent> [eE] [-+\u2212]? \d{1,3} (?!\d) )?
    (?P<percent> \s?% )?
    """,
    re.VERBOSE,
)
# Wide enough that no number that fits in memory overflows it.
ARITHMETIC = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN)
BLANKS = 6


class Number(NamedTuple):
    """A number found in a text, and whether it was written as a percentage."""

    value: Decimal
    percent: bool = False


def last_number(value: Json) -> Number | None:
    """The number itself, or the last number in a text; None for anything else."""
    if is_number(value):
        return Number(Decimal(str(value)))
    row = _last_row(value) if isinstance(value, str) else []
    return read(row[-1]) if row else None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is an int or a float; a bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def quantities(text: str) -> Iterator[Number]:
    """The numbers in a text in order, where 3/4 is one number; a date (3/4/2024) is three."""
    for row in _rows(text):
        yield from _quantities(row)


def last_quantity(text: str) -> Number | None:
    """The last of the quantities; None if there are none."""
    row = _last_row(text)
    return _quantities(row)[-1] if row else None


def _rows(text: str, start: int = 0) -> Iterator[list[re.Match[str]]]:
    """The numbers in a text, grouped: those with a slash between them together."""
    row: list[re.Match[str]] = []
    for found in NUMBER.finditer(text, start):
        if row and not _slash(text, row[-1], found):
            yield row
            row = []
        row.append(found)
    if row:
        yield row


def _last_row(text: str) -> list[re.Match[str]]:
    """The last group of numbers, searched near the last digit first because that is much faster."""
    start, sure = _tail(text)
    row = _last(_rows(text, start))
    if start == 0 or (row and row[0].start() > sure):
        return row
    return _last(_rows(text))


def _tail(text: str) -> tuple[int, int]:
    """Where to start the search, and after which index a group is certainly complete.

    Within a number, and between two with a slash, there are at most two blanks ("$ 5 %", "3 / 4").
    """
    places = [next((at for at in range(len(text) - 1, -1, -1) if text[at].isdecimal()), 0)]
    while len(places) <= BLANKS:
        places.append(text.rfind(" ", 0, places[-1]))
        if places[-1] < 0:
            return 0, 0
    return places[-1], places[-3]


def _last(rows: Iterator[list[re.Match[str]]]) -> list[re.Match[str]]:
    """The last of the groups; empty if there are none."""
    return next(iter(deque(rows, maxlen=1)), [])


def _slash(text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    """Whether there is only a slash, and blanks, between two numbers."""
    return right.start() - left.end() <= 3 and text[left.end() : right.start()].strip() == "/"


def _quantities(row: list[re.Match[str]]) -> list[Number]:
    """The quantities of a group: two numbers with a slash are a fraction."""
    numbers = [read(found) for found in row]
    if len(row) == 2 and numbers[1].value > 0 and not any(number.percent for number in numbers):
        return [Number(_quotient(numbers[0].value, numbers[1].value))]
    return numbers


def _quotient(numerator: Decimal, denominator: Decimal) -> Decimal:
    """The quotient, to the precision of a float."""
    exact = ARITHMETIC.divide(numerator, denominator)
    # A third has no finite decimal form: the shortest form of the nearest float stands for it.
    near = float(exact)
    return Decimal(repr(near)) if math.isfinite(near) else exact


def read(found: re.Match[str]) -> Number:
    """The number that a match of `NUMBER` stands for."""
    sign = "-" if {found["sign"], found["inner"]} & {"-", MINUS} else ""
    digits = found["digits"].replace(found["separator"] or ",", "")
    exponent = (found["exponent"] or "").replace(MINUS, "-")
    return Number(Decimal(f"{sign}{digits}{exponent}"), found["percent"] is not None)


def plain(value: Decimal) -> int | float | str:
    """The exact number as JSON: an int or a float if that is exact, else a string of its digits."""
    if -MAX_INT <= value <= MAX_INT and value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)
