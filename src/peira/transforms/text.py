"""Parts of a text, and the text made plain: `identity`, `regex`, `first_line`, `last_line`, `normalise`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from unicodedata import category, normalize

from peira.core.ids import Json
from peira.core.reading.patterns import compiled, search
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms.extraction import Extraction, text_of, yes_or_no

ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


def identity() -> Extraction:
    """The output as it is."""
    return Extraction("identity", _same)


def _same(output: Json) -> Json:
    return output


def regex(pattern: str, group: int | str | None = None) -> Extraction:
    """What a group captured at the first place where the pattern is found.

    Without a `group`, the first group, or the whole match of a pattern that has none. A group that took no
    part in the match is no answer. Flags are written in the pattern: `(?i)` ignores case.
    """
    made = compiled(pattern, "regex")
    if group is not None and group not in made.groupindex and group not in range(made.groups + 1):
        raise Invalid(f"regex: the pattern {pattern!r} has no group {group!r}")
    which = min(1, made.groups) if group is None else group
    return Extraction("regex", partial(_captured, made, which), (("pattern", pattern), ("group", group)))


def _captured(pattern: Any, group: int | str, output: Json) -> Json | NoAnswer:
    found = search(pattern, text_of(output))
    if found is None or found[group] is None:
        return NoAnswer("the pattern is not found")
    return found[group]


def first_line() -> Extraction:
    """The first line that is not blank, without the blanks around it."""
    return Extraction("first_line", partial(_line, at=0))


def last_line() -> Extraction:
    """The last line that is not blank, without the blanks around it."""
    return Extraction("last_line", partial(_line, at=-1))


def _line(output: Json, at: int) -> str | NoAnswer:
    lines = text_of(output).strip().splitlines()
    return lines[at].strip() if lines else NoAnswer("empty")


def normalise(
    case: bool = True, whitespace: bool = True, punctuation: bool = True, articles: bool = True
) -> Extraction:
    """The text without case, surplus blanks, punctuation, and English articles; each can be kept.

    Letters are composed, so that one way of typing "é" is like the other. A sign before a number and what
    stands between digits (-3.5, 1,000, 3/4) are no punctuation, nor are symbols ($, +, =). A text of which
    nothing is left is no answer.
    """
    options = {"case": case, "whitespace": whitespace, "punctuation": punctuation, "articles": articles}
    yes_or_no("normalise", **options)
    return Extraction("normalise", partial(_normalised, **options), tuple(options.items()))


def _normalised(
    output: Json, case: bool, whitespace: bool, punctuation: bool, articles: bool
) -> str | NoAnswer:
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
    if category(text[at])[0] != "P":
        return False
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    within = text[at] in ".,:/" and before.isdigit()
    leading = text[at] in "-." and not before.isalnum()
    return not (after.isdigit() and (within or leading))
