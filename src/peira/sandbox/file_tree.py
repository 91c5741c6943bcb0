"""Trees of files by content: read from a folder, written into workspaces, compared with what became of them.

A tree maps paths to files, of which each is named by its digest; the contents are in an `ObjectFolder`. What
is read back was written by untrusted code: links are never followed, and nothing named .git is looked at.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from peira.core.ids import Json, digest, digest_bytes
from peira.errors import CommandFailed
from peira.sandbox.workspace import FILE, FOLDER

MOST_ENTRIES = 200_000
MOST_DEPTH = 200
MOST_FILE = 256 * 2**20
"""The largest file that is kept."""
GIT = ".git"


class TreeFile(NamedTuple):
    """A file of a tree: what it is, the digest of its content (of a link: of its target), and its size."""

    kind: Literal["file", "exec", "link"]
    digest: str
    size: int


FileTree = Mapping[str, TreeFile]
"""Files by their paths, with slashes and relative to the root."""
TreeChanges = Mapping[str, TreeFile | None]
"""Files that are new or changed, by path; None for one that is gone."""


def tree_digest(files: FileTree | TreeChanges) -> str:
    """The identity of a tree, or of changes."""
    return digest([[path, one and list(one)] for path, one in sorted(files.items())])


def changes_json(changes: TreeChanges) -> dict[str, Json]:
    """Changes as JSON."""
    return {path: one and list(one) for path, one in sorted(changes.items())}


def changes_from(document: Mapping[str, Json]) -> dict[str, TreeFile | None]:
    """The changes of a JSON document."""
    return {path: one and TreeFile(*one) for path, one in document.items()}


def changed_tree(files: FileTree, changes: TreeChanges) -> dict[str, TreeFile]:
    """The tree after these changes: a file takes the place of a folder, and the other way round."""
    new = {path: one for path, one in changes.items() if one is not None}
    folders = {str(parent) for path in new for parent in PurePosixPath(path).parents}
    found = {path: one for path, one in files.items() if path not in changes and path not in folders}
    if any(path not in files for path in new):
        replaced = [p for p in found if any(str(above) in new for above in PurePosixPath(p).parents)]
        for path in replaced:
            del found[path]
    return found | new


class ObjectFolder:
    """Contents of files by digest, each stored once; thread-safe. `fetch` gets those that are not there."""

    def __init__(self, folder: Path, fetch: Callable[[str], bytes] | None = None) -> None:
        self.folder, self._fetch = folder, fetch
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)

    def put(self, content: bytes) -> str:
        """Keep a content; its digest."""
        name = digest_bytes(content)
        self._write(name, content, executable=False)
        return name

    def path(self, name: str, executable: bool = False) -> Path:
        """The file with this content, which must not be changed."""
        path = self.folder / (f"{name}.x" if executable else name)
        if not path.exists():
            self._write(name, self.content(name), executable)
        return path

    def content(self, name: str) -> bytes:
        """The bytes of a digest."""
        path = self.folder / name
        if path.exists():
            return path.read_bytes()
        if self._fetch is None:
            raise KeyError(name)
        return self._fetch(name)

    def _write(self, name: str, content: bytes, executable: bool) -> None:
        path = self.folder / (f"{name}.x" if executable else name)
        if path.exists():
            return
        draft = self.folder / f"draft-{threading.get_ident()}"
        draft.write_bytes(content)
        draft.chmod(0o555 if executable else 0o444)
        draft.rename(path)


def read_tree(
    folder: Path, keep: Callable[[bytes], str], paths: Iterable[str] | None = None
) -> dict[str, TreeFile]:
    """The files below a folder, or those at these paths, their contents handed to `keep`.

    Raises OSError if one cannot be read.
    """
    if paths is None:
        return dict(scanned(folder, (), keep))
    found: dict[str, TreeFile] = {}
    for path in paths:
        if any(part.lower() == GIT for part in PurePosixPath(path).parts):
            continue
        place = folder / path
        try:
            there = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISLNK(there.st_mode):
            found[path] = _link(os.readlink(place), keep)
        elif stat.S_ISREG(there.st_mode):
            content = place.read_bytes()
            kind: Literal["file", "exec"] = "exec" if there.st_mode & 0o100 else "file"
            found[path] = TreeFile(kind, keep(content), len(content))
    return found


def _link(target: str, keep: Callable[[bytes], str]) -> TreeFile:
    content = os.fsencode(target)
    return TreeFile("link", keep(content), len(content))


def scanned(
    root: Path, area: tuple[str, ...], keep: Callable[[bytes], str], most: int = 1 << 62
) -> Iterator[tuple[str, TreeFile]]:
    """The files of an area of a folder that untrusted code has written, and that it writes no more.

    Raises CommandFailed if there are more than `most` bytes, too many files, or one cannot be kept.
    """
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    count = _Allowance(most)
    try:
        for part in area[:-1]:
            inner = _opened(part, FOLDER, opened)
            os.close(opened)
            opened = inner
            if opened < 0:
                return
        if area:
            yield from _entry(opened, area[-1], "/".join(area), count, keep, 0)
        else:
            yield from _entries(opened, "", count, keep, 0)
    finally:
        if opened >= 0:
            os.close(opened)


def _opened(name: str, flags: int, folder: int, mode: int = 0) -> int:
    """An opened entry of a folder; -1 if it is not what it should be.

    With `mode`, one that may not be opened gets that mode first: it is ours, and no link.
    """
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        if not mode:
            return -1
    except OSError:
        return -1
    with suppress(OSError):
        os.chmod(name, mode, dir_fd=folder)
    return _opened(name, flags, folder)


def clear_tree(folder: Path) -> None:
    """Remove a folder that untrusted code has written, whatever modes it gave to what is in it."""

    def unlock(function: Callable[..., object], path: str, problem: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    shutil.rmtree(folder, onerror=unlock)
    shutil.rmtree(folder, ignore_errors=True)


class _Allowance:
    """What may still be read."""

    def __init__(self, most: int) -> None:
        self.bytes, self.entries, self._most = most, MOST_ENTRIES, most

    def take(self, path: str, size: int) -> None:
        self.entries -= 1
        self.bytes -= size
        if self.entries < 0:
            raise CommandFailed(f"it wrote more than {MOST_ENTRIES:,} files")
        if self.bytes < 0:
            raise CommandFailed(f"it wrote more than {self._most:,} bytes")
        if size > MOST_FILE:
            raise CommandFailed(f"{path}: has more than {MOST_FILE:,} bytes")


def _entries(
    folder: int, prefix: str, count: _Allowance, keep: Callable[[bytes], str], depth: int
) -> Iterator[tuple[str, TreeFile]]:
    if depth > MOST_DEPTH:
        raise CommandFailed(f"{prefix[:100]}...: folders are nested more than {MOST_DEPTH} deep")
    for name in sorted(os.listdir(folder)):
        if name.lower() != GIT:
            yield from _entry(folder, name, f"{prefix}{name}", count, keep, depth)


def _entry(
    folder: int, name: str, path: str, count: _Allowance, keep: Callable[[bytes], str], depth: int
) -> Iterator[tuple[str, TreeFile]]:
    """A file or link, or all below a folder; pipes, sockets and devices are left out."""
    try:
        path.encode()
        there = os.lstat(name, dir_fd=folder)
    except UnicodeEncodeError:
        raise CommandFailed(f"{path.encode(errors='replace').decode()}: its name is not UTF-8") from None
    except OSError:
        return
    if stat.S_ISDIR(there.st_mode):
        inner = _opened(name, FOLDER, folder, 0o700)
        if inner < 0:
            raise CommandFailed(f"{path}: the folder cannot be read")
        try:
            yield from _entries(inner, f"{path}/", count, keep, depth + 1)
        finally:
            os.close(inner)
    elif stat.S_ISLNK(there.st_mode):
        count.take(path, 0)
        yield path, _link(os.readlink(name, dir_fd=folder), keep)
    elif stat.S_ISREG(there.st_mode):
        count.take(path, there.st_size)
        opened = _opened(name, FILE, folder, 0o600)
        if opened < 0:
            raise CommandFailed(f"{path}: cannot be read")
        with os.fdopen(opened, "rb") as file:
            content = file.read(there.st_size)
        kind: Literal["file", "exec"] = "exec" if there.st_mode & 0o100 else "file"
        yield path, TreeFile(kind, keep(content), len(content))


def lay_out(files: FileTree, folder: Path, objects: ObjectFolder, writable: Callable[[str], bool]) -> None:
    """Write a tree into a new folder: files that are `writable` as copies that anybody may change, the others
    as links to the objects, which must not be changed through them."""
    folder.mkdir()
    made: set[str] = {""}
    everything = writable("")
    folder.chmod(0o777 if everything else 0o755)
    for path, one in files.items():
        parent = path.rpartition("/")[0]
        if parent not in made:
            _make_folders(folder, parent, made, writable)
        place, free = f"{folder}/{path}", writable(path)
        if one.kind == "link":
            os.symlink(os.fsdecode(objects.content(one.digest)), place)
        elif free:
            with open(place, "xb") as file:
                file.write(objects.content(one.digest))
            os.chmod(place, 0o777 if one.kind == "exec" else 0o666)
        else:
            os.link(objects.path(one.digest, one.kind == "exec"), place)


def _make_folders(folder: Path, path: str, made: set[str], writable: Callable[[str], bool]) -> None:
    """The folder at a path of the tree, and those above it."""
    above = ""
    for part in path.split("/"):
        above = f"{above}/{part}" if above else part
        if above not in made:
            made.add(above)
            place = folder / above
            place.mkdir(exist_ok=True)
            place.chmod(0o777 if writable(above) else 0o755)


def make_area(folder: Path, path: str) -> Path:
    """The folder or file of a tree at this path, made as a folder if it is missing, writable for all.

    Raises CommandFailed if a link is on the way: what is behind it is not the tree's.
    """
    place = folder
    for part in PurePosixPath(path).parts:
        place = place / part
        if place.is_symlink():
            raise CommandFailed(f"may_write: {path!r} leads through a link")
        if not place.exists():
            place.mkdir()
            place.chmod(0o755)
        elif not place.is_dir() and place != folder / path:
            raise CommandFailed(f"may_write: {path!r} leads through a file")
    place.chmod(0o777 if place.is_dir() else place.stat().st_mode | 0o666)
    return place
