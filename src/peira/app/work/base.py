"""The base of a work plan: the files that its units start from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from peira.core.ids import digest_bytes
from peira.errors import Invalid
from peira.sandbox.file_tree import FileTree, ObjectFolder, read_tree, tree_digest
from peira.sandbox.git import GitRepository
from peira.spec.work.plan import WorkPlan

GIT_BASE = "git:"


@dataclass(frozen=True)
class BaseFiles:
    """The files of a base; `folder` is where changes can be applied, `commit` what they stand on, if any."""

    files: FileTree
    digest: str
    folder: Path
    repository: GitRepository | None = None
    commit: str = ""


def read_base(plan: WorkPlan, objects: ObjectFolder | None, left_out: Iterable[Path] = ()) -> BaseFiles:
    """Read the files of a plan's base; their contents go to `objects`, if given.

    Of a folder in a git repository, those that git does not ignore count. The files in `left_out`, and those
    whose names begin like them (a store has several), are no part of it. Invalid if there is no such base.
    """
    put = objects.put if objects else digest_bytes
    if plan.base is None:
        return BaseFiles({}, tree_digest({}), Path(plan.folder))
    if plan.base.startswith(GIT_BASE):
        folder = Path(plan.folder)
        repository = GitRepository.of(folder)
        if repository is None:
            raise Invalid(f"base: {folder} is in no git repository")
        commit = repository.commit(plan.base.removeprefix(GIT_BASE))
        files = repository.tree(commit, put)
        return BaseFiles(files, tree_digest(files), repository.root(), repository, commit)
    folder = Path(plan.folder, plan.base)
    if not folder.is_dir():
        raise Invalid(f"base: there is no folder {str(folder)!r}")
    folder = folder.resolve()
    repository = GitRepository.of(folder)
    paths = _without(repository.listed() if repository else _all(folder), folder, left_out)
    try:
        files = read_tree(folder, put, paths)
    except OSError as error:
        raise Invalid(f"base: cannot read {error.filename}: {error.strerror or error}") from None
    head = repository.head() if repository else ""
    return BaseFiles(files, tree_digest(files), folder, repository, head)


def _all(folder: Path) -> list[str]:
    """The paths of all files below a folder but those of git; links are not followed."""
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        found += [Path(parent, name).relative_to(folder).as_posix() for name in sorted([*files, *links])]
    return found


def _without(paths: Iterable[str], folder: Path, left_out: Iterable[Path]) -> list[str]:
    """The paths that are none of these, and do not begin like one of them."""
    prefixes = []
    for path in left_out:
        whole = path.absolute().parent.resolve() / path.name
        if whole.is_relative_to(folder):
            prefixes.append(whole.relative_to(folder).as_posix())
    return [path for path in paths if not any(path.startswith(prefix) for prefix in prefixes)]
