"""JSON as models write it: read strictly if possible, and else mended.

What is mended: trailing and missing commas, single quotes, Python's True, False and None, line breaks within
texts, and an end that is missing. Of a text that breaks off, what was complete is kept; the value it broke
off in is not, for nobody knows its rest. One pass, whatever the text.
"""

from __future__ import annotations

import json
import re

from peira.core.ids import MAX_DEPTH, MAX_INT, Json

GAP = re.compile(r"[\s,]*+")
COLON = re.compile(r"\s*+:")
PLAIN = {'"': re.compile(r'[^"\\]*+'), "'": re.compile(r"[^'\\]*+")}
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
SCALAR = re.compile(r"[-+.\w]++")
NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][-+]?\d{1,3})?")
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


class Broken(ValueError):
    """Not JSON, and beyond repair."""


class BrokeOff(Broken):
    """The text ended within a value."""


def strict(text: str) -> Json:
    """The value of a JSON text; integers that JSON cannot carry exactly are given as their digits."""
    try:
        return json.loads(text, parse_int=_whole, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise Broken("not JSON") from None


def mended(text: str) -> Json:
    """The value that begins the text; what follows it is left aside."""
    return _Reader(text).value(0)


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) < 20 and -MAX_INT <= int(digits) <= MAX_INT else digits


def _refused(constant: str) -> Json:
    raise Broken(f"{constant} is not JSON")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def value(self, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise Broken("too deep")
        self._take(GAP)
        opening = self._next()
        if opening == "{":
            return self._object(depth)
        if opening == "[":
            return self._list(depth)
        return self._text(opening) if opening in PLAIN else self._scalar(depth)

    def _object(self, depth: int) -> dict[str, Json]:
        self.at += 1
        found: dict[str, Json] = {}
        while self._more("}"):
            try:
                key = self._key()
                found[key] = self.value(depth + 1)
            except BrokeOff:
                break
        return found

    def _list(self, depth: int) -> list[Json]:
        self.at += 1
        found: list[Json] = []
        while self._more("]"):
            try:
                found.append(self.value(depth + 1))
            except BrokeOff:
                break
        return found

    def _more(self, closing: str) -> bool:
        """Whether another item follows. The closing bracket is passed; the end of the text closes all."""
        self._take(GAP)
        if self.text[self.at : self.at + 1] == closing:
            self.at += 1
            return False
        return self.at < len(self.text)

    def _key(self) -> str:
        quote = self._next()
        if quote not in PLAIN:
            raise Broken("a key without quotes")
        key = self._text(quote)
        self._take(COLON)
        return key

    def _text(self, quote: str) -> str:
        self.at += 1
        parts = [self._take(PLAIN[quote])]
        while self._next() != quote:
            parts += _meant(self._take(ESCAPE)), self._take(PLAIN[quote])
        self.at += 1
        # Halves of a pair of surrogates, each escaped by itself, become the character they mean.
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _scalar(self, depth: int) -> Json:
        found = self._take(SCALAR)
        if depth and self.at == len(self.text):
            raise BrokeOff
        if NUMBER.fullmatch(found):
            return strict(found)
        if found not in WORDS:
            raise Broken(f"{found} is not JSON")
        return WORDS[found]

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None and self.text[self.at :].strip() in ("", "\\"):
            self.at = len(self.text)
            raise BrokeOff
        if found is None:
            raise Broken(f"not JSON at {self.at}")
        self.at = found.end()
        return found[0]

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise BrokeOff
        return self.text[self.at]


def _meant(escape: str) -> str:
    if len(escape) == 6:
        return chr(int(escape[2:], 16))
    return ESCAPES.get(escape[1], escape[1])
