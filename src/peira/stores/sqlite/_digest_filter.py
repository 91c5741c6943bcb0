"""Which ids a table does not hold, known without asking it: a bitmap that every new id leaves a mark in.

Most ids that are looked up are new, each at least twice: by the engine, to learn that nothing is recorded of
it, and by the writer, which adds its row. An index of random ids answers that from pages all over the disk.
An id without a mark is in no row; one with a mark may be, and is looked up as ever.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

SIZE = 2**24
"""The number of bits; the hash of an id, which Python keeps with the text, says which one is its own."""
MOST = 50_000
"""Rows from which on a table is not read for its marks when it is opened: that takes longer than it saves."""


class DigestFilter:
    """The marks of one table. Marks are set before a row is committed, so that whoever can see it finds one.

    Ids are marked by the writer's thread; any thread may look.
    """

    def __init__(self, db: apsw.Connection, table: str, column: str, most: int = MOST) -> None:
        self._bits: bytearray | None = None
        if db.execute(f"SELECT coalesce(max(n), 0) FROM {table}").get < most:
            self._bits = bytearray(SIZE // 8)
            for (id,) in db.execute(f"SELECT {column} FROM {table}"):
                self.mark(id.hex())

    def mark(self, id: str) -> None:
        """An id that will be in the table."""
        if self._bits is not None:
            bit = hash(id) % SIZE
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def possible(self, ids: Iterable[str]) -> list[str]:
        """Those of these ids that may be in the table."""
        if (bits := self._bits) is None:
            return list(ids)
        return [id for id in ids if bits[(bit := hash(id) % SIZE) >> 3] >> (bit & 7) & 1]
