"""`peira doctor`: can peira work here? One line a check, ok or problem."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import apsw
import msgspec

from peira.api.stores import locate
from peira.cli.options import Json, Store
from peira.cli.output import Output
from peira.errors import PeiraError
from peira.sandbox.confine import Confinement, confinement
from peira.spec.project import FILE, Project
from peira.stores.sqlite.lock import owner

OLDEST_SQLITE = (3, 51, 3)
LITTLE = 500 * 1024 * 1024
PROGRAMS = {
    "chromium": (
        ("chromium", "chromium-browser", "google-chrome"),
        "needed only by peira's own tests of pages",
    ),
}


class Check(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    detail: str


def doctor(store: Store = None, as_json: Json = False) -> int:
    """Check that peira can work here.

    Python, SQLite, the store's disk and lock, packages, programs, the project file. The exit code is 1 if
    there is a problem.

    \b
    Examples:
      peira doctor
    """
    out = Output(as_json)
    checks = list(_checks(store))
    fine = all(check.ok for check in checks)
    out.document({"ok": fine, "checks": checks})
    for check in checks:
        out.text(f"{'ok' if check.ok else 'problem':<9}{check.name:<12}{check.detail}")
    return int(not fine)


def _checks(store: str | None) -> Iterator[Check]:
    yield Check("python", sys.version_info >= (3, 11), f"{platform.python_version()} (3.11 or newer)")
    yield _sqlite()
    yield from _packages()
    yield from _programs()
    project, check = _project()
    yield check
    try:
        path = locate(store, project)
        assert isinstance(path, Path)
    except PeiraError as problem:
        yield Check("store", False, str(problem))
        return
    yield Check("store", True, f"{path}{'' if path.exists() else ' (not there yet)'}")
    yield from _disk(path)
    yield _lock(path)


def _sqlite() -> Check:
    found = apsw.sqlite_lib_version()
    known = tuple(map(int, found.split(".")[:3]))
    return Check("sqlite", known >= OLDEST_SQLITE, f"{found} ({'.'.join(map(str, OLDEST_SQLITE))} or newer)")


def _packages() -> Iterator[Check]:
    names = [line.split(";")[0] for line in requires("peira") or () if "extra ==" not in line]
    found = {name: _version(name) for name in sorted(_bare(line) for line in names)}
    missing = [name for name, known in found.items() if known is None]
    detail = f"missing: {', '.join(missing)}" if missing else f"all {len(found)} are installed"
    yield Check("packages", not missing, detail)
    frames = _version("pandas")
    yield Check("pandas", True, frames or "not installed; needed only for results.frame()")


def _bare(requirement: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else " " for c in requirement).split()[0]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _programs() -> Iterator[Check]:
    for name, (commands, purpose) in PROGRAMS.items():
        found = next(filter(None, map(shutil.which, commands)), None)
        yield Check(name, True, found or f"not installed; {purpose}")
    sandbox = confinement()
    fine = "generated code can be run in one" if isinstance(sandbox, Confinement) else sandbox
    yield Check("sandbox", True, fine)


def _project() -> tuple[Project, Check]:
    try:
        project = Project.find()
        project.load_plugins()
    except PeiraError as problem:
        return Project(), Check("project", False, "; ".join(str(problem).splitlines()))
    file = project.folder / FILE
    return project, Check("project", True, str(file) if file.exists() else f"no {FILE}; the defaults hold")


def _disk(path: Path) -> Iterator[Check]:
    """At the store's folder, or where that would be made."""
    folder = next(parent for parent in path.resolve().parents if parent.is_dir())
    free = shutil.disk_usage(folder).free
    yield Check("disk", free >= LITTLE, f"{free / 1024**3:,.1f} GiB free at {folder}")
    yield _tried("write", lambda: _write(folder), f"a file can be written and synced in {folder}")


def _write(folder: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".peira-doctor-") as file:
        file.write(b"peira")
        file.flush()
        os.fsync(file.fileno())


def _tried(name: str, attempt: Callable[[], None], fine: str) -> Check:
    try:
        attempt()
    except OSError as problem:
        return Check(name, False, f"{problem.strerror}: {problem.filename}")
    return Check(name, True, fine)


def _lock(path: Path) -> Check:
    holder = owner(path.with_name(f"{path.name}.lock"))
    if holder is None:
        return Check("lock", True, "free")
    return Check(
        "lock", True, f"held by process {holder['pid']}, which is running" if "pid" in holder else "held"
    )
