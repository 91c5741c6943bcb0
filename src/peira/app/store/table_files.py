"""Files of the table cache: each starts with its digest, so that an incomplete one is ignored."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from peira.analysis.table.value import TableQuery, TableWithDrift
from peira.core.files import write_if_possible
from peira.core.ids import digest_bytes

MOST_FILES = 128
"""The number of files to keep."""


class CachedTable(msgspec.Struct, frozen=True):
    """A table with what it was made from: `mark` is the state of the store and the code."""

    mark: str
    asked: TableQuery
    run: str
    tabled: TableWithDrift


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CachedTable).decode


def read_cached_table(file: Path) -> CachedTable | None:
    """The cached table; None if there is none, or it is damaged."""
    try:
        data = file.read_bytes()
        return _decode(data[64:]) if digest_bytes(data[64:]).encode() == data[:64] else None
    except (OSError, msgspec.DecodeError):
        return None


def write_cached_table(file: Path, kept: CachedTable) -> None:
    """Write the file atomically; does nothing if that is not permitted."""
    data = _encode(kept)
    if write_if_possible(file, digest_bytes(data).encode() + data):
        with suppress(OSError):  # another process may delete them, too
            if len(os.listdir(file.parent)) > MOST_FILES:
                _delete_old(file.parent)


def _delete_old(folder: Path) -> None:
    """Delete all but the newest files."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in files[MOST_FILES:]:
        old.unlink(missing_ok=True)
