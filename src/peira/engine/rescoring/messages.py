"""What a run and its scoring processes tell each other, as MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec


class ScoringSetup(msgspec.Struct, array_like=True):
    """The evaluators of a process, pickled, with the digests that they must have there, too."""

    path: list[str]
    evaluators: list[bytes]
    digests: list[str]


class ScoringItem(msgspec.Struct, array_like=True, gc=False):
    """One output to score: the number of its evaluator, and what that takes.

    `output` is canonical JSON; `answer` says that a transform made it. `case` are the fields that agents see.
    """

    evaluator: int
    output: bytes
    answer: bool
    expected: Any = None
    case: tuple[Any, ...] | None = None


class ScoredItem(msgspec.Struct, array_like=True, gc=False):
    """The score as canonical JSON, and the seconds it took; no score if the evaluator raised."""

    score: bytes | None
    took: float = 0.0


encode = msgspec.msgpack.Encoder().encode
decode_setup = msgspec.msgpack.Decoder(ScoringSetup).decode
decode_items = msgspec.msgpack.Decoder(list[ScoringItem]).decode
decode_scores = msgspec.msgpack.Decoder(list[ScoredItem]).decode
READY = b"ready"
"""What a process says once its evaluators are there."""
