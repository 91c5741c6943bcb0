"""Text that is safe to print: what a model, a file or a user wrote must not steer the terminal."""

from __future__ import annotations

import re

_UNSAFE = (  # a text, which `re` compiles with the first that may hold one of these
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed: C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, embeddings and overrides of text direction
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff"  # lone surrogates, which no terminal's encoding can carry
    "\U000e0000-\U000e007f]"  # tags: invisible copies of ASCII
)


def printable(text: str) -> str:
    """The text with every character that could steer a terminal written as its escape sequence in Python.

    Tabs, line feeds and everything that only shows (accents, joiners of emoji) stay as they are.
    """
    if text.isascii() and text.replace("\n", "").isprintable():  # as most are
        return text
    return re.sub(_UNSAFE, lambda found: repr(found[0])[1:-1], text)


def printable_json(document: str) -> str:
    """The same JSON document: such characters stand only inside strings, where JSON can escape them."""
    return re.sub(_UNSAFE, _escape, document)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
