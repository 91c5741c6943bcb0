"""Events and values as bytes: JSON through msgspec, compact, validated on the way back."""

from __future__ import annotations

import json
import re

import msgspec
import zstandard

from peira.core.events import AnyEvent, Result
from peira.core.ids import MAX_INT, Json

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(AnyEvent)
_results = msgspec.json.Decoder(Result)
_values = msgspec.json.Decoder()

encode = _encoder.encode
decode_event = _events.decode
decode_result = _results.decode

CODECS = ("none", "zstd")
_MANY_DIGITS = re.compile(rb"[0-9]{16}")


def decode(data: bytes | str) -> Json:
    """A normalised value from its canonical JSON, where a whole float beyond 2^53 looks like an integer."""
    text = data.encode() if isinstance(data, str) else data
    return json.loads(text, parse_int=_whole) if _MANY_DIGITS.search(text) else _values.decode(text)


def _whole(digits: str) -> int | float:
    number = int(digits)
    return number if -MAX_INT <= number <= MAX_INT else float(digits)


def pack(data: bytes, codec: str) -> bytes:
    return zstandard.compress(data, 3) if codec == "zstd" else data


def unpack(data: bytes, codec: str) -> bytes:
    return zstandard.decompress(data) if codec == "zstd" else data
