"""How connections to a store's file are set up."""

from __future__ import annotations

import apsw

BUSY_TIMEOUT = 10_000
"""Milliseconds in which another connection must have finished its transaction."""
CACHE_KIB = 8 * 1024
"""Random ids touch pages all over: the default cache of 2 MB would be read through again and again."""
CHECKPOINT, MOST_CHECKPOINT = 4_000, 32_000
"""Pages of the log from which on it is folded into the file; in a large file up to so many."""
SHARE = 4
"""The log of a large file may be as large as one of so many parts of it: random ids change pages all over an
index, and the more commits are folded in together, the fewer pages are written twice."""


def set_up(db: apsw.Connection, writes: bool) -> None:
    """Set what is not kept in the file; every commit is synced before it is acknowledged."""
    if writes:
        # Each on its own: this one answers with a row, and what came after it would not be run.
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
    db.execute(f"PRAGMA synchronous = FULL; PRAGMA cache_size = -{CACHE_KIB}")


def let_log_grow(db: apsw.Connection) -> None:
    """Fold the log into the file less often, if the file has become large."""
    pages = min(MOST_CHECKPOINT, db.execute("PRAGMA page_count").get // SHARE)
    if pages > CHECKPOINT:
        db.execute(f"PRAGMA wal_autocheckpoint = {pages}")


def open_for_writing(path: str) -> apsw.Connection:
    """A further connection of the owner to a file that is open, and has its tables."""
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(BUSY_TIMEOUT)
    set_up(db, writes=True)
    return db
