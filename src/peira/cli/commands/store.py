"""`peira cancel`, `verify`, `backup`, `doctor`: stop a run, check or copy a store, check the installation."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import apsw
import msgspec
import typer

from peira.app.control import Cancellation
from peira.app.control import cancel as stop
from peira.app.session import Session
from peira.app.store.access import StoreLike, exists, locate, owner
from peira.app.store.runs import MOST_RUNS
from peira.app.store.view import Opened, looking
from peira.cli import errors
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, note
from peira.cli.render import run_document
from peira.cli.run_summary import next_command
from peira.core.ids import short
from peira.core.text.words import counted
from peira.errors import PeiraError, StoreInUse
from peira.models.http.pool import changed
from peira.sandbox.confinement import Confinement, confinement
from peira.spec.project import FILE, Project, project_file
from peira.stores.verify import verify as problems_of


def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The first digits of the run's id.")],
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Stop a run, wherever it is running, and say what was stopped.

    Running trials are ended too. What was recorded stays, and the run can be gone on with. The exit code
    is 1 if the run was over already.

    \b
    Examples:
      peira cancel 3f2a91
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        found = stop(run, session)
    stopped = {"cancelled": found.done, "stopped_running": found.running, "never_started": found.unstarted}
    out.document({**run_document(found.run), **stopped})
    if not found.done:
        return errors.say([f"run {short(found.run.id)} was over already: {found.run.status}"], 1)
    out.text(_cancelled_text(found, store))
    return 0


def _cancelled_text(found: Cancellation, store: str | None) -> str:
    """What a cancellation stopped."""
    left = counted(found.unstarted, "trial")
    stopped = f"{found.running} running stopped, {left} not begun"
    return (
        f"run {short(found.run.id)} of {found.run.study} is cancelled: "
        f"{stopped if found.alive else f'its process had gone, {left} not begun'}\n"
        f"to go on with it: {next_command('run', found.run.id, store)}"
    )


def verify(store: Store = None, as_json: Json = False) -> int:
    """Check a store: replay its events, check every digest.

    Says every way in which the store contradicts itself. The exit code is 1 if there is one.

    \b
    Examples:
      peira verify
      peira verify --store capitals.db
    """
    out, session = CommandOutput(as_json), Session.find(store)
    path = session.store if store is None else store
    with session.reading() as opened:
        if opened.owner() is not None:
            raise StoreInUse(f"the store {path} is in use: it can be checked once that run has ended")
        problems = problems_of(opened)
    out.document({"store": str(path), "ok": not problems, "problems": problems})
    for problem in problems:
        out.text(problem)
    out.text(f"{path}: {counted(len(problems), 'problem') if problems else 'sound'}")
    return int(bool(problems))


def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to copy it; it must not exist yet.")],
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Copy a store to a file, also while a run is writing it.

    The copy is the store as it is at one moment, with everything that is recorded, and is used like any
    store. Large payloads are beside it, in the folder FILE.blobs. Nothing is replaced; a copy that is cut off
    is no store, and the same command completes it.

    \b
    Examples:
      peira backup capitals-2026-08.db
      peira runs --store capitals-2026-08.db
    """
    out = CommandOutput(as_json)
    with looking(store) as opened:
        target = opened.backup(file)
    copied = Opened(target)
    size, runs = copied.size(), len(copied.runs(limit=MOST_RUNS))
    out.document({"store": str(target), "runs": runs, "bytes": size})
    out.text(f"{file}: {counted(runs, 'run')}, {size / 1024**2:,.1f} MiB")
    note(f"to check it: {shlex.join(['peira', 'verify', '--store', file])}")


OLDEST_SQLITE = (3, 51, 3)
"""The oldest release of SQLite that is supported."""
LITTLE = 500 * 1024 * 1024
"""Less free space on the store's disk is a problem."""
PROGRAMS = {
    "chromium": (
        ("chromium", "chromium-browser", "google-chrome"),
        "needed only for reports as PDF",
    ),
}


class HealthCheck(msgspec.Struct, frozen=True):
    """One line of `peira doctor`; what is `missing` is optional, and no problem."""

    name: str
    ok: bool
    detail: str
    missing: bool = False


def doctor(store: Store = None, as_json: Json = False) -> int:
    """Check that peira can work here.

    Python, SQLite, the store's disk and lock, packages, programs, the project file. The exit code is 1 if
    there is a problem.

    \b
    Examples:
      peira doctor
    """
    out = CommandOutput(as_json)
    checks = list(_checks(store))
    fine = all(check.ok for check in checks)
    out.document({"ok": fine, "checks": checks})
    for check in checks:
        word = "missing" if check.missing else "ok" if check.ok else "problem"
        out.text(f"{word:<9}{check.name:<12}{check.detail}")
    return int(not fine)


def _checks(store: str | None) -> Iterator[HealthCheck]:
    """All checks, in the order in which they are shown."""
    yield HealthCheck("python", sys.version_info >= (3, 11), f"{platform.python_version()} (3.11 or newer)")
    yield _sqlite()
    yield from _packages()
    yield _aiohttp()
    yield from _programs()
    project, check = _project()
    yield check
    try:
        path = locate(store, project)
        there = exists(path, project)
    except PeiraError as problem:
        yield HealthCheck("store", False, str(problem))
        return
    yield HealthCheck("store", True, f"{path}{'' if there else ' (not there yet)'}")
    if isinstance(path, Path):
        yield from _disk(path)
    yield _lock(path, project)


