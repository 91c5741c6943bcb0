"""Content encodings of answers: decoded here, so that an answer that cannot be decoded is kept as it came."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING

from peira.errors import Undecodable

if TYPE_CHECKING:
    import aiohttp

ACCEPTED = "gzip, deflate"
"""What requests ask for."""
ENCODED = "content-encoding"
"""The header that is kept with an answer whose body could not be decoded."""
PIECE = 2**20
"""The most bytes that are decoded at once: a few bytes may stand for very many."""
_GZIP, _ZLIB, _RAW = 31, 15, -15


def encoding_of(headers: Mapping[str, str]) -> str:
    """The content encoding of an answer; "" if there is none."""
    named = headers.get("Content-Encoding", "").strip().lower()
    return "" if named == "identity" else named


class DecodedContent:
    """The content of an answer without its encoding, part by part, as `aiohttp.StreamReader` gives it.

    Raises Undecodable after the rest has been read, at most `most` bytes of it.
    """

    def __init__(self, content: aiohttp.StreamReader, encoding: str, most: int) -> None:
        self._content, self._decoder, self._most = content, Decoder(encoding), most

    async def iter_any(self) -> AsyncIterator[bytes]:
        """The decoded parts."""
        raw, broken, size = bytearray(), False, 0
        async for part in self._content.iter_any():
            raw += part[: self._most + 1 - len(raw)]
            if len(raw) > self._most and broken:
                break
            try:
                for piece in self._decoder.decode(b"" if broken else part):
                    size += len(piece)
                    yield piece
            except zlib.error:
                broken = True
        rest = b"" if broken else self._decoder.rest()
        if broken or (raw and not self._decoder.ended and not (size or rest)):
            raise Undecodable(bytes(raw))
        yield rest


class Decoder:
    """Decodes one body; zlib.error if it is broken, or in an encoding that was not asked for."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._inner: zlib._Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        """The next decoded pieces, of at most PIECE bytes each."""
        while data:
            if self._inner is None or self._inner.eof:  # gzip may consist of several members
                self._inner = zlib.decompressobj(self._window(data))
            yield self._inner.decompress(data, PIECE)
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail

    @property
    def ended(self) -> bool:
        """Whether the data came to its end; a body without its last bytes is decoded as far as it goes."""
        return self._inner is not None and self._inner.eof

    def rest(self) -> bytes:
        """What is still held back when there is no more data."""
        return b"" if self._inner is None or self._inner.eof else self._inner.flush()

    def _window(self, data: bytes) -> int:
        """The format of the data, as zlib has it."""
        if self._encoding in ("gzip", "x-gzip"):
            return _GZIP
        if self._encoding != "deflate":
            raise zlib.error(f"unknown encoding {self._encoding!r}")
        return _ZLIB if data[0] & 0x0F == 8 else _RAW


def beginning(data: bytes, encoding: str, most: int) -> bytes:
    """The beginning of a body, decoded as far as that is possible, and as it came if it is not."""
    if not encoding:
        return data[:most]
    decoded = bytearray()
    try:
        for piece in Decoder(encoding).decode(data):
            decoded += piece
            if len(decoded) >= most:
                break
    except zlib.error:
        return bytes(decoded[:most]) or data[:most]
    return bytes(decoded[:most])
