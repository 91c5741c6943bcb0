"""Files that peira reads and writes for people; those written are there as a whole in the end, or not at all.

A write that fails (a full disk, a folder without permission) is one line, leaves nothing behind, and leaves
what was there before as it was. Only regular files are ever replaced: a device, a pipe or a link is not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from peira.errors import Invalid, PeiraError

KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def check_target(path: Path, folder: bool = False) -> None:
    """Invalid, if something is at the path that a file (or with `folder` a folder) must not replace."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise unwritable(path, problem) from None
    if kind != (stat.S_IFDIR if folder else stat.S_IFREG):
        raise Invalid(f"{path} is {KINDS.get(kind, 'a file')}, and is not replaced")


def check_source(path: Path) -> None:
    """Invalid, if there is something at the path that is no file: a named pipe or a device may never end."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):  # whoever opens it says why it cannot be read
        return
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise Invalid(f"cannot read {path}: it is {KINDS.get(kind, 'no file')}, not a file")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the path's place once all of it is on the disk."""
    with _unwritable_is_invalid(path):
        check_target(path)
        draft = path.with_name(f".{path.name[:64]}.{token_hex(4)}.part")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if path.exists():
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write the file as a whole."""
    with whole_file(path) as file:
        file.write(data)


def write_if_possible(path: Path, data: bytes) -> bool:
    """Replace a file of a cache atomically, without waiting for the disk; False if it cannot be written."""
    draft = path.with_name(f".{token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        return False
    return True


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write several files: all of them are on the disk before the first takes its place."""
    if not files:
        return
    (path, data), *others = files.items()
    with whole_file(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        write_together(dict(others))


def unwritable(path: Path, problem: OSError) -> Invalid:
    return Invalid(f"cannot write {path}: {problem.strerror or problem}")


@contextmanager
def _unwritable_is_invalid(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if isinstance(problem, PeiraError):  # something else went wrong: the store, say
            raise
        raise unwritable(path, problem) from problem
