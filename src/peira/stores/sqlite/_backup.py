"""A copy of a store, also of one that is being written, made so that it never looks complete before it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import apsw

from peira.core.failpoints import reach
from peira.errors import Invalid, StoreFault
from peira.stores.blobs import BlobFolder, sync_folder


def copy_store(source: apsw.Connection, blobs: BlobFolder, target: Path) -> None:
    """Copy the tables of `source` and its blob files to a store at `target`; durable when it returns.

    The tables are copied first, as they are at one moment; the blobs that they name are files already. The
    file gets its name last: what is cut off before leaves no store, and is completed by the next try. Raises
    Invalid if there is a file at the target, and StoreFault if the disk refuses.
    """
    if target.exists():
        raise Invalid(f"{target} exists already; a backup replaces nothing")
    draft = target.with_name(f"{target.name}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        copy_tables(source, draft)
        reach("backup.before_blobs")
        _copy_blobs(blobs, target.with_name(f"{target.name}.blobs"))
        reach("backup.before_rename")
        os.link(draft, target)  # unlike a rename, it replaces nothing that came about meanwhile
        draft.unlink()
        sync_folder(target.parent)
    except (OSError, apsw.Error) as problem:
        raise StoreFault(f"cannot write the backup {target}: {problem}") from problem


def copy_tables(source: apsw.Connection, draft: Path) -> None:
    """Copy the database in one read transaction; the copy has no owner."""
    copied = apsw.Connection(str(draft))
    try:
        with copied.backup("main", source, "main") as pages:
            pages.step(-1)  # all at once: what is committed meanwhile would make it begin again
        copied.execute("PRAGMA journal_mode = DELETE")
        copied.execute("PRAGMA synchronous = FULL")
        copied.execute("UPDATE meta SET value = NULL WHERE key = 'owner'")
    finally:
        copied.close()
    with draft.open("rb") as file:
        os.fsync(file.fileno())


def _copy_blobs(blobs: BlobFolder, folder: Path) -> None:
    """Copy the blob files that are not there yet, each by way of a draft."""
    drafts = folder / "drafts"
    for _, file in blobs.files():
        target = folder / file.parent.name / file.name
        if not target.exists():
            drafts.mkdir(parents=True, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = drafts / f"{file.parent.name}{file.name}"
            shutil.copyfile(file, draft)
            with draft.open("rb") as copied:
                os.fsync(copied.fileno())
            draft.replace(target)
    for made in (*folder.glob("??"), folder) if folder.exists() else ():
        sync_folder(made)
