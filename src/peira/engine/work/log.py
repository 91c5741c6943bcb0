"""The output of a unit: its beginning in a file, its end in memory, any amount between them only counted."""

from __future__ import annotations

from pathlib import Path
from typing import IO

MOST = 4 * 2**20
"""The bytes of the beginning that are kept."""
TAIL = 64 * 2**10
"""The bytes of the end that are kept."""


class UnitLog:
    """Where both streams of a unit go; memory and disk do not grow with the output."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self._kept = path, 0, 0
        self.tail = bytearray()
        self._file: IO[bytes] = path.open("wb", buffering=0)

    def add(self, chunk: bytes, limit: int = 0) -> None:
        """Take the next bytes; nothing is refused, whatever the limit."""
        self.size += len(chunk)
        fits = chunk[: max(0, MOST - self._kept)]
        if fits:
            self._kept += self._file.write(fits) or 0
        self.tail += chunk
        del self.tail[:-TAIL]

    def close(self) -> None:
        """There is no more from this process; another may follow."""

    def end(self) -> None:
        """Nothing follows."""
        self._file.close()

    def kept(self) -> bytes:
        """Everything, or the beginning and the end with the number of bytes left out between them."""
        head = self.path.read_bytes()
        left = self.size - len(head)
        if left <= 0:
            return head
        tail = bytes(self.tail[-min(left, TAIL) :])
        out = left - len(tail)
        return head + (f"\n[... {out:,} bytes are left out here ...]\n".encode() if out else b"") + tail

    def last_line(self, most: int = 300) -> str:
        """The last line that says anything."""
        for line in reversed(bytes(self.tail[-4096:]).decode(errors="replace").splitlines()):
            if line.strip():
                return line.strip()[:most]
        return ""
