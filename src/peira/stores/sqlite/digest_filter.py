"""Which ids a table does not hold, known without asking it: a bitmap that every new id leaves two marks in.

Most ids that are looked up are new, each at least twice: by the engine, to learn that nothing is recorded of
it, and by the writer, which adds its row. An index of random ids answers that from pages all over the disk.
An id that lacks a mark is in no row; one with both may be, and is looked up as ever. Of two million ids in a
table, one in three hundred others has both.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import apsw

BITS = 26
"""A mark is one of 2**BITS bits; the first 13 digits of an id, which is a digest, say which two."""
SIZE = 2**BITS // 8
"""Bytes."""
DIGITS = 2 * BITS // 4
_LOW = 2**BITS - 1
_CHUNK = 2**16
MOST = 50_000
"""Rows from which on a table is not read for its marks when it is opened: that takes longer than it saves."""


class DigestFilter:
    """The marks of one table. Marks are set before a row is committed, so that whoever can see it finds both.

    Ids are marked by whoever writes the table; any thread may look, and any process that has the file into
    which the marks were moved (`share`).
    """

    def __init__(self, bits: mmap.mmap | None, rows: Callable[[], Iterable[Any]] | None = None) -> None:
        """Without `bits`, every id may have a row, until the first new one is marked, and the `rows` too."""
        self._bits, self._rows = bits, rows

    @classmethod
    def of_table(cls, db: apsw.Connection, table: str, column: str, most: int = MOST) -> DigestFilter:
        """With marks of the rows that a table has. It is read before the first new row is written: a run that
        finds all its trials done writes none."""
        if db.execute(f"SELECT coalesce(max(n), 0) FROM {table}").get >= most:
            return cls(None)
        return cls(None, partial(db.execute, f"SELECT {column} FROM {table}"))

    @classmethod
    def of_file(cls, file: int) -> DigestFilter:
        """With the marks in an open file, which others may change and see; -1 if there are none."""
        return cls(mmap.mmap(file, SIZE) if file >= 0 else None)

    def share(self) -> int:
        """Move the marks into a file in memory, and return it, open; -1 if there are none. Nobody may mark
        meanwhile."""
        self.mark()  # what was not read yet
        if self._bits is None:
            return -1
        file = os.memfd_create("peira-marks", os.MFD_CLOEXEC)
        os.truncate(file, SIZE)
        bits = mmap.mmap(file, SIZE)
        for start in range(0, SIZE, _CHUNK):  # most have no marks, and then need no memory
            chunk = self._bits[start : start + _CHUNK]
            if chunk.count(0) < _CHUNK:
                bits[start : start + _CHUNK] = bytes(chunk)
        self._bits = bits
        return file

    def mark(self, *new: str) -> None:
        """Ids that will be in the table. Only who writes it does this, so that none of its rows is missed."""
        bits, ids = self._bits, iter(new)
        if self._rows is not None:
            bits = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE)  # a page takes memory with its first mark
            ids = chain((id.hex() for (id,) in self._rows()), new)
        if bits is None:
            return
        for id in ids:
            both = int(id[:DIGITS], 16)
            bits[both >> BITS + 3] |= 1 << (both >> BITS & 7)
            bits[(both & _LOW) >> 3] |= 1 << (both & 7)
        self._bits, self._rows = bits, None

    def possible(self, ids: Iterable[str]) -> list[str]:
        """Those of these ids that may be in the table."""
        if (bits := self._bits) is None:
            return list(ids)
        return [
            id
            for id in ids
            if bits[(both := int(id[:DIGITS], 16)) >> BITS + 3] >> (both >> BITS & 7) & 1
            and bits[(both & _LOW) >> 3] >> (both & 7) & 1
        ]
