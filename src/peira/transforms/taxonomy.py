"""`error_taxonomy`: the kind of an output, by heuristics meant for counting what goes wrong."""

from __future__ import annotations

import re

from peira.core.ids import Json
from peira.core.text.answers import refuses
from peira.transforms.blocks import FENCE
from peira.transforms.extraction import Extraction

KINDS = ("empty", "error", "refusal", "repetitive", "truncated", "answer")

ERROR = re.compile(
    r"\s{0,50}(?:traceback \(most recent call last\)|\w{0,40}(?:error|exception|fatal)\s?:|<!doctype html|"
    r"(?:http )?(?:error )?[45]\d\d (?:bad|unauth|forbidden|not found|too many|internal|service|gateway))",
    re.IGNORECASE,
)
LOOP, TAIL = 60, 400
LONG = 200
ENDINGS = ".!?)]}>\"'`*|:;~$%\u2026\u3002\uff01\uff1f\u201d\u2019"


def error_taxonomy() -> Extraction:
    """The kind of output, as a text: empty, error, refusal, repetitive, truncated, or else answer.

    The first that applies. error: an error message in place of an answer; refusal: by its wording;
    repetitive: it ends in a loop; truncated: a code fence left open, or a long text that ends within a
    sentence.
    """
    return Extraction("error_taxonomy", _kind)


def _kind(output: Json) -> str:
    """The kind of an output."""
    if not isinstance(output, str):
        return _kind_of_value(output)
    if not output.strip():
        return "empty"
    if ERROR.match(output):
        return "error"
    if refuses(output):
        return "refusal"
    if _loops(output):
        return "repetitive"
    return "truncated" if _breaks_off(output) else "answer"


def _kind_of_value(output: Json) -> str:
    """The kind of an output that is not text."""
    if output is None or output in ([], {}):
        return "empty"
    return "error" if isinstance(output, dict) and output.get("error") else "answer"


def _loops(text: str) -> bool:
    """Whether the text ends in repetitions of a short piece."""
    tail = text.rstrip()[-TAIL:]
    return len(tail) == TAIL and any(tail[period:] == tail[:-period] for period in range(1, LOOP + 1))


def _breaks_off(text: str) -> bool:
    """Whether the text seems to be cut off."""
    fences = sum(FENCE.fullmatch(line.rstrip()) is not None for line in text.split("\n"))
    end = text.rstrip()
    return fences % 2 == 1 or (
        len(end) >= LONG and end[-1] not in ENDINGS and not end.split("\n")[-1].isspace()
    )
