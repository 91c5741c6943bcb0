"""Files put into a confined process's private folder, and files read from it.

The latter were written by untrusted code. They are read once all of that code is dead, by descriptors that
follow no links: a link, a pipe or a device is not a file, whatever its name.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from peira.errors import Invalid

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_PATHS = 100_000
"""Files that are compared with the patterns of those to keep."""
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


def fill(folder: Path, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
    """Write the files into a folder of this machine."""
    for parent in parents(files):
        (folder / parent).mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
        if name in executable:
            (folder / name).chmod(0o755)


def collect(folder: int, names: Iterable[str], most: int) -> dict[str, bytes]:
    """Those of the files that exist and have at most `most` bytes, from an open folder.

    Names with *, ? or [ are patterns: `*` stands for any part of a name, `**` for any number of folders.
    """
    wanted = list(names)
    exact = [name for name in wanted if not _is_pattern(name)]
    patterns = [path_pattern(name) for name in wanted if _is_pattern(name)]
    if patterns:
        exact += [path for path in _paths(folder) if any(one.fullmatch(path) for one in patterns)]
    found = {name: _content(folder, PurePosixPath(name).parts, most) for name in dict.fromkeys(exact)}
    return {name: content for name, content in found.items() if content is not None}


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def path_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of paths, to be matched in full: `*` is any part of a name, `**` any number of folders."""
    return re.compile(_regex(pattern))


def _regex(pattern: str) -> str:
    """A pattern of paths as a regular expression."""
    found, parts = "", PurePosixPath(pattern).parts
    for nth, part in enumerate(parts):
        last = nth == len(parts) - 1
        if part == "**":
            found += "(?:[^/]+/)*" + ("[^/]+" if last else "")
        else:
            found += "".join(map(_piece, re.findall(r"\[!?[^\]]+\]|.", part))) + ("" if last else "/")
    return found


def _piece(text: str) -> str:
    """One mark of a pattern, or one character, as a regular expression."""
    if len(text) > 1:
        inner = text[1:-1].replace("\\", "\\\\").replace("^", "\\^")
        return f"(?!/)[^{inner[1:]}]" if inner.startswith("!") else f"(?!/)[{inner}]"
    return {"*": "[^/]*", "?": "[^/]"}.get(text, re.escape(text))


def _paths(folder: int) -> Iterator[str]:
    """The paths of all files below an open folder, at most MOST_PATHS; links are not followed."""
    count, own = 0, os.fstat(folder).st_dev
    for parent, folders, files, opened in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        if os.fstat(opened).st_dev != own:  # something of the machine that is mounted there
            folders.clear()
            continue
        for name in sorted(files):
            count += 1
            if count > MOST_PATHS:
                return
            path = f"{parent}/{name}".removeprefix("./")
            if path.isprintable():
                yield path


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
