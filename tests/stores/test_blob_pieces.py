"""Blobs that are stored and read in pieces are those that are stored and read as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira.core.contracts import StreamsBlobs
from peira.core.ids import digest_bytes
from peira.errors import StoreDamaged, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore

SIZES = [0, 10, 70_000, 3_000_000]


def pieces_of(data: bytes) -> list[bytes]:
    return [data[at : at + 50_000] for at in range(0, len(data), 50_000)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_blob_in_pieces_is_the_blob(tmp_path: Path, size: int, compression: str) -> None:
    data = b"".join(b"%d," % n for n in range(size))[:size]
    store = SqliteStore(tmp_path / "s.db", compression=compression)
    assert isinstance(store, StreamsBlobs)
    digest = store.put_pieces(lambda: pieces_of(data))
    assert digest == store.put(data) == digest_bytes(data)
    assert b"".join(store.get_pieces(digest)) == store.get(digest) == data
    store.close()
    store = SqliteStore(tmp_path / "whole.db", compression=compression)
    assert store.put(data) == digest
    assert b"".join(store.get_pieces(digest)) == data
    store.close()


def test_pieces_of_a_damaged_blob_end_with_the_damage(tmp_path: Path) -> None:
    data = b"".join(b"%d," % n for n in range(500_000))
    store = SqliteStore(tmp_path / "s.db", compression="none")
    digest = store.put(data)
    [file] = [path for path in tmp_path.rglob("*") if path.name == digest[2:]]
    file.write_bytes(data.replace(b"77,", b"78,", 1))
    found = store.get_pieces(digest)
    assert next(found)
    with pytest.raises(StoreDamaged, match="do not match it"):
        list(found)
    with pytest.raises(Unknown):
        list(store.get_pieces("ab" * 32))
    store.close()


def test_not_every_store_has_pieces() -> None:
    assert not isinstance(MemoryStore(), StreamsBlobs)
