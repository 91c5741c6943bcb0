"""Values and events as bytes, and back as what they were."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from peira.core.codec import CODECS, decode, pack, unpack
from peira.core.ids import canonical, normalise

number = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False, width=64)
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
value = st.recursive(
    st.one_of(st.none(), st.booleans(), number, text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=8,
)


@given(value)
@example(1e20)
@example([-(2.0**53), {"x": 3.893201517961435e16}])
@example("12345678901234567890")
def test_a_recorded_value_comes_back_as_it_was(value: Any) -> None:
    """Also a whole float beyond 2^53: canonical JSON writes it like an integer, and it is none."""
    plain = normalise(value)
    assert repr(sort(normalise(decode(canonical(plain))))) == repr(sort(plain))


def sort(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sort(value[key]) for key in sorted(value)}
    return [sort(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=3000))
def test_packing_loses_nothing(codec: str, data: bytes) -> None:
    assert unpack(pack(data, codec), codec) == data


def claiming(size: int, data: bytes = b"x") -> bytes:
    """A compressed payload whose header claims this size."""
    frame = pack(data * 300, "zstd")
    assert frame[4] >> 6 == 1  # the size has two bytes, after the descriptor: it is given eight
    return frame[:4] + bytes([frame[4] | 0xC0]) + size.to_bytes(8, "little") + frame[7:]


@pytest.mark.parametrize("size", [299, 301, 2**20, 2**40, 2**62])
def test_a_damaged_header_takes_no_memory(size: int) -> None:
    """It claimed terabytes, and they were allocated."""
    tracemalloc.start()
    with pytest.raises((zstandard.ZstdError, MemoryError)) as refused:
        unpack(claiming(size), "zstd")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.type is zstandard.ZstdError
    assert most < 2**24


def test_what_is_compressed_by_far_comes_back() -> None:
    data = b"\0" * 5_000_000
    assert unpack(pack(data, "zstd"), "zstd") == data
    with pytest.raises(zstandard.ZstdError):
        unpack(pack(data, "zstd")[:-4], "zstd")