def _sqlite() -> HealthCheck:
    """The release of SQLite."""
    found = apsw.sqlite_lib_version()
    known = tuple(map(int, found.split(".")[:3]))
    return HealthCheck(
        "sqlite", known >= OLDEST_SQLITE, f"{found} ({'.'.join(map(str, OLDEST_SQLITE))} or newer)"
    )


def _packages() -> Iterator[HealthCheck]:
    """Whether all required packages are installed."""
    names = [line.split(";")[0] for line in requires("peira") or () if "extra ==" not in line]
    found = {name: _version(name) for name in sorted(_bare(line) for line in names)}
    missing = [name for name, known in found.items() if known is None]
    detail = f"missing: {', '.join(missing)}" if missing else f"all {len(found)} are installed"
    yield HealthCheck("packages", not missing, detail)
    yield from _extras()


EXTRAS = {
    "data": "Parquet files",
    "frame": "results.frame()",
    "hub": "data sets of Hugging Face, and benchmarks without --data",
    "metrics": "math_equal, fuzzy, rouge, bleu, chrf",
    "code": "code_bleu",
    "plot": "plots in reports",
    "stats": "mixed models (effects --model)",
    "otel": "telemetry to OpenTelemetry",
    "local": "models inside the process (local:)",
    "testing": "the conformance suites of peira.testing",
}
"""The extras that add something, and what that is."""


def _extras() -> Iterator[HealthCheck]:
    """Which extras are installed; one that is missing is no problem, and says what it is for."""
    lines = requires("peira") or ()
    for extra, purpose in EXTRAS.items():
        marks = (f'extra == "{extra}"', f"extra == '{extra}'")
        names = [_bare(line.split(";")[0]) for line in lines if any(mark in line for mark in marks)]
        if not names:
            continue
        missing = [name for name in names if _version(name) is None]
        found = ", ".join(f"{name} {_version(name)}" for name in names)
        advice = f"no {', '.join(missing)}; needed only for {purpose}: pip install 'peira[{extra}]'"
        yield HealthCheck(extra, True, advice if missing else found, missing=bool(missing))


def _aiohttp() -> HealthCheck:
    """Whether aiohttp's internals are used directly."""
    why = asyncio.run(_changed())
    how = (
        f"changed inside ({why}): calls go through plain sessions, which is slower"
        if why
        else "used directly"
    )
    return HealthCheck("aiohttp", True, f"{_version('aiohttp')}, {how}")


async def _changed() -> str:
    """Call `changed` on a running event loop, which it needs."""
    return changed()


def _bare(requirement: str) -> str:
    """The name in a requirement."""
    return "".join(c if c.isalnum() or c in "-_" else " " for c in requirement).split()[0]


def _version(name: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _programs() -> Iterator[HealthCheck]:
    """Optional programs, and the sandbox."""
    for name, (commands, purpose) in PROGRAMS.items():
        found = next(filter(None, map(shutil.which, commands)), None)
        yield HealthCheck(name, True, found or f"not installed; {purpose}", missing=not found)
    sandbox = confinement()
    if isinstance(sandbox, Confinement):
        yield HealthCheck("sandbox", True, "generated code can be run in one")
    else:
        yield HealthCheck("sandbox", True, sandbox, missing=True)


def _project() -> tuple[Project, HealthCheck]:
    """The project, and whether its file and plug-ins can be loaded."""
    try:
        project = Project.find()
        project.load_plugins()
    except PeiraError as problem:
        return Project(), HealthCheck("project", False, "; ".join(str(problem).splitlines()))
    file = project_file(project.folder)
    return project, HealthCheck("project", True, str(file) if file else f"no {FILE}; the defaults hold")


def _disk(path: Path) -> Iterator[HealthCheck]:
    """Checks of the disk of the store's folder, or of the nearest folder above that exists."""
    folder = next(parent for parent in path.resolve().parents if parent.is_dir())
    free = shutil.disk_usage(folder).free
    yield HealthCheck("disk", free >= LITTLE, f"{free / 1024**3:,.1f} GiB free at {folder}")
    yield _tried("write", lambda: _write(folder), f"a file can be written and synced in {folder}")


def _write(folder: Path) -> None:
    """Write and sync a temporary file."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".peira-doctor-") as file:
        file.write(b"peira")
        file.flush()
        os.fsync(file.fileno())


def _tried(name: str, attempt: Callable[[], None], fine: str) -> HealthCheck:
    """A check that an operation raises no OSError."""
    try:
        attempt()
    except OSError as problem:
        return HealthCheck(name, False, f"{problem.strerror}: {problem.filename}")
    return HealthCheck(name, True, fine)


def _lock(store: StoreLike, project: Project) -> HealthCheck:
    """Who owns the store."""
    holder = owner(store, project)
    if holder is None:
        return HealthCheck("lock", True, "free")
    return HealthCheck(
        "lock", True, f"held by process {holder['pid']}, which is running" if "pid" in holder else "held"
    )
