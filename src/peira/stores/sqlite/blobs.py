"""Content-addressed bytes: small ones in the table, large ones in files beside the store.

A file is written under another name, synced, renamed, and its folder synced, before any row names it.
"""

from __future__ import annotations

import os
from pathlib import Path

from peira.core.failpoints import reach

LARGE = 64 * 1024


class BlobFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def write(self, digest: str, data: bytes) -> None:
        """Durable when it returns; the same digest again is nothing to do."""
        target = self.path(digest)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        _write_synced(draft, data)
        reach("blob.before_rename")
        draft.replace(target)
        reach("blob.after_rename")
        for folder in (target.parent, self.folder, self.folder.parent):
            _sync_folder(folder)

    def read(self, digest: str) -> bytes:
        return self.path(digest).read_bytes()

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
