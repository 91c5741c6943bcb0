"""What a judge says, and the verdict that is none.

A judge that was asked and whose answer cannot be read, however often it is asked again, gives a `NoVerdict`:
neither a failure (everything that was asked for was done, and paid) nor a low score. It enters no mean and is
counted apart. Three kinds of words may stand in a score of several values beside what is measured: a `reason`
is to be read and no category; `raw` is a value on the judge's own scale; `value` stands for the whole.
"""

from __future__ import annotations

import msgspec

from peira.core.ids import Json

KEY = "no_verdict"
VALUE, RAW, REASON = "value", "raw", "reason"


class NoVerdict(msgspec.Struct, frozen=True, gc=False):
    """A judge came to no verdict; `reason` says in a few words why.

    Equal only to another with the same reason, and no JSON: it is recorded by `to_json` as
    {"no_verdict": reason}, which no score may be.
    """

    reason: str

    def __str__(self) -> str:
        return f"no verdict: {self.reason}"


def to_json(verdict: NoVerdict) -> Json:
    return {KEY: verdict.reason}


def no_verdict(score: Json) -> NoVerdict | None:
    """The `NoVerdict` that was recorded as this score, if it was one."""
    if isinstance(score, dict) and len(score) == 1 and KEY in score:
        return NoVerdict(score[KEY])
    return None


def is_reason(key: str) -> bool:
    """Whether what stands under this key of a score is there to be read: "reason", or "NAME.reason"."""
    return key == REASON or key.endswith(f".{REASON}")


def is_raw(key: str) -> bool:
    """Whether what stands under this key is on the judge's own scale: "raw", or "NAME.raw"."""
    return key == RAW or key.endswith(f".{RAW}")
