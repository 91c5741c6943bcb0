"""Open stores: by path, or as given."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

import peira.app as app
import peira.engine as engine
import peira.sandbox as sandbox
from peira.core.contracts import (
    Catalogue,
    Inspectable,
    OpenStore,
    Ownership,
    SecretAddresses,
    Store,
    StoreScheme,
)
from peira.core.ids import digest_bytes, short
from peira.core.registry import nearest, registry
from peira.engine.recovery import interrupt_owned_runs, recover, release_gone
from peira.errors import Invalid, StoreInUse, Unknown
from peira.spec.project import Project
from peira.stores.sharing import SharedStore, SharingScheme

AnyStore = OpenStore
StoreLike = str | os.PathLike[str] | AnyStore | None
Located = Path | str | AnyStore
"""A store as it is found: the path of its file, its address (mine://host/name), or opened already."""
MOMENT = 5.0
"""Seconds for which a worker waits for a process that has the store alone."""
PATHS = "sqlite"
"""The scheme of stores that are given by a path."""
_busy: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
_asking = threading.Lock()


def locate(store: StoreLike, project: Project) -> Located:
    """The store that is meant: one that is open as it is, a path, an address, or else the project's."""
    if store is not None and not isinstance(store, (str, os.PathLike)):
        return _usable(store)
    text = project.store_path if store is None else os.fspath(store)
    if "://" in text:
        project.load_plugins()
        return _public(text)
    if not text or "\0" in text or Path(text).is_dir():
        raise Invalid(f"store {text!r} is not the path of a file")
    return Path(text).absolute()  # agents may change the working folder


def _public(address: str) -> str:
    """The address without secrets; Invalid if there is no such kind of store."""
    scheme = scheme_of(address)
    return scheme.public(address) if isinstance(scheme, SecretAddresses) else address


def public_option(store: str | None) -> str | None:
    """The value of an option as it may be shown: without the password that an address contains."""
    if store is None or store.partition("://")[0] not in registry.names("store"):
        return store
    return _public(store)


def environment_of(store: Located) -> dict[str, str]:
    """The environment in which a command that this process starts can open the store, too.

    A password is part of it: command lines can be read by others.
    """
    own: Mapping[str, str] = {}
    if isinstance(store, str) and "://" in store:
        scheme = scheme_of(store)
        own = scheme.environment(store) if isinstance(scheme, SharingScheme) else {}
    return {**os.environ, **own}


def _usable(store: object) -> AnyStore:
    """The same, if it is a store; Invalid says what it lacks."""
    if isinstance(store, OpenStore):
        return store
    parts = (Store, Catalogue, Inspectable, Ownership)
    due = [name for part in parts for name in vars(part) if not name.startswith("_")]
    lacks = [name for name in due if not hasattr(store, name)]
    said = f"an object of class {type(store).__name__}" if not isinstance(store, type) else store.__name__
    raise Invalid(f"store: {said} is neither a path, an address nor a store: it has no {', '.join(lacks)}")


def scheme_of(where: Path | str) -> StoreScheme:
    """How the store there is opened; Invalid if nobody knows."""
    name = where.partition("://")[0] if isinstance(where, str) else PATHS
    known = registry.names("store")
    if name not in known:
        raise Invalid(f"store {name}://...: no such kind of store is known{nearest(name, known)}")
    if isinstance(where, str) and name == PATHS:
        raise Invalid(f"store {name}://...: give the path of its file")
    found = registry.make("store", name)
    if not isinstance(found, StoreScheme):
        raise Invalid(f"store {name}://...: its plug-in does not say how such a store is opened")
    return found


@contextmanager
def owned(
    store: StoreLike, project: Project, wait: float | None = 0.0, compression: str = "zstd"
) -> Iterator[AnyStore]:
    """The store, ours for writing, with what a dead owner left behind put right."""
    where = locate(store, project)
    if not isinstance(where, (Path, str)):
        with _taken_over(where, wait):
            yield where
        return
    opened = _usable(scheme_of(where).own(str(where), wait, compression))
    try:
        with _taken_over(opened, wait):
            yield opened
    finally:
        opened.close()


class _HostedStore(NamedTuple):
    """A store that a host in this process owns; `studies` is held by the study beside its streams."""

    where: Located
    store: AnyStore
    studies: threading.Lock


_hosted: list[_HostedStore] = []


@contextmanager
def hosted(store: AnyStore, where: Located) -> Iterator[None]:
    """Within it, studies of this process may run in a store that it owns: see `beside_streams`."""
    entry = _HostedStore(where, store, threading.Lock())
    _hosted.append(entry)
    try:
        yield
    finally:
        _hosted.remove(entry)


@contextmanager
def beside_streams(
    store: StoreLike, project: Project, wait: float | None = 0.0, compression: str = "zstd"
) -> Iterator[AnyStore]:
    """As `owned`; if a host of this process owns the store, its open store, for one study at a time."""
    where = locate(store, project)
    for entry in _hosted:
        if where is entry.store or where == entry.where:
            if not entry.studies.acquire(timeout=-1 if wait is None else wait):
                raise StoreInUse("another study in this process is using the store")
            try:
                yield entry.store
            finally:
                entry.studies.release()
            return
    with owned(store, project, wait, compression) as opened:
        yield opened


@contextmanager
def shared(
    store: StoreLike, project: Project, lease: float, wait: float | None = 0.0, compression: str = "zstd"
) -> Iterator[SharedStore]:
    """The store, written together with other processes; what members that are gone had is released.

    Invalid if stores of this kind have one owner at a time. A process that has it alone is waited for, at
    least for a moment: a command to a store that nobody else writes takes no longer.
    """
    where = locate(store, project)
    scheme = scheme_of(where) if isinstance(where, (Path, str)) else None
    if not isinstance(scheme, SharingScheme):
        raise Invalid(
            f"workers: one process at a time writes the store {display_path(where)}; several share one in a "
            "database (--store postgresql://..., see `peira db`)"
        )
    opened = scheme.share(str(where), lease, None if wait is None else max(wait, MOMENT), compression)
    try:
        release_gone(opened, ())
        interrupt_owned_runs(opened)
        yield opened
    finally:
        opened.close()


@contextmanager
def _taken_over(store: AnyStore, wait: float | None) -> Iterator[None]:
    """Nobody else in this process uses the store, and what its former owner left behind is put right."""
    if store.readonly:
        raise Invalid("store: it was opened for reading, and this writes")
    with _alone(store, wait):
        if store.incarnation > 1:  # the first owner follows nobody
            _sweep(store)
            shutil.rmtree(store_folder(store, "work"), ignore_errors=True)
        recover(store, store.incarnation)
        if store.incarnation > 1 and engine.commands_pending(store):  # no former owner came to execute them
            app.serve_commands(store)
        yield


def _sweep(store: AnyStore) -> None:
    """End processes that a killed owner left behind; that we own the store proves it dead."""
    sandbox.end(label(store, store.incarnation - 1))


@contextmanager
def _alone(store: AnyStore, wait: float | None) -> Iterator[None]:
    """One run at a time also where an open store is handed round: what another left must be a dead one's."""
    with _asking:
        busy = _busy.setdefault(store.address, threading.Lock())
    if not busy.acquire(timeout=-1 if wait is None else wait):
        raise StoreInUse("another run in this process is using the store")
    try:
        yield
    finally:
        busy.release()


@contextmanager
def reading(store: StoreLike, project: Project) -> Iterator[AnyStore]:
    """The store, for looking only; another process may be writing it."""
    where = locate(store, project)
    if not isinstance(where, (Path, str)):
        yield where
        return
    scheme = scheme_of(where)
    if not scheme.exists(str(where)):
        raise Unknown(f"there is no store at {display_path(where)}")
    opened = _usable(scheme.read(str(where)))
    try:
        yield opened
    finally:
        opened.close()


def display_path(where: Located) -> Located:
    """A store as messages name it: the path of one below the working folder is relative to that."""
    here = Path.cwd()
    return where.relative_to(here) if isinstance(where, Path) and here in where.parents else where


def exists(store: StoreLike, project: Project) -> bool:
    where = locate(store, project)
    return not isinstance(where, (Path, str)) or scheme_of(where).exists(str(where))


def owner(store: StoreLike, project: Project) -> Mapping[str, int] | None:
    """Who owns the store for writing now, if anybody does; it need not be there."""
    where = locate(store, project)
    return scheme_of(where).owner(str(where)) if isinstance(where, (Path, str)) else where.owner()


def label(store: AnyStore, of: int) -> str:
    """What marks the processes that an owner of this store started."""
    return f"{digest_bytes(store.address.encode())[:16]}-{of}"


def run_label(store: AnyStore, run: str) -> str:
    """What marks the processes of a run of ours; it is nested in the owner's label."""
    return f"{label(store, store.incarnation)}/{short(run)}"


def remove_work_folder(path: Path) -> None:
    """Remove the folder of a run in that of all runs, and with the last one also that."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # it is not empty, or another run was faster
        path.parent.rmdir()


def store_folder(store: AnyStore, name: str) -> Path:
    """A folder of the store's own; a temporary one if it has no place for files."""
    return store.folder(name) or Path(tempfile.gettempdir()) / f"peira-{label(store, 1)}-{name}"
