"""Fields of JSON: `json_field`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from peira.core.ids import Json, normalise
from peira.core.transforms import NoAnswer
from peira.errors import Invalid, NotJson
from peira.transforms.blocks import blocks
from peira.transforms.extraction import Extraction, yes_or_no
from peira.transforms.repair import Broken, mended, strict

MOST_TRIES = 8
"""Places in a text where a value might begin; each is read once, so that no text is slow to read."""

Path = tuple[str | int, ...]
MISSING = NoAnswer("no such field")


def json_field(path: str | Sequence[str | int], repair: bool = True) -> Extraction:
    """The value at a path ("answer", "items.0.name", or a list of keys) in the JSON that the output is.

    With `repair`, JSON within a text or a code fence is found and small faults are mended, as
    `transforms.repair` says; the first value that has such a field counts. A field that holds null is an
    answer: null. The empty path is the whole value.
    """
    yes_or_no("json_field", repair=repair)
    steps = tuple(path.split(".") if path else ()) if isinstance(path, str) else tuple(path)
    if not all(type(step) in (str, int) for step in steps):
        raise Invalid(f"json_field: path={path!r} is not a path; write items.0.name")
    given = path if isinstance(path, str) else steps
    return Extraction("json_field", partial(_field, steps, repair), (("path", given), ("repair", repair)))


def _field(path: Path, repair: bool, output: Json) -> Json | NoAnswer:
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
    """What the output may mean, the most literal reading first."""
    if not isinstance(output, str):
        yield output
        return
    yield from _read(strict, output)
    if repair:
        fenced = [block.text for block in blocks(output)][-MOST_TRIES:]
        for text in (*reversed(fenced), output):
            for start in _starts(text):
                yield from _read(mended, text[start:])


def _read(read: Callable[[str], Json], text: str) -> Iterator[Json]:
    try:
        yield read(text)
    except Broken:
        return


def _starts(text: str) -> Iterator[int]:
    for bracket in "{[":
        yield from islice((at for at, char in enumerate(text) if char == bracket), MOST_TRIES)


def _at(value: Json, path: Path) -> Json | NoAnswer:
    for step in path:
        if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        else:
            return MISSING
    return value
