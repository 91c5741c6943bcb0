"""Remembered tables as files, each a digest and what it is of. One that is not whole is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from peira.analysis.remembering import Asked, Tabled
from peira.core.ids import digest_bytes

MOST_FILES = 128


class Kept(msgspec.Struct, frozen=True):
    mark: str
    asked: Asked
    run: str
    tabled: Tabled


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


def read_kept(file: Path) -> Kept | None:
    """What is kept there; None if there is nothing, or it is not whole."""
    try:
        data = file.read_bytes()
        return _decode(data[64:]) if digest_bytes(data[64:]).encode() == data[:64] else None
    except (OSError, msgspec.DecodeError):
        return None


def write_kept(file: Path, kept: Kept) -> None:
    data = _encode(kept)
    try:
        file.parent.mkdir(exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".draft-", dir=file.parent)
        with os.fdopen(handle, "wb") as writing:
            writing.write(digest_bytes(data).encode() + data)
        os.replace(draft, file)
        _forget(file.parent)
    except OSError:
        return  # whoever may not write here reads again


def _forget(folder: Path) -> None:
    """Keep the newest."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in files[MOST_FILES:]:
        old.unlink(missing_ok=True)
