"""Content-addressed bytes: small ones in the table, large ones in files beside the store.

A file is written among the drafts, synced, renamed, and its folder synced, before any row names it. A
draft that a killed process left behind is removed by the next owner.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from peira.core.codec import pack, unpack
from peira.core.failpoints import reach

LARGE = 64 * 1024
ENDINGS = {"none": "", "zstd": ".zst"}


class BlobFolder:
    def __init__(self, folder: Path, codec: str) -> None:
        self.folder = folder
        self._codec = codec
        self._drafts = folder / "drafts"
        self._writing = threading.Lock()

    def path(self, digest: str, codec: str) -> Path:
        return self.folder / digest[:2] / (digest[2:] + ENDINGS[codec])

    def write(self, digest: str, data: bytes) -> None:
        """Durable when it returns; the same digest again is only made sure of."""
        with self._writing:
            target = self._found(digest) or self._new(digest, data)
            for folder in (target.parent, self.folder, self.folder.parent):
                _sync_folder(folder)

    def _new(self, digest: str, data: bytes) -> Path:
        target, draft = self.path(digest, self._codec), self._drafts / digest
        for folder in (self._drafts, target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        _write_synced(draft, pack(data, self._codec))
        reach("blob.before_rename")
        draft.replace(target)
        reach("blob.after_rename")
        return target

    def _found(self, digest: str) -> Path | None:
        """Where its bytes are, however they were packed then."""
        return next((file for codec in ENDINGS if (file := self.path(digest, codec)).exists()), None)

    def read(self, digest: str) -> bytes:
        """Its bytes; FileNotFoundError if there are none."""
        file = self._found(digest) or self.path(digest, self._codec)
        return unpack(file.read_bytes(), "zstd" if file.suffix else "none")

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every file that is some blob's, by what its name says."""
        for file in sorted(self.folder.glob("??/*")):
            yield file.parent.name + file.name.removesuffix(".zst"), file

    def drafts(self) -> list[Path]:
        """What was begun and never finished."""
        return sorted(self._drafts.glob("*"))

    def sweep(self) -> None:
        """Remove the drafts of a dead owner."""
        for draft in self.drafts():
            draft.unlink()

    def size(self) -> int:
        return sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())


def _write_synced(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
