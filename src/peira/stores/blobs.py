"""Content-addressed blobs in files beside the store; small blobs are in the table instead.

A file is written in the folder of drafts, synced, renamed, and its folder synced, before any row refers to
it. A draft that a killed process left behind is removed by the next owner.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from peira.core.codec import PIECE, in_pieces, packed, unpack, unpacked
from peira.core.failpoints import reach

LARGE = 64 * 1024
ENDINGS = {"none": "", "zstd": ".zst"}
MARKER = "peira-store"
"""The name that says whose blobs these are."""


class LargeBlobs(Protocol):
    """Where a store keeps its large blobs, outside its tables."""

    where: str

    def write(self, digest: str, data: bytes) -> None:
        """Write a blob unless it exists; durable when it returns. OSError if that is not possible."""
        ...

    def read(self, digest: str) -> bytes:
        """The bytes of a blob; FileNotFoundError if there is none."""
        ...

    def reserve(self, store: str) -> str:
        """Mark the place as this store's; the store that it belongs to."""
        ...

    def digests(self) -> Iterator[str]:
        """Every blob that is there."""
        ...

    def remove(self, digest: str) -> None:
        """Delete a blob."""
        ...

    def unfinished(self) -> list[tuple[str, int]]:
        """Name and size of what was begun and never finished."""
        ...

    def sweep(self) -> None:
        """Remove what a dead owner did not finish."""
        ...


class StoredBlob(bytes):
    """Stands in an op for a large blob that is stored already, outside the tables; its bytes are empty."""

    digest: bytes
    size: int

    @classmethod
    def of(cls, digest: str, size: int) -> StoredBlob:
        """The blob of this digest."""
        made = cls()
        made.digest, made.size = bytes.fromhex(digest), size
        return made


class BlobFolder:
    """The folder of blob files of a store; writes are serialised by a lock."""

    def __init__(self, folder: Path, codec: str, writer: str = "") -> None:
        """`writer` is part of the names of drafts, where several processes write at the same time."""
        self.folder, self.where = folder, str(folder)
        self._codec, self._writer = codec, writer
        self._drafts = folder / "drafts"
        self._writing = threading.Lock()

    def compress(self, codec: str) -> None:
        """Compress what is written from now on like this."""
        self._codec = codec

    def path(self, digest: str, codec: str) -> Path:
        """The path of a blob with this codec."""
        return self.folder / digest[:2] / (digest[2:] + ENDINGS[codec])

    def write(self, digest: str, data: bytes) -> None:
        """Write a blob; durable when it returns. If it exists already, only its folders are synced."""
        self.write_pieces(digest, in_pieces(data), len(data))

    def write_pieces(self, digest: str, pieces: Iterable[bytes | memoryview], size: int) -> None:
        """The same for a blob that comes in pieces, and has so many bytes."""
        with self._writing:
            target = self._found(digest) or self._new(digest, pieces, size)
            for folder in (target.parent, self.folder, self.folder.parent):
                sync_folder(folder)

    def _new(self, digest: str, pieces: Iterable[bytes | memoryview], size: int) -> Path:
        """Write a new blob by way of a draft, and return its path."""
        target, draft = self.path(digest, self._codec), self._drafts / f"{digest}{self._writer}"
        for folder in (self._drafts, target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        _write_synced(draft, packed(pieces, size, self._codec))
        reach("blob.before_rename")
        draft.replace(target)
        reach("blob.after_rename")
        return target

    def _found(self, digest: str) -> Path | None:
        """The path of a blob, whatever its codec; None if there is none."""
        return next((file for codec in ENDINGS if (file := self.path(digest, codec)).exists()), None)

    def read(self, digest: str) -> bytes:
        """The bytes of a blob; FileNotFoundError if there is none."""
        file = self._found(digest) or self.path(digest, self._codec)
        return unpack(file.read_bytes(), "zstd" if file.suffix else "none")

    def read_pieces(self, digest: str) -> Iterator[bytes]:
        """The bytes of a blob in pieces; FileNotFoundError if there is none."""
        path = self._found(digest) or self.path(digest, self._codec)
        with path.open("rb") as file:
            yield from unpacked(iter(partial(file.read, PIECE // 8), b""), "zstd" if path.suffix else "none")

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every blob file, with the digest that its name says."""
        for file in sorted(self.folder.glob("??/*")):
            yield file.parent.name + file.name.removesuffix(".zst"), file

    def drafts(self) -> list[Path]:
        """Unfinished files."""
        return sorted(self._drafts.glob("*"))

    def reserve(self, store: str) -> str:
        """Mark the folder as this store's; the store that it belongs to."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft, marker = self.folder / f"{MARKER}{self._writer}", self.folder / MARKER
        try:
            _write_synced(draft, [store.encode()])
            with suppress(FileExistsError):
                marker.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(self.folder)
        return marker.read_text()

    def digests(self) -> Iterator[str]:
        """Every blob that is there."""
        return (digest for digest, _ in self.files())

    def remove(self, digest: str) -> None:
        """Delete a blob."""
        for codec in ENDINGS:
            self.path(digest, codec).unlink(missing_ok=True)

    def unfinished(self) -> list[tuple[str, int]]:
        """Name and size of each draft."""
        return [(draft.name, draft.stat().st_size) for draft in self.drafts()]

    def sweep(self) -> None:
        """Remove the drafts of a dead owner."""
        for draft in self.drafts():
            draft.unlink()

    def size(self) -> int:
        """The bytes of all files."""
        return sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())


def _write_synced(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file and sync it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(path: Path) -> None:
    """Sync a folder, so that renames in it are durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
