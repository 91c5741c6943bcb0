"""Events and values as bytes: JSON through msgspec, compact, validated on the way back."""

from __future__ import annotations

import msgspec
import zstandard

from peira.core.events import AnyEvent, Result

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(AnyEvent)
_results = msgspec.json.Decoder(Result)
_values = msgspec.json.Decoder()

encode = _encoder.encode
decode = _values.decode
decode_event = _events.decode
decode_result = _results.decode

CODECS = ("none", "zstd")


def pack(data: bytes, codec: str) -> bytes:
    return zstandard.compress(data, 3) if codec == "zstd" else data


def unpack(data: bytes, codec: str) -> bytes:
    return zstandard.decompress(data) if codec == "zstd" else data
