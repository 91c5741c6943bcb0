"""Numbers as people write them, read as decimals: 0.1 is a tenth, and no digit is lost.

Signs, decimals (with a point), thousands separators (other than a plain blank), exponents, currency and
percent signs are understood; words that scale ("3 million") are not.
"""

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
    value: Decimal
    percent: bool = False


def last_number(value: Json) -> Number | None:
    """A number as itself, the last number in a text, and None in anything else."""
    if is_number(value):
        return Number(Decimal(str(value)))
    row = _last_row(value) if isinstance(value, str) else []
    return read(row[-1]) if row else None


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def quantities(text: str) -> Iterator[Number]:
    """The numbers in a text in their order, where 3/4 is one number. A date (3/4/2024) is three."""
    for row in _rows(text):
        yield from _quantities(row)


def last_quantity(text: str) -> Number | None:
    """The last of the quantities."""
    row = _last_row(text)
    return _quantities(row)[-1] if row else None


def _rows(text: str, start: int = 0) -> Iterator[list[re.Match[str]]]:
    """The numbers in a text; those with a slash between them together."""
    row: list[re.Match[str]] = []
    for found in NUMBER.finditer(text, start):
        if row and not _slash(text, row[-1], found):
            yield row
            row = []
        row.append(found)
    if row:
        yield row


def _last_row(text: str) -> list[re.Match[str]]:
    """The last row. It is looked for near the last digit first: to read all numbers takes much longer."""
    start, sure = _tail(text)
    row = _last(_rows(text, start))
    if start == 0 or (row and row[0].start() > sure):
        return row
    return _last(_rows(text))


def _tail(text: str) -> tuple[int, int]:
    """Where to begin to look, and where nothing found beyond is the rest of something that began earlier:
    within a number, and between two with a slash, there are two blanks at most ("$ 5 %", "3 / 4")."""
    places = [next((at for at in range(len(text) - 1, -1, -1) if text[at].isdecimal()), 0)]
    while len(places) <= BLANKS:
        places.append(text.rfind(" ", 0, places[-1]))
        if places[-1] < 0:
            return 0, 0
    return places[-1], places[-3]


def _last(rows: Iterator[list[re.Match[str]]]) -> list[re.Match[str]]:
    return next(iter(deque(rows, maxlen=1)), [])


def _slash(text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    return right.start() - left.end() <= 3 and text[left.end() : right.start()].strip() == "/"


def _quantities(row: list[re.Match[str]]) -> list[Number]:
    numbers = [read(found) for found in row]
    if len(row) == 2 and numbers[1].value > 0 and not any(number.percent for number in numbers):
        return [Number(_quotient(numbers[0].value, numbers[1].value))]
    return numbers


def _quotient(numerator: Decimal, denominator: Decimal) -> Decimal:
    exact = ARITHMETIC.divide(numerator, denominator)
    # A third has no last digit: what a float shows of it is as good as any.
    near = float(exact)
    return Decimal(repr(near)) if math.isfinite(near) else exact


def read(found: re.Match[str]) -> Number:
    sign = "-" if {found["sign"], found["inner"]} & {"-", MINUS} else ""
    digits = found["digits"].replace(found["separator"] or ",", "")
    exponent = (found["exponent"] or "").replace(MINUS, "-")
    return Number(Decimal(f"{sign}{digits}{exponent}"), found["percent"] is not None)


def plain(value: Decimal) -> int | float | str:
    """The number as JSON has it, exactly; as its digits where JSON has no such number."""
    if -MAX_INT <= value <= MAX_INT and value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)
