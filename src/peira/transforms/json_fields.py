"""`json_field`: a field of the JSON in an output, parsed strictly if possible and else repaired.

The first part is the parsers, strict and repairing; the second finds JSON in a text, and fields in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from peira.core.ids import MAX_DEPTH, MAX_INT, Json, normalise
from peira.core.transforms import NoAnswer
from peira.errors import BrokenJson, Invalid, NotJson, TruncatedJson
from peira.transforms.blocks import blocks
from peira.transforms.extraction import Extraction, yes_or_no

GAP = re.compile(r"[\s,]*+")
COLON = re.compile(r"\s*+:")
PLAIN = {'"': re.compile(r'[^"\\]*+'), "'": re.compile(r"[^'\\]*+")}
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
SCALAR = re.compile(r"[-+.\w]++")
NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][-+]?\d{1,3})?")
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


def strict(text: str) -> Json:
    """The value of a JSON text; integers beyond the exact range are given as their digits.

    Raises BrokenJson if it is not JSON.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise BrokenJson("not JSON") from None


def repaired(text: str) -> Json:
    """The value at the start of the text, with small faults repaired; what follows it is ignored.

    Raises BrokenJson if that is not possible.
    """
    return _Reader(text).value(0)


def _whole(digits: str) -> int | str:
    """An integer, as its digits if JSON cannot represent it exactly."""
    return int(digits) if len(digits) < 20 and -MAX_INT <= int(digits) <= MAX_INT else digits


def _refused(constant: str) -> Json:
    """Raise BrokenJson for NaN and infinities."""
    raise BrokenJson(f"{constant} is not JSON")


class _Reader:
    """A recursive-descent parser that accepts common faults of models.

    Trailing or missing commas, single quotes, Python's words for constants, and text that ends early.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def value(self, depth: int) -> Json:
        """The next value."""
        if depth > MAX_DEPTH:
            raise BrokenJson("too deep")
        self._take(GAP)
        opening = self._next()
        if opening == "{":
            return self._object(depth)
        if opening == "[":
            return self._list(depth)
        return self._text(opening) if opening in PLAIN else self._scalar(depth)

    def _object(self, depth: int) -> dict[str, Json]:
        """An object; one that is cut off has the fields that are complete."""
        self.at += 1
        found: dict[str, Json] = {}
        while self._more("}"):
            try:
                key = self._key()
                found[key] = self.value(depth + 1)
            except TruncatedJson:
                break
        return found

    def _list(self, depth: int) -> list[Json]:
        """A list; one that is cut off has the items that are complete."""
        self.at += 1
        found: list[Json] = []
        while self._more("]"):
            try:
                found.append(self.value(depth + 1))
            except TruncatedJson:
                break
        return found

    def _more(self, closing: str) -> bool:
        """Whether another item follows; consumes the closing bracket, which may be missing at the end."""
        self._take(GAP)
        if self.text[self.at : self.at + 1] == closing:
            self.at += 1
            return False
        return self.at < len(self.text)

    def _key(self) -> str:
        """A quoted key and its colon."""
        quote = self._next()
        if quote not in PLAIN:
            raise BrokenJson("a key without quotes")
        key = self._text(quote)
        self._take(COLON)
        return key

    def _text(self, quote: str) -> str:
        """A string in single or double quotes."""
        self.at += 1
        parts = [self._take(PLAIN[quote])]
        while self._next() != quote:
            parts += _meant(self._take(ESCAPE)), self._take(PLAIN[quote])
        self.at += 1
        # The two halves of a surrogate pair, escaped separately, become one character.
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _scalar(self, depth: int) -> Json:
        """A number or constant; TruncatedJson if it is at the end of the text, where it may be incomplete."""
        found = self._take(SCALAR)
        if depth and self.at == len(self.text):
            raise TruncatedJson
        if NUMBER.fullmatch(found):
            return strict(found)
        if found not in WORDS:
            raise BrokenJson(f"{found} is not JSON")
        return WORDS[found]

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Consume a match of the pattern; TruncatedJson at the end of the text, else BrokenJson."""
        found = pattern.match(self.text, self.at)
        if found is None and self.text[self.at :].strip() in ("", "\\"):
            self.at = len(self.text)
            raise TruncatedJson
        if found is None:
            raise BrokenJson(f"not JSON at {self.at}")
        self.at = found.end()
        return found[0]

    def _next(self) -> str:
        """The next character, not consumed."""
        if self.at >= len(self.text):
            raise TruncatedJson
        return self.text[self.at]


def _meant(escape: str) -> str:
    """The character that an escape sequence stands for."""
    if len(escape) == 6:
        return chr(int(escape[2:], 16))
    return ESCAPES.get(escape[1], escape[1])


MOST_TRIES = 8
"""How many possible starts of a value are tried; each is parsed once, so that no text is slow."""

Path = tuple[str | int, ...]
MISSING = NoAnswer("no such field")


def json_field(path: str | Sequence[str | int], repair: bool = True) -> Extraction:
    """The value at a path ("answer", "items.0.name", or a list of keys) in the JSON of the output.

    With `repair`, JSON inside a text or a code fence is found and small faults are repaired (see `repaired`);
    the first value that has such a field counts. A field that contains null is an answer: null. The empty
    path is the whole value. Raises Invalid for bad options.
    """
    yes_or_no("json_field", repair=repair)
    steps = tuple(path.split(".") if path else ()) if isinstance(path, str) else tuple(path)
    if not all(type(step) in (str, int) for step in steps):
        raise Invalid(f"json_field: path={path!r} is not a path; write items.0.name")
    given = path if isinstance(path, str) else steps
    return Extraction("json_field", partial(_field, steps, repair), (("path", given), ("repair", repair)))


def _field(path: Path, repair: bool, output: Json) -> Json | NoAnswer:
    """The field of the first value that has it."""
    answer: Json | NoAnswer = NoAnswer("no JSON")
    for value in _values(output, repair):
        answer = _at(value, path)
        if answer is not MISSING:
            break
    try:
        return answer if isinstance(answer, NoAnswer) else normalise(answer)
    except NotJson:
        return NoAnswer("a value that JSON cannot carry")


def _values(output: Json, repair: bool) -> Iterator[Json]:
    """The possible values of the output, the most literal reading first."""
    if not isinstance(output, str):
        yield output
        return
    yield from _read(strict, output)
    if repair:
        fenced = [block.text for block in blocks(output)][-MOST_TRIES:]
        for text in (*reversed(fenced), output):
            for start in _starts(text):
                yield from _read(repaired, text[start:])


def _read(read: Callable[[str], Json], text: str) -> Iterator[Json]:
    """The value, if the text can be parsed."""
    try:
        yield read(text)
    except BrokenJson:
        return


def _starts(text: str) -> Iterator[int]:
    """Where values may start in a text."""
    for bracket in "{[":
        yield from islice((at for at, char in enumerate(text) if char == bracket), MOST_TRIES)


def _at(value: Json, path: Path) -> Json | NoAnswer:
    """The value at the path; MISSING if there is none."""
    for step in path:
        if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        else:
            return MISSING
    return value
