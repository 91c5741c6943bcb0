"""Files put into a confined process's private folder, and files read from it.

The latter were written by untrusted code. They are read once all of that code is dead, by descriptors that
follow no links: a link, a pipe or a device is not a file, whatever its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from peira.errors import Invalid

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """The names, if all of them stay in the folder; Invalid lists those that do not."""
    given = tuple(names)
    if problems := [f"{name!r} is not the name of a file in the workspace" for name in given if _wrong(name)]:
        raise Invalid(problems)
    return given


def _wrong(name: str) -> bool:
    """Whether a name is empty, absolute, or leads out of the folder."""
    path = PurePosixPath(name)
    return not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name


def parents(names: Iterable[str]) -> list[str]:
    """The folders that contain these files, outermost first."""
    found = {str(parent) for name in names for parent in PurePosixPath(name).parents} - {".", "/"}
    return sorted(found, key=lambda folder: (folder.count("/"), folder))


def fill(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a folder of this machine."""
    for parent in parents(files):
        (folder / parent).mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def collect(folder: int, names: Iterable[str], most: int) -> dict[str, bytes]:
    """Those of the named files that exist and have at most `most` bytes, from an open folder."""
    found = {name: _content(folder, PurePosixPath(name).parts, most) for name in names}
    return {name: content for name, content in found.items() if content is not None}


def _content(folder: int, parts: tuple[str, ...], most: int) -> bytes | None:
    """The content of a file, opened step by step without following links; None if there is none."""
    try:
        opened = os.open(parts[0], FOLDER if len(parts) > 1 else FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        return _content(opened, parts[1:], most) if len(parts) > 1 else _read(opened, most)
    finally:
        os.close(opened)


def _read(file: int, most: int) -> bytes | None:
    """The content of an open file; None if it is no regular file, or too large."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:
        return None
    with os.fdopen(os.dup(file), "rb") as opened:
        return opened.read()
