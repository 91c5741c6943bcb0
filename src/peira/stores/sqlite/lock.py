"""One process owns a store: a lock file, held by the kernel, so that a killed owner frees it at once."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

from peira.errors import StoreInUse


class OwnerLock:
    def __init__(self, path: Path, wait: float | None = 0.0) -> None:
        """Take the lock, waiting up to `wait` seconds (None: for ever), or raise StoreInUse."""
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = None if wait is None else time.monotonic() + wait
        while not _try(self._file):
            if deadline is not None and time.monotonic() >= deadline:
                os.close(self._file)
                raise StoreInUse(in_use(path))
            time.sleep(0.05)

    def note(self, incarnation: int) -> None:
        """Say who holds it: for people and for readers, never trusted without the lock itself."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps({"pid": os.getpid(), "incarnation": incarnation}).encode(), 0)

    def free(self) -> None:
        if self._file >= 0:  # a number closed twice may by then be another file's
            os.close(self._file)
            self._file = -1


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def owner(path: Path) -> dict[str, int] | None:
    """Who holds the lock now ({} if it has not said yet), or None."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _said(file)
    finally:
        os.close(file)


def _said(file: int) -> dict[str, int]:
    try:
        said: dict[str, int] = json.loads(os.pread(file, 4096, 0) or b"{}")
        return said
    except ValueError:
        return {}


def in_use(path: Path) -> str:
    holder = owner(path) or {}
    who = f"process {holder['pid']}" if "pid" in holder else "another process"
    store = path.name.removesuffix(".lock")
    return f"the store {store} is in use by {who}: wait for it (--wait), watch it, or use another --store"
