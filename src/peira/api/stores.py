"""Opening stores: by path, or as given."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import peira.sandbox as sandbox
from peira.core.ids import digest_bytes
from peira.engine.recovery import recover
from peira.errors import Invalid, StoreInUse, Unknown
from peira.spec.project import Project
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore

AnyStore = SqliteStore | MemoryStore
StoreLike = str | Path | AnyStore | None
_busy: WeakKeyDictionary[AnyStore, threading.Lock] = WeakKeyDictionary()


def locate(store: StoreLike, project: Project) -> Path | AnyStore:
    """The store that is meant: an opened one as it is, else a path, by default the project's."""
    if isinstance(store, (SqliteStore, MemoryStore)):
        return store
    text = project.store_path if store is None else str(store)
    if "://" in text:
        raise Invalid(
            f"store {text.partition('://')[0]}://...: this release keeps its work in SQLite; give a path"
        )
    if not text or "\0" in text or Path(text).is_dir():
        raise Invalid(f"store {text!r} is not the path of a file")
    return Path(text)


@contextmanager
def owned(
    store: StoreLike, project: Project, wait: float | None = 0.0, compression: str = "zstd"
) -> Iterator[Any]:
    """The store, ours for writing, with what a dead owner left behind put right."""
    where = locate(store, project)
    opened = SqliteStore(where, wait=wait, compression=compression) if isinstance(where, Path) else where
    try:
        with _alone(opened, wait):
            if isinstance(opened, SqliteStore) and opened.incarnation > 1:  # the first owner follows nobody
                _sweep(opened)
            recover(opened, incarnation(opened))
            yield opened
    finally:
        if isinstance(where, Path):
            opened.close()


@contextmanager
def _alone(store: AnyStore, wait: float | None) -> Iterator[None]:
    """One run at a time also where an open store is handed round: what another left must be a dead one's."""
    busy = _busy.setdefault(store, threading.Lock())
    if not busy.acquire(timeout=-1 if wait is None else wait):
        raise StoreInUse("another run in this process is using the store")
    try:
        yield
    finally:
        busy.release()


@contextmanager
def reading(store: StoreLike, project: Project) -> Iterator[Any]:
    """The store, for looking only; another process may be writing it."""
    where = locate(store, project)
    if isinstance(where, Path) and not where.exists():
        raise Unknown(f"there is no store at {where}")
    opened = SqliteStore(where, readonly=True) if isinstance(where, Path) else where
    try:
        yield opened
    finally:
        if isinstance(where, Path):
            opened.close()


def exists(store: StoreLike, project: Project) -> bool:
    where = locate(store, project)
    return not isinstance(where, Path) or where.exists()


def incarnation(store: AnyStore) -> int:
    return store.incarnation if isinstance(store, SqliteStore) else 1


def label(store: AnyStore, of: int) -> str:
    """What marks the processes that an owner of this store started."""
    path = str(store.path.resolve()) if isinstance(store, SqliteStore) else f"memory {id(store)}"
    return f"{digest_bytes(path.encode())[:16]}-{of}"


def _sweep(store: SqliteStore) -> None:
    """End processes that a killed owner left behind; holding the lock proves it dead."""
    sandbox.end(label(store, store.incarnation - 1))


def beside(store: AnyStore, name: str) -> Path:
    """A folder of the store's own."""
    if isinstance(store, SqliteStore):
        return store.path.with_name(f"{store.path.name}.{name}")
    return Path(tempfile.gettempdir()) / f"peira-{label(store, 1)}-{name}"
