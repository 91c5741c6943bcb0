"""Numbers in a text: `last_number` and `number_after`."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Literal

from peira.core.ids import Json
from peira.core.reading.numbers import ARITHMETIC, Number, is_number, last_quantity, plain, quantities
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms.extraction import Extraction, blank, one_of, text_of, yes_or_no

Percent = Literal["keep", "number", "share"]
PERCENT = ("keep", "number", "share")


def last_number(percent: Percent = "keep") -> Extraction:
    """The last number in the text, as a number: 1,234.5 and $1,234.50 are read, and 3/4 is 0.75.

    `percent` says what 50% is: "keep" leaves the text "50%", "number" makes it 50, "share" 0.5. A number that
    JSON cannot carry exactly is given as its digits.
    """
    one_of("last_number", "percent", percent, PERCENT)
    return Extraction("last_number", partial(_last, percent=percent), (("percent", percent),))


def _last(output: Json, percent: Percent) -> Json | NoAnswer:
    if is_number(output):
        return output
    return _given(last_quantity(output) if isinstance(output, str) else None, percent)


def number_after(marker: str, last: bool = True, percent: Percent = "keep") -> Extraction:
    """The first number after the last place (or, without `last`, the first) where the marker stands."""
    if blank(marker):
        raise Invalid(f"number_after: marker={marker!r} is not a text to look for")
    yes_or_no("number_after", last=last)
    one_of("number_after", "percent", percent, PERCENT)
    options = (("marker", marker), ("last", last), ("percent", percent))
    return Extraction("number_after", partial(_after, marker=marker, last=last, percent=percent), options)


def _after(output: Json, marker: str, last: bool, percent: Percent) -> Json | NoAnswer:
    text = text_of(output)
    at = text.rfind(marker) if last else text.find(marker)
    if at < 0:
        return NoAnswer(f"no {marker.strip()!r}")
    return _given(next(quantities(text[at + len(marker) :]), None), percent)


def _given(number: Number | None, percent: Percent) -> Json | NoAnswer:
    if number is None:
        return NoAnswer("no number")
    if number.percent and percent == "share":
        return plain(ARITHMETIC.divide(number.value, Decimal(100)))
    value = plain(number.value)
    return f"{value}%" if number.percent and percent == "keep" else value
