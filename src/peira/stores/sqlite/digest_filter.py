"""Which ids a table does not hold, known without asking it: a bitmap that every new id leaves a mark in.

Most ids that are looked up are new, each at least twice: by the engine, to learn that nothing is recorded of
it, and by the writer, which adds its row. An index of random ids answers that from pages all over the disk.
An id without a mark is in no row; one with a mark may be, and is looked up as ever.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from tempfile import mkstemp

import apsw

SIZE = 2**24
"""The number of bits; the first six digits of an id, which is a digest, say which one is its own."""
MOST = 50_000
"""Rows from which on a table is not read for its marks when it is opened: that takes longer than it saves."""


class DigestFilter:
    """The marks of one table. Marks are set before a row is committed, so that whoever can see it finds one.

    Ids are marked by whoever writes the table; any thread may look, and any process that has the file into
    which the marks were moved (`share`).
    """

    def __init__(self, bits: bytearray | mmap.mmap | None) -> None:
        """Without `bits`, every id may have a row."""
        self._bits = bits

    @classmethod
    def of_table(cls, db: apsw.Connection, table: str, column: str, most: int = MOST) -> DigestFilter:
        """With marks of the rows that a table has."""
        if db.execute(f"SELECT coalesce(max(n), 0) FROM {table}").get >= most:
            return cls(None)
        found = cls(bytearray(SIZE // 8))
        for (id,) in db.execute(f"SELECT {column} FROM {table}"):
            found.mark(id.hex())
        return found

    @classmethod
    def of_file(cls, file: int) -> DigestFilter:
        """With the marks in an open file, which others may change and see; -1 if there are none."""
        return cls(mmap.mmap(file, SIZE // 8) if file >= 0 else None)

    def share(self) -> int:
        """Move the marks into a file without a name, and return it, open; -1 if there are none. Nobody may
        mark meanwhile."""
        if self._bits is None:
            return -1
        file, name = mkstemp(prefix="peira-")
        os.unlink(name)
        os.truncate(file, SIZE // 8)
        bits = mmap.mmap(file, SIZE // 8)
        bits[:] = bytes(self._bits)
        self._bits = bits
        return file

    def mark(self, id: str) -> None:
        """An id that will be in the table."""
        if self._bits is not None:
            bit = int(id[:6], 16)
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def possible(self, ids: Iterable[str]) -> list[str]:
        """Those of these ids that may be in the table."""
        if (bits := self._bits) is None:
            return list(ids)
        return [id for id in ids if bits[(bit := int(id[:6], 16)) >> 3] >> (bit & 7) & 1]
