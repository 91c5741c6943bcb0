"""The evaluator `numeric`: the last number in an output against the number that is expected.

Numbers are read and compared as decimals, so that 0.4 is within 0.1 of 0.3.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial

from peira.core.ids import Json
from peira.core.reading.numbers import ARITHMETIC, Number, is_number, last_number
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison


def numeric(tolerance: float = 0.0, relative: bool = False) -> Comparison:
    """The last number in the output is the expected number, give or take `tolerance`.

    With `relative`, the tolerance is a share of the expected number. Signs, decimals (with a point),
    thousands separators (other than a plain blank), exponents, currency and percent signs are understood;
    fractions, and words that scale ("3 million"), are not. A percentage beside a plain number may mean
    either: 50% is right where 50 or 0.5 is expected. An output without a number is wrong.
    """
    if not is_number(tolerance) or not 0 <= tolerance < math.inf:
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
