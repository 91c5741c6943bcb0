"""`NoVerdict`, the score of a judge that came to no verdict, and the reserved keys of scores.

A judge that was asked and whose answer cannot be parsed, also after retries, gives a `NoVerdict`: neither a
failure (every call was made, and paid) nor a low score. It enters no mean and is counted separately. Three
keys are reserved in a score of several values: a `reason` is text for people and no category; `raw` is a
value on the judge's own scale; `value` is the overall score.
"""

from __future__ import annotations

import msgspec

from peira.core.ids import Json

KEY = "no_verdict"
VALUE, RAW, REASON = "value", "raw", "reason"


class NoVerdict(msgspec.Struct, frozen=True, gc=False):
    """A judge came to no verdict; `reason` says in a few words why.

    Equal only to another with the same reason, and not JSON: it is recorded by `to_json` as {"no_verdict":
    reason}, which no score may be.
    """

    reason: str

    def __str__(self) -> str:
        return f"no verdict: {self.reason}"


def to_json(verdict: NoVerdict) -> Json:
    """The verdict as it is recorded in place of a score."""
    return {KEY: verdict.reason}


def no_verdict(score: Json) -> NoVerdict | None:
    """The `NoVerdict` that was recorded as this score; None if it is an ordinary score."""
    if isinstance(score, dict) and len(score) == 1 and KEY in score:
        return NoVerdict(score[KEY])
    return None


def is_reason(key: str) -> bool:
    """Whether the value under this key of a score is an explanation: "reason", or "NAME.reason"."""
    return key == REASON or key.endswith(f".{REASON}")


def is_raw(key: str) -> bool:
    """Whether the value under this key is on the judge's own scale: "raw", or "NAME.raw"."""
    return key == RAW or key.endswith(f".{RAW}")


def part_of(value: Json, part: str = "") -> Json:
    """A part of a score; without a name its main one, which is "value" where a score has parts."""
    if not isinstance(value, dict):
        return value
    return value.get(part) if part else value.get(VALUE, value)
