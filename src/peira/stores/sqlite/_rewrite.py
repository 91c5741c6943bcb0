"""Rewriting a store without some of its runs: a draft beside it is filled, checked, and copied over it.

The draft is copied by SQLite's backup in one transaction: until that is committed the store is as it was, and
from then on it is the new one, whenever the process is killed. Other processes may read it meanwhile.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw

from peira.core.failpoints import reach
from peira.errors import StoreDamaged
from peira.stores.blobs import BlobFolder

CHUNK = 500


def remove_draft(draft: Path) -> None:
    """Remove what a rewrite left behind when it was killed."""
    for end in (".lock", "-wal", "-shm", ""):
        draft.with_name(draft.name + end).unlink(missing_ok=True)
    shutil.rmtree(draft.with_name(f"{draft.name}.blobs"), ignore_errors=True)


def copy_blobs(source: apsw.Connection, files: BlobFolder, draft: Path, digests: set[str]) -> None:
    """Bring these blobs to the draft: rows are copied, files are linked."""
    target = apsw.Connection(str(draft))
    try:
        target.set_busy_timeout(10_000)
        wanted = sorted(bytes.fromhex(digest) for digest in digests)
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            marks = ",".join("?" * len(some))
            rows = source.execute(f"SELECT digest, codec, data FROM blob WHERE digest IN ({marks})", some)
            with target:
                target.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?, ?)", list(rows))
    finally:
        target.close()
    for digest, file in files.files():
        if digest in digests:
            linked = draft.with_name(f"{draft.name}.blobs") / file.parent.name / file.name
            linked.parent.mkdir(parents=True, exist_ok=True)
            _link(file, linked)


def _link(file: Path, linked: Path) -> None:
    """A second name for a file; a copy where the file system has no links."""
    try:
        os.link(file, linked)
    except OSError:
        shutil.copyfile(file, linked)


def replace_tables(store: apsw.Connection, draft: Path) -> None:
    """Copy the tables of the draft over those of the store, all or nothing; who owns the store stays."""
    source = apsw.Connection(str(draft))
    try:
        with source:
            source.execute("DELETE FROM meta")
            rows = list(store.execute("SELECT key, value FROM meta"))
            source.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        reach("retention.before_replace")
        with store.backup("main", source, "main") as pages:
            pages.step(-1)
            if not pages.done:
                raise StoreDamaged("the rewritten tables could not be copied whole")
        reach("retention.after_replace")
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        source.close()


def unneeded(files: BlobFolder, digests: set[str]) -> Iterator[Path]:
    """The blob files that nothing refers to."""
    return (file for digest, file in files.files() if digest not in digests)
