"""A disk whose power can fail: what was written and not synced may be there afterwards, or not, or in part.

Files are real, so that SQLite works as ever. Beside them is kept what is known to be on the disk, and the
writes since the last sync in sectors, of which a failure spares any. A name is certain to be there, or gone,
once its folder was synced; SQLite does that with the first sync of a new journal or log. Nothing is really
synced.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import apsw

SECTOR = 512
WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
LOST, KEPT, SOME, TORN = "lost", "kept", "some", "torn"
FATES = (LOST, KEPT, SOME, TORN)
"""Of what was not synced: nothing is left, everything, some sectors, some sectors in part."""


@dataclass(frozen=True)
class Write:
    offset: int
    data: bytes

    def sectors(self) -> list[Write]:
        """Its pieces, cut where the disk's sectors meet."""
        end = self.offset + len(self.data)
        cuts = [self.offset, *range(self.offset // SECTOR * SECTOR + SECTOR, end, SECTOR), end]
        return [Write(a, self.data[a - self.offset : b - self.offset]) for a, b in pairwise(cuts)]

    def on(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass(frozen=True)
class Cut:
    """A truncation; it happens as a whole or not at all."""

    size: int

    def sectors(self) -> list[Cut]:
        return [self]

    def on(self, content: bytearray) -> None:
        del content[self.size :]


@dataclass(frozen=True)
class Medium:
    """One file: its name and its bytes as they are on the disk for certain, and as they are meant to be."""

    certain: bytes = b""
    pending: tuple[Write | Cut, ...] = ()
    named: bool = False
    deleted: bool = False

    def after(self, fate: str, chance: random.Random) -> bytes | None:
        """Its bytes after a failure; None: there is no such file."""
        folder_kept = fate == KEPT or (fate != LOST and chance.random() < 0.5)
        if not (not self.deleted if folder_kept else self.named):
            return None
        return self.certain if fate == LOST else self._content(fate, chance)

    def _content(self, fate: str, chance: random.Random) -> bytes:
        content = bytearray(self.certain)
        reached = self.pending if fate == KEPT else self.pending[: chance.randint(0, len(self.pending))]
        for piece in (piece for change in reached for piece in change.sectors()):
            if fate == KEPT:
                piece.on(content)
            elif chance.random() < 0.5:
                _torn(piece, chance).on(content) if fate == TORN else piece.on(content)
        return bytes(content)


def _torn(piece: Write | Cut, chance: random.Random) -> Write | Cut:
    if isinstance(piece, Cut) or chance.random() < 0.5:
        return piece
    return Write(piece.offset, piece.data[: chance.randrange(len(piece.data) + 1)])


@dataclass(frozen=True)
class Moment:
    """All files at the beginning of a sync, and how much had been acknowledged by then."""

    acknowledged: int
    media: dict[str, Medium]

    def restore(self, folder: Path, fate: str, chance: random.Random) -> None:
        """Lay out what a power failure would have left."""
        for name, medium in self.media.items():
            content = medium.after(fate, chance)
            if content is not None:
                (folder / name).write_bytes(content)


@dataclass
class Disk:
    """Keeps every moment at which the power could have failed. `acknowledged` says how far things are."""

    acknowledged: Callable[[], int]
    moments: list[Moment] = field(default_factory=list)
    _media: dict[str, Medium] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def create(self, name: str) -> None:
        with self._lock:
            self._media[name] = Medium(named=name in self._media and self._media[name].named)

    def change(self, name: str, change: Write | Cut) -> None:
        with self._lock:
            old = self._media[name]
            self._media[name] = replace(old, pending=(*old.pending, change))

    def sync(self, name: str, folder: bool) -> None:
        with self._lock:
            self.mark()
            old = self._media[name]
            self._media[name] = replace(old, certain=old.after(KEPT, random.Random(0)) or b"", pending=())
            if folder:
                self._sync_folder()

    def delete(self, name: str, folder: bool) -> None:
        with self._lock:
            self._media[name] = replace(self._media[name], deleted=True)
            if folder:
                self._sync_folder()

    def _sync_folder(self) -> None:
        kept = {name: medium for name, medium in self._media.items() if not medium.deleted}
        self._media = {name: replace(medium, named=True) for name, medium in kept.items()}

    def mark(self) -> None:
        self.moments.append(Moment(self.acknowledged(), dict(self._media)))


class PowerlossVFS(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self.name, self.disk = f"powerloss-{uuid4().hex}", disk
        super().__init__(self.name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.disk.delete(Path(filename).name, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk, self._name = disk, Path(path).name if path else None
        created = path is not None and not Path(path).exists()
        self._sync_folder = created and bool(flags[0] & WITH_FOLDER)
        super().__init__("", name, flags)
        if created and self._name:
            disk.create(self._name)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._name:
            self._disk.change(self._name, Write(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        if self._name:
            self._disk.change(self._name, Cut(newsize))

    def xSync(self, flags: int) -> None:
        if self._name:
            self._disk.sync(self._name, self._sync_folder)
            self._sync_folder = False
