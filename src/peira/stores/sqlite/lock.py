"""Ownership of a store file: one process writes it, by whatever name it is reached.

Two things say who the owner is. A lock file beside the store, locked by the kernel, lets others wait, and is
free at once when its owner is killed. A row inside the store names the owning process, so that a removed
lock file, a link or a mount does not make two owners; every commit checks that its incarnation is still the
store's (see `statements`).
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from peira.errors import StoreFault, StoreInUse

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10.0
"""Seconds in which a process that was killed must be gone; one that waits for a disk may take long."""
POLL = 0.05
"""Seconds between two tries of a process that waits for a store."""

NOTE_BYTES = 1024
"""Where the note in a lock file ends; the number of the last durable event stands behind it."""
WRITER = "writer"
_open_locks: set[int] = set()


def _close_in_child() -> None:
    """A forked child must not keep its parent's lock: it would hold the store after the parent was killed."""
    for file in _open_locks:
        os.close(file)
    _open_locks.clear()


os.register_at_fork(after_in_child=_close_in_child)


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process that can be told from a later one with the same number."""

    pid: int
    started: int
    boot: str
    namespace: str

    @property
    def is_dead(self) -> bool:
        """Known to have ended. A process of another namespace (a container) cannot be looked at from here."""
        if self.boot != _boot():
            return True
        return self.namespace == _namespace() and _started(self.pid) != self.started

    def kill(self) -> None:
        """Kill it, wherever it stands, and wait until it is gone; nothing if it cannot be seen from here."""
        if self.boot != _boot() or self.namespace != _namespace():
            return
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if not self.is_dead:  # looked at while the handle keeps its number from being another's
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [], PATIENCE)
        finally:
            os.close(handle)


def running_process(pid: int) -> ProcessIdentity:
    """A process that is running, in this namespace."""
    return ProcessIdentity(pid, _started(pid) or 0, _boot(), _namespace())


def process_from(said: dict[str, Any]) -> ProcessIdentity | None:
    """The process that a note or a row names; None if it is not of that form (an older peira wrote it)."""
    try:
        return ProcessIdentity(
            int(said["pid"]), int(said["started"]), str(said["boot"]), str(said["namespace"])
        )
    except (KeyError, TypeError, ValueError):
        return None


def _started(pid: int) -> int | None:
    """When the process began, in clock ticks after the boot; None if it has ended (a zombie has, too)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


class OwnerLock:
    def __init__(self, path: Path, wait: float | None = 0.0) -> None:
        """Take the lock, waiting up to `wait` seconds (None: for ever), or raise StoreInUse.

        A lock that only orphans of a dead owner still hold is taken over. The process that committed for a
        dead owner is ended: it may hold a lock inside the file.
        """
        self.path = path
        deadline = None if wait is None else time.monotonic() + wait
        while (file := _take(path)) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise StoreInUse(in_use(path))
            time.sleep(POLL)
        self._file = file
        _open_locks.add(file)

    def note(self, incarnation: int) -> None:
        """Say who holds it: for people and for readers, never trusted without the lock itself."""
        self._noted = {**asdict(running_process(os.getpid())), "incarnation": incarnation}
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(self._noted).encode(), 0)

    def note_writer(self, pid: int) -> None:
        """Say which process commits for the one that holds it, for who takes the lock when that is dead."""
        said = json.dumps({**self._noted, WRITER: asdict(running_process(pid))})
        os.pwrite(self._file, said.encode().ljust(NOTE_BYTES), 0)

    def mark(self, event: int) -> None:
        """Keep the number of the last durable event: if the log is removed later, that shows."""
        os.pwrite(self._file, b"%-20d" % event, NOTE_BYTES)

    @property
    def identity(self) -> str:
        """Which file is locked. A removed one keeps its number as long as somebody has it open."""
        file = os.fstat(self._file)
        return f"{file.st_dev}:{file.st_ino}"

    @property
    def is_free(self) -> bool:
        return self._file < 0

    def free(self) -> None:
        if not self.is_free:  # a number closed twice may by then be another file's
            _open_locks.discard(self._file)
            os.close(self._file)
            self._file = -1


def _take(path: Path) -> int | None:
    """The locked file, or None while a living process has it."""
    with _locked_folder(path.parent):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        said = _said(file)
        if _try(file, fcntl.LOCK_EX):
            if WRITER in said:
                _end_writer(said)
            return file
        holder = process_from(said)
        os.close(file)
        if holder is None or not holder.is_dead:
            return None
        if WRITER in said:
            _end_writer(said)
        # Only what the dead owner left behind has it open: those hold the old file, and we a new one.
        path.unlink()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        return file if _try(file, fcntl.LOCK_EX) else None


def _end_writer(said: dict[str, Any]) -> None:
    """End the process that committed for an owner that is gone."""
    if (writer := process_from(said[WRITER])) is not None:
        writer.kill()


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """One process at a time takes or replaces a lock file of this folder."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _try(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def owner(path: Path) -> dict[str, int] | None:
    """Who holds the lock now (pid and incarnation, {} if it has not said yet), or None. A dead owner holds
    nothing, whatever it left behind."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _try(file, fcntl.LOCK_SH):
            return None
        said = _said(file)
        holder = process_from(said)
        return (
            None
            if holder and holder.is_dead
            else {key: said[key] for key in ("pid", "incarnation") if key in said}
        )
    finally:
        os.close(file)


def last_event(path: Path) -> int:
    """The number of the last event that the latest owner made durable; 0 if that is not known."""
    try:
        return int(path.read_bytes()[NOTE_BYTES:] or 0)
    except (FileNotFoundError, ValueError):
        return 0


def _said(file: int) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(os.pread(file, NOTE_BYTES, 0).rstrip(b"\0") or b"{}")
        return said
    except ValueError:
        return {}


def in_use(path: Path, holder: ProcessIdentity | None = None) -> str:
    pid = holder.pid if holder else (owner(path) or {}).get("pid")
    store = path.name.removesuffix(".lock")
    if pid == os.getpid():
        return (
            f"the store {store} is in use by process {pid}, which is this very process: wait for its "
            "other run (wait=...), close the store that it has open, or use another one"
        )
    who = f"process {pid}" if pid else "another process"
    return f"the store {store} is in use by {who}: wait for it (--wait), watch it, or use another --store"


def refuse_second_names(path: Path) -> None:
    """Refuse a file that has a second name (a hard link, or a mount of the file alone).

    SQLite keeps its log beside the name by which the file was opened: with two names there would be two
    logs of one file, each without what the other holds.
    """
    if not path.is_file():
        return
    if (links := path.stat().st_nlink) > 1:
        raise StoreFault(
            f"the store {path} has {links} names (hard links), and each would have a log of its own: "
            "remove all but one, or make copies instead"
        )
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        mounts = []
    if str(path) in {line.split(" ", 5)[4].replace("\\040", " ") for line in mounts}:
        raise StoreFault(
            f"the store {path} is mounted as a single file, apart from its log: mount its folder instead"
        )
