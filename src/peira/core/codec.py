"""Events and values as bytes: compact JSON by msgspec, validated when decoded, and compression."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec
import zstandard

from peira.core.ids import MAX_INT, Json
from peira.core.log.events import AnyEvent, Result, Unreadable
from peira.errors import Unwritable

_encoder = msgspec.json.Encoder()
_results = msgspec.json.Decoder(Result)
_values = msgspec.json.Decoder()

encode = _encoder.encode
decode_result = _results.decode
decode_results = msgspec.json.Decoder(list[Result]).decode
"""Many results, as one JSON array."""

_WRONG = (msgspec.MsgspecError, ValueError, RecursionError)
_NO_EVENT = (*_WRONG, TypeError)


@cache
def _events() -> msgspec.json.Decoder[AnyEvent]:
    """The decoder of events. It knows all their classes, which takes 2 ms: a list of runs needs none."""
    return msgspec.json.Decoder(AnyEvent)


def decode_event(body: bytes) -> AnyEvent:
    """Decode an event; `Unreadable` if the bytes are not one, or are missing from a damaged row.

    Numbers may be encoded as other types: early versions stored them as the provider sent them.
    """
    if (written := decode_written(body)) is not None:
        return written
    try:
        event: AnyEvent = msgspec.json.decode(body, type=AnyEvent, strict=False)
        return event
    except _NO_EVENT as problem:
        return Unreadable(" ".join(str(problem).split())[:200])


def decode_written(body: bytes) -> AnyEvent | None:
    """An event from the bytes that this version wrote; None if they make none."""
    try:
        event: AnyEvent = _events().decode(body)
        return event
    except _NO_EVENT:
        return None


def encode_event(event: AnyEvent) -> bytes:
    """The bytes of an event; Unwritable if it could not be read from them again."""
    try:
        body = _encoder.encode(event)
        _events().decode(body)
        return body
    except _NO_EVENT as problem:
        raise Unwritable(f"{type(event).__name__} could not be read again: {problem}") from None


CODECS = ("none", "zstd")
_MANY_DIGITS = re.compile(rb"[0-9]{16}")


def decode(data: bytes | str) -> Json:
    """A normalised value from its canonical JSON.

    In canonical JSON a whole float beyond 2^53 looks like an integer; it is read back as the float it was.
    """
    text = data.encode() if isinstance(data, str) else data
    if text == b"true" or text == b"false":  # as most scores are
        return text == b"true"
    return json.loads(text, parse_int=_whole) if _MANY_DIGITS.search(text) else _values.decode(text)


def _whole(digits: str) -> int | float:
    """An integer in JSON: as int if it is in the exact range, otherwise as float."""
    number = int(digits)
    return number if -MAX_INT <= number <= MAX_INT else float(digits)


def pack(data: bytes, codec: str) -> bytes:
    """The bytes, compressed if the codec is "zstd"."""
    return zstandard.compress(data, 3) if codec == "zstd" else data


PIECE = 2**20
"""Bytes that are compressed at a time, where a whole payload would take as much memory again."""


def in_pieces(data: bytes) -> Iterator[memoryview]:
    """The bytes in pieces, none of which is copied."""
    view = memoryview(data)
    return (view[start : start + PIECE] for start in range(0, len(data), PIECE))


def packed(pieces: Iterable[bytes | memoryview], size: int, codec: str) -> Iterator[bytes | memoryview]:
    """The bytes of `pack` in pieces, of the pieces of a payload that has so many bytes."""
    if codec != "zstd":
        yield from pieces
        return
    stream = zstandard.ZstdCompressor(level=3).compressobj(size=size)
    yield from map(stream.compress, pieces)
    yield stream.flush()


MOST_WINDOW = 128 * 1024**2
"""Bytes that a compressed payload may make the decompressor keep at hand."""
USUAL_RATIO = 256


def unpack(data: bytes, codec: str) -> bytes:
    """The bytes that `pack` compressed with the same codec; ZstdError if they are damaged.

    A header may claim any size: memory is taken for what there is, not for what it claims.
    """
    if codec != "zstd":
        return data
    claimed = zstandard.frame_content_size(data)
    if 0 <= claimed <= len(data) * USUAL_RATIO:
        return zstandard.decompress(data)
    stream = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW).decompressobj()
    found = stream.decompress(data)
    if not stream.eof or claimed not in (-1, len(found)):
        raise zstandard.ZstdError(f"{len(found)} bytes, of {claimed} that its header claims")
    return found


def unpacked(pieces: Iterable[bytes], codec: str) -> Iterator[bytes]:
    """The bytes of `unpack` in pieces, of the pieces of what was compressed."""
    if codec != "zstd":
        yield from pieces
        return
    stream = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW).decompressobj()
    for piece in pieces:
        if found := stream.decompress(piece):
            yield found
        if stream.eof:
            return
    raise zstandard.ZstdError("the end is missing")
