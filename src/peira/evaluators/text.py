"""Evaluators of text: `exact`, `match`, `includes` and `regex`.

Each is a function that creates an evaluator. An output that is not text is converted to its canonical JSON
(`True` becomes `true`, 1.0 becomes `1`), except by `exact`, which compares values.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Any, Literal
from unicodedata import category, normalize

from peira.core.ids import Json, canonical, normalise
from peira.core.registry import nearest
from peira.core.text.patterns import compiled, search
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, text_of

Where = Literal["whole", "start", "end", "word"]
WHERE = ("whole", "start", "end", "word")

# What wraps or ends a phrase; `#`, `+`, `%` and `-` carry meaning ("C#", "5%", "-5") and stay.
WRAPPING = frozenset(" \"'`()[]{}<>*_~.,;:!?")

# A number is found whole: 5 is neither in 15, nor in 5.3, nor in -5.
BEFORE = r"(?<!\w)(?<!\d[.,])"
BEFORE_DIGIT = BEFORE + r"(?<![-\u2212.])"
AFTER = r"(?!\w)"
AFTER_DIGIT = AFTER + r"(?![.,]\d)"


def exact() -> Comparison:
    """Equal as JSON values: 1 equals 1.0 and a list equals a tuple, but True is not 1 and "1" is not 1."""
    return Comparison("exact", _equal)


def _equal(output: Json, expected: Json) -> bool:
    if isinstance(output, str) and isinstance(expected, str):
        return output == expected
    return canonical(normalise(output, "output")) == canonical(normalise(expected, "expected"))


def match(where: Where = "whole") -> Comparison:
    """Equal as text, ignoring case, surrounding and repeated whitespace, and surrounding punctuation.

    `where` says which part of the output must match: the "whole", its "start", its "end", or a "word" (or
    several) anywhere in it. The last three match whole words and numbers only: "no" is not the start of
    "nothing", and "5" is not a word of "5.3".
    """
    if where not in WHERE:
        raise Invalid(f"match: where={where!r}{nearest(str(where), WHERE)}")
    return Comparison("match", partial(_matches, where=where), (("where", where),))


def _matches(output: Json, expected: Json, where: Where) -> bool:
    said, meant = _phrase(text_of(output)), _phrase(text_of(expected))
    if where == "whole":
        return said == meant
    if not meant:
        raise Invalid(f'match needs some expected text with where="{where}"; this case expects none')
    return _finder(meant, where).search(said) is not None


@lru_cache(maxsize=4096)
def _finder(phrase: str, where: Where) -> re.Pattern[str]:
    """The pattern that finds a phrase at a position, at word and number boundaries."""
    before = BEFORE_DIGIT if phrase[0].isdigit() else BEFORE
    after = AFTER_DIGIT if phrase[-1].isdigit() else AFTER
    return re.compile(
        {
            "start": rf"\A{re.escape(phrase)}{after}",
            "end": rf"{before}{re.escape(phrase)}\Z",
            "word": rf"{before}{re.escape(phrase)}{after}",
        }[where]
    )


def _phrase(text: str) -> str:
    """The normalised text without surrounding punctuation; all of it if it is only punctuation."""
    plain = " ".join(_caseless(text).split())
    start, end = 0, len(plain)
    while end and _wraps(plain[end - 1]):
        end -= 1
    while start < end and _wraps(plain[start]) and not _decimal_point(plain, start):
        start += 1
    return plain[start:end] or plain


def _wraps(char: str) -> bool:
    return char in WRAPPING if char.isascii() else category(char) in ("Ps", "Pe", "Pi", "Pf", "Po")


def _decimal_point(text: str, at: int) -> bool:
    return text[at] in ".," and text[at + 1 : at + 2].isdigit()


def _caseless(text: str) -> str:
    # Composed forms on both sides: "é" typed as one character or as two is the same letter.
    return text.lower() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


def includes(ignore_case: bool = True) -> Comparison:
    """The output contains the expected text, or any of an expected list of texts."""
    if not isinstance(ignore_case, bool):
        raise Invalid(f"includes: ignore_case={ignore_case!r} is not true or false")
    return Comparison(
        "includes", partial(_contains, ignore_case=ignore_case), (("ignore_case", ignore_case),)
    )


def _contains(output: Json, expected: Json, ignore_case: bool) -> bool:
    wanted = [text_of(one) for one in (expected if isinstance(expected, list | tuple) else [expected])]
    if not wanted or not all(wanted):
        raise Invalid("includes needs some expected text; the empty text is in every output")
    said = text_of(output)
    if ignore_case:
        said, wanted = _caseless(said), [_caseless(one) for one in wanted]
    return any(one in said for one in wanted)


def regex(pattern: str | None = None, group: int | str | None = None) -> Comparison:
    """The pattern matches somewhere in the output.

    Without a pattern, the expected value is the pattern. With a `group`, what that group captured in the
    first match must equal the expected text, compared like `match()`. Flags are inline: `(?i)` ignores case.
    """
    options = (("pattern", pattern), ("group", group))
    if pattern is None:
        if group is not None:
            raise Invalid("regex: a group needs a pattern to be captured by")
        return Comparison("regex", _found_expected, options)
    found = compiled(pattern, "regex")
    if group is None:
        return Comparison("regex", partial(_found, found), options, needs_expected=False)
    if group not in found.groupindex and group not in range(found.groups + 1):
        raise Invalid(f"regex: the pattern {pattern!r} has no group {group!r}")
    return Comparison("regex", partial(_captured, found, group), options)


def _found_expected(output: Json, expected: Json) -> bool:
    return _found(compiled(expected, "regex"), output)


def _found(pattern: Any, output: Json, _expected: Json = None) -> bool:
    return search(pattern, text_of(output)) is not None


def _captured(pattern: Any, group: int | str, output: Json, expected: Json) -> bool:
    found = search(pattern, text_of(output))
    return found is not None and _matches(found[group] or "", expected, "whole")
