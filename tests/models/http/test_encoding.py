"""Content encodings: whatever a body is cut into it decodes to the same, and what is broken is kept."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.errors import Undecodable
from peira.models.http.encoding import PIECE, DecodedContent, beginning, encoding_of

MOST = 2**22


def raw_deflate(data: bytes) -> bytes:
    packed = zlib.compressobj(wbits=-15)
    return packed.compress(data) + packed.flush()


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:3]) + gzip.compress(data[3:]),
    "deflate": zlib.compress,
}


class Parts:
    """A content that comes in these parts, and how many of them were read."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts, self.read = parts, 0

    async def iter_any(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            self.read += 1
            yield part


def decoded(parts: Any, encoding: str, most: int = MOST) -> bytes:
    async def read() -> bytes:
        return b"".join([part async for part in DecodedContent(parts, encoding, most).iter_any()])

    return asyncio.run(read())


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(st.binary(max_size=300), st.sampled_from(sorted(PACKED)), st.integers(1, 40))
def test_the_same_however_it_is_cut(data: bytes, encoding: str, size: int) -> None:
    assert decoded(Parts(cut(PACKED[encoding](data), size)), encoding) == data


@given(st.binary(max_size=300), st.integers(1, 40))
def test_deflate_without_a_header(data: bytes, size: int) -> None:
    packed = raw_deflate(data)
    if packed[0] & 0x0F != 8:
        assert decoded(Parts(cut(packed, size)), "deflate") == data


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 257])
def test_many_bytes_from_few(size: int) -> None:
    assert decoded(Parts(cut(gzip.compress(bytes(size)), 100)), "gzip") == bytes(size)


@given(st.binary(max_size=300), st.sampled_from(["gzip", "br", "zstd", "gzip, br", "nonsense"]))
def test_what_cannot_be_decoded_is_there_as_it_came(data: bytes, encoding: str) -> None:
    parts = Parts(cut(b"{" + data, 7))
    with pytest.raises(Undecodable) as broken:
        decoded(parts, encoding)
    assert broken.value.raw == b"{" + data
    assert parts.read == len(parts.parts)


def test_of_what_cannot_be_decoded_no_more_is_kept_than_is_read() -> None:
    parts = Parts([b"x" * 10] * 100)
    with pytest.raises(Undecodable) as broken:
        decoded(parts, "gzip", most=55)
    assert (broken.value.raw, parts.read) == (b"x" * 56, 6)


def test_the_beginning_of_a_refusal() -> None:
    assert beginning(gzip.compress(b"no money left"), "gzip", 8) == b"no money"
    assert beginning(gzip.compress(b"no money left" * 100)[:30], "gzip", 8).startswith(b"no")
    assert beginning(b"no money left", "gzip", 8) == b"no money"
    assert beginning(b"no money left", "", 8) == b"no money"


def test_no_encoding() -> None:
    assert encoding_of({}) == encoding_of({"Content-Encoding": "Identity"}) == ""
    assert encoding_of({"Content-Encoding": " GZIP "}) == "gzip"
