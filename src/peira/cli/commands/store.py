"""`peira verify`, `backup`, `db`, `doctor`: runs, stores, servers and the installation."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import apsw
import msgspec
import typer

from peira.app.session import Session
from peira.app.store.access import StoreLike, exists, locate, owner
from peira.app.store.runs import MOST_RUNS
from peira.app.store.view import Opened, looking
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, note
from peira.core.contracts import Snapshots
from peira.core.text.words import counted
from peira.errors import Invalid, PeiraError, StoreInUse, Unknown
from peira.models.http.pool import changed
from peira.sandbox.confinement import Confinement, confinement
from peira.spec.project import FILE, Project, project_file
from peira.stores.postgres import postgres_scheme
from peira.stores.postgres.server import PrivateServer
from peira.stores.verify import verify as problems_of


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
        if opened.owner() is not None and not isinstance(opened, Snapshots):
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


class ServerAction(StrEnum):
    """The actions of `peira db`."""

    start = "start"
    stop = "stop"
    url = "url"
    roles = "roles"


def db(
    action: Annotated[
        ServerAction,
        typer.Argument(
            metavar="start|stop|url|roles",
            help="Start it, stop it, say its address, or set up roles for those who use a store.",
        ),
    ],
    worker: Annotated[
        list[str] | None,
        typer.Option(metavar="LOGIN", help="With roles: a login of the database that may write runs."),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(metavar="LOGIN", help="With roles: a login of the database that may only look."),
    ] = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Run a private Postgres server, whose address is given to --store.

    Its programs come with pip install 'peira[postgres-server]', or are the system's. Only programs of this
    machine reach it, through a socket in its folder: .peira/postgres of the project, or the one that --store
    names here. What is in it stays when it is stopped.

    `roles` is about any database: --store is the address of a store, for which two roles are created, or
    renewed. A worker can write runs, and cannot change or delete what was recorded; a reader changes nothing.

    \b
    Examples:
      peira db start
      peira run capitals.py --store "$(peira db url)"
      peira db stop
      peira db roles --store postgresql://me@host/lab --worker cluster
    """
    out = CommandOutput(as_json)
    if action is ServerAction.roles:
        _roles(out, Session.find(store).store, worker or (), reader or ())
        return
    if worker or reader:
        raise Invalid("--worker and --reader are for `peira db roles`")
    if store is not None and "://" in store:
        raise Invalid("store: for `peira db` it is the folder of the server's data, not an address")
    server = PrivateServer(Path(store) if store else Project.find().folder / ".peira" / "postgres")
    if action is ServerAction.start:
        server.start()
    elif action is ServerAction.stop:
        server.stop()
    elif server.pid is None:
        raise Unknown(f"no server is running in {server.folder}: start it with `peira db start`")
    out.document({"url": server.url, "folder": str(server.folder), "pid": server.pid})
    if action is ServerAction.stop:
        out.text("stopped")
        return
    out.text(server.url)
    if action is ServerAction.start:
        note(f"to use it: {shlex.join(['peira', 'run', 'STUDY', '--store', server.url])}")


def _roles(out: CommandOutput, address: StoreLike, workers: Sequence[str], readers: Sequence[str]) -> None:
    """`peira db roles`."""
    if not isinstance(address, str) or not address.startswith("postgresql://"):
        raise Invalid("store: `peira db roles` is about a store in Postgres: --store postgresql://...")
    postgres_scheme()  # says what to install
    from peira.stores.postgres.scheme import PostgresScheme

    roles = PostgresScheme().set_up_roles(address, workers, readers)
    out.document({"worker": roles.worker, "reader": roles.reader})
    out.text(f"{roles.worker}: writes runs; cannot change or delete what was recorded")
    out.text(f"{roles.reader}: looks, and changes nothing")
    if not workers and not readers:
        note(f'to give one to a login: GRANT "{roles.worker}" TO "LOGIN", or peira db roles --worker LOGIN')


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
    width = max(len(check.name) for check in checks) + 2
    for check in checks:
        word = "missing" if check.missing else "ok" if check.ok else "problem"
        out.text(f"{word:<9}{check.name:<{width}}{check.detail}")
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
    yield HealthCheck("storage", True, _storage(project, tables=isinstance(path, Path)))
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
    "postgres": "stores in a Postgres database (--store postgresql://...)",
    "postgres-server": "a Postgres server of one's own (peira db start)",
    "ray": "attempts and workers on a Ray cluster (--runner ray)",
    "s3": "large payloads of such stores in a bucket (blobs=s3://...)",
    "mcp": "MCP servers as tools of agents",
    "testing": "the conformance suites of peira.testing",
}
"""The extras that add something, and what that is."""


BRIDGES = {
    "litellm": "models of vendors with an API of their own (litellm:)",
    "mlflow": "exports to MLflow",
    "wandb": "exports to Weights & Biases",
}
"""Packages that are no extra, because of their size or their own needs, and what peira uses them for."""


def _extras() -> Iterator[HealthCheck]:
    """Which extras and bridges are installed; one that is missing is no problem, and says what it is for."""
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
    for name, purpose in BRIDGES.items():
        known = _version(name)
        advice = f"not installed; needed only for {purpose}: pip install {name}"
        yield HealthCheck(name, True, f"{name} {known}" if known else advice, missing=known is None)


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


def _storage(project: Project, tables: bool) -> str:
    """How payloads are kept, unless a study says otherwise; whether the store can have `tables`."""
    kept = project.storage
    answers = "raw answers kept" if kept.responses == "keep" else "raw answers dropped when a run ends"
    payloads = "payloads kept" if kept.payloads == "keep" else "payloads as digests only"
    listed = "tables for other programs" if kept.tables and tables else "no tables for other programs"
    return f"compression {kept.compression}, {answers}, {payloads}, {listed}"


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
