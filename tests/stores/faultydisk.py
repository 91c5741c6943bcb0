"""A disk that fails at a chosen write or sync, once or from then on."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import apsw

ENOSPC = apsw.SQLITE_FULL
EIO_WRITE = apsw.SQLITE_IOERR_WRITE
EIO_SYNC = apsw.SQLITE_IOERR_FSYNC


@dataclass
class Fault:
    """`code` is what SQLite is told; the `countdown` is over writes or, for EIO_SYNC, over syncs."""

    code: int
    countdown: int = -1
    lasting: bool = True
    struck: int = 0

    def arm(self, countdown: int) -> None:
        self.countdown = countdown

    def pass_by(self, operation: str) -> None:
        if self.countdown < 0 or operation != ("sync" if self.code == EIO_SYNC else "write"):
            return
        if self.countdown > 0:
            self.countdown -= 1
            return
        self.struck += 1
        if not self.lasting:
            self.countdown = -1
        raise apsw.exception_for(self.code)


class FaultyVFS(apsw.VFS):
    def __init__(self, fault: Fault) -> None:
        self.name, self.fault = f"faulty-{uuid4().hex}", fault
        super().__init__(self.name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self.fault, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, fault: Fault, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._fault = fault
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._fault.pass_by("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._fault.pass_by("sync")
        super().xSync(flags)
