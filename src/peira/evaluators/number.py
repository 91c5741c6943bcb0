"""The evaluator `numeric`: the last number in an output against the number that is expected.

Numbers are read and compared as decimals, so that 0.4 is within 0.1 of 0.3.
"""

from __future__ import annotations

import math
import re
from collections import deque
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import partial
from typing import NamedTuple

from peira.core.ids import Json
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison

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


class Number(NamedTuple):
    value: Decimal
    percent: bool = False


def numeric(tolerance: float = 0.0, relative: bool = False) -> Comparison:
    """The last number in the output is the expected number, give or take `tolerance`.

    With `relative`, the tolerance is a share of the expected number. Signs, decimals (with a point),
    thousands separators (other than a plain blank), exponents, currency and percent signs are understood;
    fractions, and words that scale ("3 million"), are not. A percentage beside a plain number may mean
    either: 50% is right where 50 or 0.5 is expected. An output without a number is wrong.
    """
    if not _is_number(tolerance) or not 0 <= tolerance < math.inf:
        raise Invalid(f"numeric: tolerance={tolerance!r} is not a number of 0 or more")
    if type(relative) is not bool:
        raise Invalid(f"numeric: relative={relative!r} is not true or false")
    options = (("tolerance", tolerance), ("relative", relative))
    return Comparison("numeric", partial(_agrees, Decimal(str(tolerance)), relative), options)


def _agrees(tolerance: Decimal, relative: bool, output: Json, expected: Json) -> bool:
    meant = last_number(expected)
    if meant is None:
        raise Invalid(f"numeric needs an expected number; this case expects {expected!r}")
    said = last_number(output)
    if said is None:
        return False
    one_sided = said.percent != meant.percent
    pairs = ((a, b) for a in _readings(said, one_sided) for b in _readings(meant, one_sided))
    return any(_within(a, b, tolerance, relative) for a, b in pairs)


def _readings(number: Number, one_sided: bool) -> tuple[Decimal, ...]:
    if number.percent and one_sided:
        return number.value, ARITHMETIC.divide(number.value, Decimal(100))
    return (number.value,)


def _within(said: Decimal, meant: Decimal, tolerance: Decimal, relative: bool) -> bool:
    gap = ARITHMETIC.subtract(said, meant).copy_abs()
    return gap <= (ARITHMETIC.multiply(tolerance, meant.copy_abs()) if relative else tolerance)


def last_number(value: Json) -> Number | None:
    """A number as itself, the last number in a text, and None in anything else."""
    if _is_number(value):
        return Number(Decimal(str(value)))
    found = deque(NUMBER.finditer(value), maxlen=1) if isinstance(value, str) else ()
    return _read(found[0]) if found else None


def _read(found: re.Match[str]) -> Number:
    sign = "-" if {found["sign"], found["inner"]} & {"-", MINUS} else ""
    digits = found["digits"].replace(found["separator"] or ",", "")
    exponent = (found["exponent"] or "").replace(MINUS, "-")
    return Number(Decimal(f"{sign}{digits}{exponent}"), found["percent"] is not None)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
