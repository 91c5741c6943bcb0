"""Transforms of texts: lines, patterns, normalisation, numbers and choices.

`identity`, `regex`, `first_line`, `last_line`, `normalise`, `first_number`, `last_number`,
`number_after`, `choice_letter`.
"""

from __future__ import annotations

import re
import string
from decimal import Decimal
from functools import partial
from typing import Any, Literal
from unicodedata import category, normalize

from peira.core.ids import Json
from peira.core.text.answers import choice_in
from peira.core.text.numbers import ARITHMETIC, Number, is_number, last_quantity, plain, quantities
from peira.core.text.patterns import compiled, search
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms.extraction import Extraction, blank, one_of, text_of, yes_or_no

ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


def identity() -> Extraction:
    """The output unchanged."""
    return Extraction("identity", _same)


def _same(output: Json) -> Json:
    """The output unchanged."""
    return output


def regex(pattern: str, group: int | str | None = None) -> Extraction:
    """The text that a group captured at the first match of the pattern.

    Without a `group`, the first group, or the whole match of a pattern without groups. A group that took no
    part in the match is no answer. Flags are written in the pattern: `(?i)` ignores case. Raises Invalid for
    a bad pattern or group.
    """
    made = compiled(pattern, "regex")
    if group is not None and group not in made.groupindex and group not in range(made.groups + 1):
        raise Invalid(f"regex: the pattern {pattern!r} has no group {group!r}")
    which = min(1, made.groups) if group is None else group
    return Extraction("regex", partial(_captured, made, which), (("pattern", pattern), ("group", group)))


def _captured(pattern: Any, group: int | str, output: Json) -> Json | NoAnswer:
    """The captured text; NoAnswer without a match."""
    found = search(pattern, text_of(output))
    if found is None or found[group] is None:
        return NoAnswer("the pattern is not found")
    return found[group]


def first_line() -> Extraction:
    """The first line that is not blank, stripped."""
    return Extraction("first_line", partial(_line, at=0))


def last_line() -> Extraction:
    """The last line that is not blank, stripped."""
    return Extraction("last_line", partial(_line, at=-1))


def _line(output: Json, at: int) -> str | NoAnswer:
    """The line at this index."""
    lines = text_of(output).strip().splitlines()
    return lines[at].strip() if lines else NoAnswer("empty")


def normalise(
    case: bool = True, whitespace: bool = True, punctuation: bool = True, articles: bool = True
) -> Extraction:
    """The text without case, surplus blanks, punctuation, and English articles; each can be kept.

    Letters are composed (NFC), so that different encodings of "é" are equal. A sign before a number and marks
    between digits (-3.5, 1,000, 3/4) are not punctuation, nor are symbols ($, +, =). If nothing is left,
    there is no answer.
    """
    options = {"case": case, "whitespace": whitespace, "punctuation": punctuation, "articles": articles}
    yes_or_no("normalise", **options)
    return Extraction("normalise", partial(_normalised, **options), tuple(options.items()))


def _normalised(
    output: Json, case: bool, whitespace: bool, punctuation: bool, articles: bool
) -> str | NoAnswer:
    """The normalised text."""
    text, gap = normalize("NFC", text_of(output)), " " if whitespace else ""
    if case:
        text = normalize("NFC", text.casefold())
    if punctuation:
        text = "".join(gap if _punctuates(text, at) else char for at, char in enumerate(text))
    if articles:
        text = ARTICLES.sub(gap, text)
    if whitespace:
        text = " ".join(text.split())
    return text or NoAnswer("nothing is left")


def _punctuates(text: str, at: int) -> bool:
    """Whether the character is punctuation rather than part of a number."""
    if category(text[at])[0] != "P":
        return False
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    within = text[at] in ".,:/" and before.isdigit()
    leading = text[at] in "-." and not before.isalnum()
    return not (after.isdigit() and (within or leading))


Percent = Literal["keep", "number", "share"]
PERCENT = ("keep", "number", "share")


def last_number(percent: Percent = "keep") -> Extraction:
    """The last number in the text, as a number: 1,234.5 and $1,234.50 are read, and 3/4 is 0.75.

    `percent` decides about 50%: "keep" gives the text "50%", "number" gives 50, "share" 0.5. A number that
    JSON cannot represent exactly is given as its digits.
    """
    one_of("last_number", "percent", percent, PERCENT)
    return Extraction("last_number", partial(_last, percent=percent), (("percent", percent),))


def _last(output: Json, percent: Percent) -> Json | NoAnswer:
    """The last number of an output."""
    if is_number(output):
        return output
    return _given(last_quantity(output) if isinstance(output, str) else None, percent)


def first_number(percent: Percent = "keep") -> Extraction:
    """The first number in the text, as a number; it is read as by `last_number`."""
    one_of("first_number", "percent", percent, PERCENT)
    return Extraction("first_number", partial(_first, percent=percent), (("percent", percent),))


def _first(output: Json, percent: Percent) -> Json | NoAnswer:
    """The first number of an output."""
    if is_number(output):
        return output
    return _given(next(quantities(output), None) if isinstance(output, str) else None, percent)


def number_after(marker: str, last: bool = True, percent: Percent = "keep") -> Extraction:
    """The first number after the last (or, without `last`, the first) occurrence of the marker.

    `percent` is as for `last_number`.
    """
    if blank(marker):
        raise Invalid(f"number_after: marker={marker!r} is not a text to look for")
    yes_or_no("number_after", last=last)
    one_of("number_after", "percent", percent, PERCENT)
    options = (("marker", marker), ("last", last), ("percent", percent))
    return Extraction("number_after", partial(_after, marker=marker, last=last, percent=percent), options)


def _after(output: Json, marker: str, last: bool, percent: Percent) -> Json | NoAnswer:
    """The number after the marker."""
    text = text_of(output)
    at = text.rfind(marker) if last else text.find(marker)
    if at < 0:
        return NoAnswer(f"no {marker.strip()!r}")
    return _given(next(quantities(text[at + len(marker) :]), None), percent)


def _given(number: Number | None, percent: Percent) -> Json | NoAnswer:
    """A number as an answer."""
    if number is None:
        return NoAnswer("no number")
    if number.percent and percent == "share":
        return plain(ARITHMETIC.divide(number.value, Decimal(100)))
    value = plain(number.value)
    return f"{value}%" if number.percent and percent == "keep" else value


def choice_letter(letters: str = "ABCDE") -> Extraction:
    """The letter of the choice that the text names, in upper case: "(B)", "Answer: B", "the answer is b".

    The word "A" is no choice. If several choices are named, there is no answer unless the text says which one
    it is.
    """
    if blank(letters) or len(set(letters)) < len(letters) or not set(letters) <= set(string.ascii_uppercase):
        raise Invalid(f"choice_letter: letters={letters!r} are not different letters in upper case")
    return Extraction("choice_letter", partial(_letter, letters=letters), (("letters", letters),))


def _letter(output: Json, letters: str) -> str | NoAnswer:
    """The letter of the choice."""
    return choice_in(text_of(output), letters)
