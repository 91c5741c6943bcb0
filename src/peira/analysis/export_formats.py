"""Writes results in the formats of other tools: finds the format and writes its file or folder.

Formats are plug-ins of the kind "export". A format writes to a temporary path beside the target, which then
replaces the target atomically. An export is therefore complete or absent, and only an earlier export of the
same format is overwritten without `force`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

from peira.core.files import check_target
from peira.core.registry import made, registry
from peira.errors import Invalid

if TYPE_CHECKING:
    from peira.analysis.results import Results

KIND = "export"
"""The registry kind of export formats."""
Makes = Literal["file", "folder"]
"""Whether a format writes a file or a folder."""


class Format(Protocol):
    """An export format that writes a file or a folder; paths ending in a suffix select it."""

    makes: Makes
    suffixes: tuple[str, ...]

    def write(self, results: Results, path: Path) -> None:
        """Write the results to a path that does not exist; raises Invalid if that is not possible."""
        ...

    def owns(self, path: Path) -> bool:
        """Whether the existing path is entirely an earlier export of this format."""
        ...


class Tracker(Protocol):
    """An export format that adds results to an experiment tracker's folder or server."""

    makes: Literal["entry"]
    suffixes: tuple[str, ...]

    def record(self, results: Results, where: str) -> None:
        """Add the results; raises Invalid if that is not possible."""
        ...


def formats() -> dict[str, Format | Tracker]:
    """All registered formats by name."""
    return {name: registry.make(KIND, name) for name in registry.names(KIND)}


def export(results: Results, path: str | PathLike[str], format: str | None, force: bool) -> Path:
    """Write the results to the path in the named format, or in the one guessed from the path.

    Returns the path. Raises Invalid if it cannot be written, or exists and is not such an export.
    """
    target = Path(path)
    way: Format | Tracker = made(KIND, format or guessed(target), {})
    if way.makes == "entry":
        way.record(results, os.fspath(path))
        return target
    try:
        if _is_stream(target):
            _write_stream(results, target, way)
            return target
        _check(target, way, force)
        with _draft(target) as draft:
            way.write(results, draft)
    except BrokenPipeError:
        raise  # who reads it has seen enough
    except OSError as problem:
        raise Invalid(f"{target} cannot be written: {problem.strerror or problem}") from problem
    return target


STANDARD_OUTPUT = "-"
READER = 2.0
"""Seconds in which a pipe waits for its reader."""


def _is_stream(target: Path) -> bool:
    """Whether the target is standard output, a pipe or a device: written into, never replaced."""
    if str(target) == STANDARD_OUTPUT:
        return True
    try:
        kind = stat.S_IFMT(target.stat().st_mode)
    except OSError:
        return False
    return kind in (stat.S_IFIFO, stat.S_IFCHR)


def _write_stream(results: Results, target: Path, way: Format) -> None:
    """Write the export into a stream once all of it is there."""
    if way.makes != "file":
        raise Invalid(f"{target}: this format is a folder, and cannot be written to a pipe")
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "draft"
        way.write(results, draft)
        with draft.open("rb") as whole:
            if str(target) == STANDARD_OUTPUT:
                sys.stdout.flush()
                shutil.copyfileobj(whole, sys.stdout.buffer)
                sys.stdout.flush()
                return
            try:
                with _opened_stream(target) as stream:
                    shutil.copyfileobj(whole, stream)
            except BrokenPipeError:
                raise
            except OSError as problem:
                why = "nobody reads it" if problem.errno == errno.ENXIO else problem.strerror
                raise Invalid(f"{target} is a pipe or a device, and is not replaced: {why}") from problem


def _opened_stream(target: Path) -> BinaryIO:
    """A pipe or a device to write to; ENXIO if it is a pipe that nobody begins to read."""
    deadline = time.monotonic() + READER
    while True:
        try:
            opened = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            break
        except OSError as problem:
            if problem.errno != errno.ENXIO or time.monotonic() >= deadline:
                raise
            time.sleep(0.02)
    os.set_blocking(opened, True)
    return os.fdopen(opened, "wb")


def guessed(target: Path) -> str:
    """The format for a path, by its suffix or by an existing export; raises Invalid if unclear."""
    known = formats()
    fits = [(len(end), name) for name, way in known.items() for end in way.suffixes if _ends(target, end)]
    if fits:
        return max(fits)[1]
    if target.is_dir():
        found = [name for name, way in known.items() if way.makes == "folder" and way.owns(target)]
        if len(found) == 1:
            return found[0]
    raise Invalid(f"{target}: the format is not clear from the name; say which: {', '.join(known)}")


def _ends(target: Path, suffix: str) -> bool:
    """Whether the file name ends in the suffix and is more than the suffix."""
    return target.name.lower().endswith(suffix) and len(target.name) > len(suffix)


def _check(target: Path, way: Format, force: bool) -> None:
    """Raise Invalid unless the target can be written or replaced."""
    if not target.parent.is_dir():
        raise Invalid(f"{target}: there is no folder {target.parent}")
    if not os.path.lexists(target) or _empty(target, way):
        return
    if (
        not target.is_symlink()
        and target.is_dir() != (way.makes == "folder")
        and (target.is_dir() or target.is_file())
    ):
        raise Invalid(f"{target} is {'a folder' if target.is_dir() else 'a file'} and would become another")
    check_target(target, way.makes == "folder")
    if not force and not way.owns(target):
        raise Invalid(f"{target} is there and is no such export; overwrite it with --force, or force=True")


def _empty(target: Path, way: Format) -> bool:
    """Whether the target is an empty folder for a format that writes a folder."""
    return way.makes == "folder" and target.is_dir() and not any(target.iterdir())


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A temporary path beside the target, which replaces the target on success."""
    folder = Path(tempfile.mkdtemp(prefix=".peira-", dir=target.parent))
    try:
        yield folder / "draft"
        _sync(folder / "draft")
        _put(folder / "draft", target, folder / "former")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(draft: Path, target: Path, former: Path) -> None:
    """Replace the target: a file atomically; a folder is moved away first, and back on failure."""
    if not target.is_dir() or target.is_symlink():
        draft.replace(target)
        return
    target.rename(former)
    try:
        draft.rename(target)
    except OSError:
        former.rename(target)
        raise


def _sync(draft: Path) -> None:
    """Flush everything to disk before the rename."""
    for path in (draft, *(draft.rglob("*") if draft.is_dir() else ())):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
