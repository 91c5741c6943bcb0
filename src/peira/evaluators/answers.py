"""Evaluators of answers of a known form: `numeric`, `choice`, `multi_label` and `refusal`.

Numbers are read and compared as decimals, so that 0.4 is within 0.1 of 0.3.
"""

from __future__ import annotations

import math
import re
import string
from decimal import Decimal
from functools import partial

from peira.core.ids import Json
from peira.core.text.answers import choice_in, refuses
from peira.core.text.numbers import ARITHMETIC, Number, is_number, last_number
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, text_of


def numeric(tolerance: float = 0.0, relative: bool = False) -> Comparison:
    """The last number in the output equals the expected number, within `tolerance`.

    With `relative`, the tolerance is a fraction of the expected number. Signs, decimals (with a point),
    thousands separators (other than a plain space), exponents, currency and percent signs are recognised;
    fractions, and scaling words ("3 million"), are not. If only one of the two numbers is a percentage, both
    readings are accepted: 50% is right where 50 or 0.5 is expected. An output without a number is wrong.
    Raises `Invalid` for invalid options.
    """
    if not is_number(tolerance) or not 0 <= tolerance < math.inf:
        raise Invalid(f"numeric: tolerance={tolerance!r} is not a number of 0 or more")
    if type(relative) is not bool:
        raise Invalid(f"numeric: relative={relative!r} is not true or false")
    options = (("tolerance", tolerance), ("relative", relative))
    return Comparison("numeric", partial(_agrees, Decimal(str(tolerance)), relative), options)


def _agrees(tolerance: Decimal, relative: bool, output: Json, expected: Json) -> bool:
    """Whether any reading of the output's number is within the tolerance of the expected one."""
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
    """The values a number may stand for; a one-sided percentage has two."""
    if number.percent and one_sided:
        return number.value, ARITHMETIC.divide(number.value, Decimal(100))
    return (number.value,)


def _within(said: Decimal, meant: Decimal, tolerance: Decimal, relative: bool) -> bool:
    gap = ARITHMETIC.subtract(said, meant).copy_abs()
    return gap <= (ARITHMETIC.multiply(tolerance, meant.copy_abs()) if relative else tolerance)


SEPARATORS = re.compile(r"[,;\n]")
AROUND = " \t\r\n\"'`()[]{}<>*_.:!?-"


def choice(letters: str = "ABCDE") -> Comparison:
    """The output names the expected choice: a letter, or the index of a choice, counted from 0.

    The output is parsed like the transform `choice_letter` does; an output that names no choice is wrong.
    """
    if not letters or len(set(letters)) < len(letters) or not set(letters) <= set(string.ascii_uppercase):
        raise Invalid(f"choice: letters={letters!r} are not different letters in upper case")
    return Comparison("choice", partial(_chosen, letters), (("letters", letters),))


def _chosen(letters: str, output: Json, expected: Json) -> bool:
    meant = _meant(letters, expected)
    if meant is None:
        raise Invalid(f"choice needs one of {', '.join(letters)}; this case expects {expected!r}")
    said = choice_in(text_of(output), letters)
    return not isinstance(said, NoAnswer) and said == meant


def _meant(letters: str, expected: Json) -> str | None:
    """The expected letter; None if the expected value is not a choice."""
    if type(expected) is int:
        return letters[expected] if 0 <= expected < len(letters) else None
    letter = text_of(expected).strip(AROUND).upper()
    return letter if len(letter) == 1 and letter in letters else None


def multi_label() -> Comparison:
    """Agreement with the expected set of labels: f1, precision, recall, and equality (exact).

    Labels are a list, or a text separated by commas, semicolons or newlines; case, order and repetition are
    ignored. No labels where none are expected agree fully.
    """
    nothing = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "exact": False}
    return Comparison("multi_label", _agreement, no_answer=nothing)


def _agreement(output: Json, expected: Json) -> dict[str, float | bool]:
    said, meant = _labels(output), _labels(expected)
    both = len(said & meant)
    precision = both / len(said) if said else float(not meant)
    recall = both / len(meant) if meant else float(not said)
    f1 = 2 * both / (len(said) + len(meant)) if said or meant else 1.0
    return {"f1": f1, "precision": precision, "recall": recall, "exact": said == meant}


def _labels(value: Json) -> frozenset[str]:
    """The set of normalised labels."""
    given = value if isinstance(value, list | tuple) else SEPARATORS.split(text_of(value))
    plain = (" ".join(text_of(one).strip(AROUND).casefold().split()) for one in given)
    return frozenset(label for label in plain if label)


def refusal() -> Comparison:
    """True if the output is a refusal by its wording, from a list of English phrases.

    It misses refusals in other words. For a reliable rate, have a sample of outputs labelled by people.
    """
    return Comparison("refusal", _refuses, needs_expected=False, no_answer=None)


def _refuses(output: Json, _expected: Json) -> bool:
    return refuses(text_of(output))
