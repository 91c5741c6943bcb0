"""Results into files that other tools read: which format is meant, and how a file comes to be.

Formats are plug-ins of the kind "export". A format writes to a path where nothing is; here that is a draft
beside the target, which takes the target's place when it is whole. So an export is there or not, never half,
and nothing is overwritten that is not an earlier export.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from peira.core.named import made
from peira.core.registry import registry
from peira.errors import Invalid

if TYPE_CHECKING:
    from peira.analysis.results import Results

KIND = "export"
Makes = Literal["file", "folder"]


class Format(Protocol):
    """One way to write results as a file or a folder. A path that ends with a suffix is meant for it."""

    makes: Makes
    suffixes: tuple[str, ...]

    def write(self, results: Results, path: Path) -> None:
        """Write there, where nothing is yet. Invalid if this cannot be done here."""
        ...

    def owns(self, path: Path) -> bool:
        """Whether what is there is wholly an earlier export of this format."""
        ...


class Tracker(Protocol):
    """One way to enter results where other things are: in the folder or server of an experiment tracker."""

    makes: Literal["entry"]
    suffixes: tuple[str, ...]

    def record(self, results: Results, where: str) -> None:
        """Add the results. Invalid if this cannot be done here."""
        ...


def formats() -> dict[str, Format | Tracker]:
    return {name: registry.make(KIND, name) for name in registry.names(KIND)}


def export(results: Results, path: str | PathLike[str], format: str | None, force: bool) -> Path:
    """Write the results to the path, in the format that is named or meant by it; returns the path."""
    target = Path(path)
    way: Format | Tracker = made(KIND, format or guessed(target), {})
    if way.makes == "entry":
        way.record(results, os.fspath(path))
        return target
    try:
        _check(target, way, force)
        with _drafted(target) as draft:
            way.write(results, draft)
    except OSError as problem:
        raise Invalid(f"{target} cannot be written: {problem.strerror or problem}") from problem
    return target


def guessed(target: Path) -> str:
    """The format that a path is meant for: by its ending, or by what is there already."""
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
    return target.name.lower().endswith(suffix) and len(target.name) > len(suffix)


def _check(target: Path, way: Format, force: bool) -> None:
    if not target.parent.is_dir():
        raise Invalid(f"{target}: there is no folder {target.parent}")
    if not os.path.lexists(target) or _empty(target, way):
        return
    if target.is_dir() != (way.makes == "folder"):
        raise Invalid(f"{target} is {'a folder' if target.is_dir() else 'a file'} and would become another")
    if not force and not way.owns(target):
        raise Invalid(f"{target} is there and is no such export; overwrite it with --force, or force=True")


def _empty(target: Path, way: Format) -> bool:
    return way.makes == "folder" and target.is_dir() and not any(target.iterdir())


@contextmanager
def _drafted(target: Path) -> Iterator[Path]:
    """A path beside the target for a draft, which takes the target's place if all goes well."""
    room = Path(tempfile.mkdtemp(prefix=".peira-", dir=target.parent))
    try:
        yield room / "draft"
        _sync(room / "draft")
        _put(room / "draft", target, room / "former")
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _put(draft: Path, target: Path, former: Path) -> None:
    """A file takes another's place in one step; a folder must be moved away first, and back if that fails."""
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
    """Let everything reach the disk before the name does."""
    for path in (draft, *(draft.rglob("*") if draft.is_dir() else ())):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
