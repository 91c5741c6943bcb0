"""Merging what units made: into a commit of the user's repository, a folder, or the user's own files.

The changes of all units that succeeded are put together in the order of their needs. The user's own files are
changed only if they are as they were when the run began, or as they are to be; else the conflicts are named
and nothing is changed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from peira.app.work.view import WorkView
from peira.core.ids import digest_bytes, short
from peira.core.log.events import State
from peira.core.text.words import counted
from peira.errors import Invalid, MergeConflict
from peira.sandbox.file_tree import FileTree, TreeFile, changed_tree, read_tree
from peira.sandbox.git import GitRepository
from peira.sandbox.workspace import FOLDER

REF = "refs/peira/"


@dataclass(frozen=True)
class MergeResult:
    """What was merged: the units, the paths that they changed, and where to."""

    units: tuple[str, ...]
    changed: tuple[str, ...]
    where: str

    def sentence(self) -> str:
        """The merge in a sentence."""
        files, units = counted(len(self.changed), "changed file"), counted(len(self.units), "unit")
        return f"{files} of {units}: {self.where}"


def merged_changes(view: WorkView) -> tuple[list[str], dict[str, TreeFile | None]]:
    """The units that succeeded, and all their changes as one, without what is as it was."""
    names, changes = [], dict[str, TreeFile | None]()
    for name, one in view.units.items():
        if one.state == State.succeeded:
            names.append(name)
            changes.update(one.result.changes)
    base = view.base
    return names, {path: one for path, one in sorted(changes.items()) if base.get(path) != one}


def commit_changes(view: WorkView, content: Callable[[str], bytes]) -> MergeResult | None:
    """Write the changes as a commit that refs/peira/RUN stands for; None if the base is in no repository, or
    nothing was changed."""
    names, changes = merged_changes(view)
    repository = GitRepository.of(target_folder(view))
    if repository is None or not changes:
        return None
    ref = f"{REF}{short(view.run.id)}"
    message = f"{view.run.study}: {', '.join(names)}"
    repository.write_commit(ref, str(view.plan.get("commit", "")), changes, content, message)
    return MergeResult(tuple(names), tuple(changes), ref)


def target_folder(view: WorkView) -> Path:
    """The folder of the user's that the base is."""
    base, folder = view.plan.get("base"), Path(str(view.plan.get("folder", ".")))
    if isinstance(base, str) and base.startswith("git:"):
        repository = GitRepository.of(folder)
        if repository is None:
            raise Invalid(f"merge: {folder} is in no git repository any more")
        return repository.root()
    return (folder / str(base or ".")).resolve()


def write_folder(view: WorkView, target: Path, content: Callable[[str], bytes]) -> MergeResult:
    """Write the base with all changes into a new folder."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Invalid(f"merge: {target} is there already, and not an empty folder")
    names, changes = merged_changes(view)
    tree = changed_tree(view.base, changes)
    source = target_folder(view)
    current = read_base_contents(view, source, tree)

    def found(digest: str) -> bytes:
        return current[digest] if digest in current else content(digest)

    target.mkdir(parents=True, exist_ok=True)
    for path, one in tree.items():
        _write(target, path, one, found)
    return MergeResult(tuple(names), tuple(changes), str(target))


def read_base_contents(view: WorkView, source: Path, tree: FileTree) -> dict[str, bytes]:
    """The contents of the base's files; MergeConflict if they are not as they were when the run began."""
    contents: dict[str, bytes] = {}

    def put(content: bytes) -> str:
        name = digest_bytes(content)
        contents[name] = content
        return name

    base, wanted = view.base, {path for path, one in tree.items() if view.base.get(path) == one}
    plan_base = view.plan.get("base")
    if isinstance(plan_base, str) and plan_base.startswith("git:"):
        GitRepository(source).tree(str(view.plan["commit"]), put)
        return contents
    now = read_tree(source, put, sorted(wanted))
    gone = [
        f"conflict: {path} has changed since the run began"
        for path in sorted(wanted)
        if now.get(path) != base[path]
    ]
    if gone:
        raise MergeConflict(gone)
    return contents


def apply_changes(view: WorkView, content: Callable[[str], bytes]) -> MergeResult:
    """Change the user's own files; MergeConflict names those that have changed since, and then none is."""
    names, changes = merged_changes(view)
    folder, base = target_folder(view), view.base
    now = read_tree(folder, digest_bytes, changes)
    left = {path: one for path, one in changes.items() if now.get(path) != one}
    conflicts = [
        f"conflict: {path} has changed since the run began"
        for path in left
        if now.get(path) != base.get(path) or _is_other(folder, path)
    ]
    if conflicts:
        raise MergeConflict(conflicts)
    removed = [path for path, one in left.items() if one is None]
    for path in sorted(removed, reverse=True):
        _remove(folder, path)
    for path, one in left.items():
        if one is not None:
            _write(folder, path, one, content)
    return MergeResult(tuple(names), tuple(changes), str(folder))


def _is_other(folder: Path, path: str) -> bool:
    """Whether something that is no file of the base is in the way of a path: a folder, or a link above it."""
    parts = PurePosixPath(path).parts
    above = [folder.joinpath(*parts[:n]) for n in range(1, len(parts))]
    return any(one.is_symlink() or (one.exists() and not one.is_dir()) for one in above) or (
        (folder / path).is_dir() and not (folder / path).is_symlink() and any((folder / path).iterdir())
    )


def _opened_parent(folder: Path, path: str) -> int:
    """The folder of a path, made if it is missing; no link is followed below the root."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in PurePosixPath(path).parts[:-1]:
        try:
            try:
                inner = os.open(part, FOLDER, dir_fd=opened)
            except FileNotFoundError:
                os.mkdir(part, dir_fd=opened)
                inner = os.open(part, FOLDER, dir_fd=opened)
        except OSError as error:
            raise MergeConflict(f"conflict: {path}: {part} is no folder ({error.strerror})") from None
        finally:
            os.close(opened)
        opened = inner
    return opened


def _write(folder: Path, path: str, one: TreeFile, content: Callable[[str], bytes]) -> None:
    """Put a file in its place, whole or not at all."""
    parent, name = _opened_parent(folder, path), PurePosixPath(path).name
    draft = f".{name[:100]}.{uuid.uuid4().hex[:8]}"
    try:
        data = content(one.digest)
        if one.kind == "link":
            os.symlink(os.fsdecode(data), draft, dir_fd=parent)
        else:
            mode = 0o755 if one.kind == "exec" else 0o644
            opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=parent)
            with os.fdopen(opened, "wb") as file:
                file.write(data)
        if _is_folder(name, parent):
            os.rmdir(name, dir_fd=parent)
        os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        os.close(parent)


def _is_folder(name: str, parent: int) -> bool:
    try:
        os.close(os.open(name, FOLDER, dir_fd=parent))
    except OSError:
        return False
    return True


def _remove(folder: Path, path: str) -> None:
    """Remove a file, and the folders that are empty then."""
    (folder / path).unlink(missing_ok=True)
    for above in PurePosixPath(path).parents:
        place = folder / above
        if place == folder or any(place.iterdir()):
            return
        place.rmdir()
