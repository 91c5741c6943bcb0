"""One attempt at a unit that is a command: its workspace, its process, its evidence, its check.

The workspace is new: the base with the changes of everything that the unit needs. Confined, it is /work,
read-only but for what the unit may write; the kernel refuses the rest. Not confined, what it changed
elsewhere in its workspace is found afterwards, and fails it. Nothing that it wrote is executed or followed
here.
"""

from __future__ import annotations

import json
import mimetypes
import os
import signal
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from peira.agents.command.endpoint_access import EndpointAccess, bridged, endpoint_access
from peira.agents.command.program import find_program
from peira.core.context import Channel
from peira.core.ids import Json, digest_bytes
from peira.core.text.words import lasting
from peira.endpoint.session import ModelRoutes
from peira.engine.work.log import UnitLog
from peira.engine.work.monitor import LiveUnit, WorkMonitor
from peira.engine.work.record import ARTIFACTS, CHANGES, HANDOVER, LOG, UnitInputs, UnitResult
from peira.errors import Abandoned, CommandFailed, Invalid, TimedOut, carried
from peira.sandbox.confinement import (
    COMMAND_PATH,
    MIB,
    WORK,
    Confinement,
    Limits,
    SandboxView,
    process_namespace,
    program_confinement,
    unconfined_allowed,
)
from peira.sandbox.file_tree import (
    FileTree,
    ObjectFolder,
    TreeFile,
    changed_tree,
    clear_tree,
    lay_out,
    make_area,
    scanned,
)
from peira.sandbox.process import Launch
from peira.sandbox.run import held, signal_of, started
from peira.sandbox.streams import StreamExchange, never
from peira.sandbox.workspace import path_pattern
from peira.spec.work.files import read_units
from peira.spec.work.plan import WorkUnit, environment
from peira.spec.work.problems import is_inside, normal, proposal_problems

UNBOUNDED = 1 << 62
DESCRIPTORS, ENTRIES = 4096, 200_000
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
DISK_EVERY = 1.0
"""Seconds between two looks at the space that it uses."""
PLACE = "/peira"
"""Where a confined unit finds its own folders."""
PROPOSAL = "units.toml"
MOST_PROPOSAL = 2**20


class WorkBase(NamedTuple):
    """What all units of a plan start from: the files, their identity, and where contents are."""

    files: FileTree
    digest: str
    objects: ObjectFolder


class _OwnFolders:
    """The folders of one attempt beside its workspace, here and as the unit sees them."""

    def __init__(self, folder: Path, confined: bool, unit: WorkUnit) -> None:
        names = ["handover", "artifacts", *(["proposal"] if unit.grows else [])]
        self.here = {name: folder / name for name in names}
        for place in self.here.values():
            place.mkdir()
            place.chmod(0o777)
        self.needs = folder / "needs" if unit.needs else None
        self._root = PLACE if confined else str(folder)

    def there(self, name: str) -> str:
        """A folder as the unit sees it."""
        return f"{self._root}/{name}"

    @property
    def env(self) -> dict[str, str]:
        """The variables by which the unit finds them."""
        found = {"PEIRA_HANDOVER": self.there("handover"), "PEIRA_ARTIFACTS": self.there("artifacts")}
        if self.needs:
            found["PEIRA_NEEDS"] = self.there("needs")
        if "proposal" in self.here:
            found["PEIRA_UNITS"] = f"{self.there('proposal')}/{PROPOSAL}"
        return found

    @property
    def readable(self) -> tuple[tuple[str, str], ...]:
        return ((str(self.needs), self.there("needs")),) if self.needs else ()

    @property
    def writable(self) -> tuple[tuple[str, str], ...]:
        return tuple((str(place), self.there(name)) for name, place in self.here.items())


class UnitAttempt:
    """Runs a unit once; `result` is what it made, and everything that is kept is attached to its task."""

    def __init__(
        self,
        unit: WorkUnit,
        inputs: UnitInputs,
        base: WorkBase,
        channel: Channel,
        monitor: WorkMonitor,
        depth: int,
    ) -> None:
        self._unit, self._inputs, self._base, self._depth = unit, inputs, base, depth
        self._channel, self._monitor = channel, monitor
        self._means = confinement_of(unit)
        self._confined = unit.confine and self._means is not None
        self._access: EndpointAccess | None = None
        self._contents: dict[str, bytes] = {}
        self._given: frozenset[str] = frozenset()
        self._mounted: set[str] = set()
        self.artifacts: list[tuple[str, str, int, str]] = []
        """Name, digest, size and media type of what was attached."""

    def run(self) -> UnitResult:
        """What it made; raises why it failed, or what ended the attempt."""
        folder = self._channel.workdir()
        folder.chmod(0o700)
        log = UnitLog(folder / LOG)
        try:
            with self._monitor.shown(LiveUnit(self._unit.name, time.monotonic(), log, self._channel)):
                return self._run(folder, log)
        finally:
            log.end()
            for name in ("work", "check"):
                if (folder / name).exists():
                    clear_tree(folder / name)
            if log.size and not self._channel.closed:
                self._attach(LOG, log.kept(), "text/plain")

    def _run(self, folder: Path, log: UnitLog) -> UnitResult:
        unit = self._unit
        files = changed_tree(self._base.files, self._inputs.layer.changes)
        self._given = frozenset(one.digest for one in files.values())
        work = folder / "work"
        lay_out(files, work, self._base.objects, self._is_writable)
        areas = [(str(make_area(work, "/".join(normal(path)))), path) for path in unit.may_write]
        own = _OwnFolders(folder, self._confined, unit)
        self._give_needs(own)
        self._describe()
        routes = ModelRoutes(unit.models)
        token = self._inputs.key[:32] if self._confined else ""
        with endpoint_access(self._channel, routes, unit.tools, folder, token) as access:
            self._access = access
            env = {**own.env, **(access.env if access else {})}
            inside = tuple((here, "/".join((WORK, *normal(path)))) for here, path in areas)
            places = own.readable, (*inside, *own.writable)
            self._execute(unit.run, work, log, env, places, "")
            value = access.session.tools.result if access and access.session.tools else None
        changes = self._changes(files, work)
        self._demand_evidence(changes)
        if unit.check:
            self._check(files, changes, folder, log)
        handover = dict(self._kept(own.here["handover"]))
        units = self._proposal(own) if unit.grows else {}
        for prefix, found in ((CHANGES, changes), (HANDOVER, handover)):
            for path, one in found.items():
                if one is not None:
                    self._attach(prefix + path, self._content(one.digest))
        for path, one in self._kept(own.here["artifacts"]):
            self._attach(ARTIFACTS + path, self._content(one.digest))
        return UnitResult(value, changes, handover, units)

    # Before

    def _is_writable(self, path: str) -> bool:
        """Whether a path of the workspace is a copy of its own; unconfined, everything is."""
        return not self._confined or is_inside(path, self._unit.may_write)

    def _give_needs(self, own: _OwnFolders) -> None:
        """Write what its needs made where it can read it."""
        if own.needs is None:
            return
        own.needs.mkdir()
        facts: dict[str, Json] = {}
        for name, result in self._inputs.needs.items():
            facts[name] = {
                "state": "succeeded",
                "value": result.value,
                "changed": sorted(result.changes),
                "handover": sorted(result.handover),
            }
            if result.handover:
                place = own.needs / name.replace("/", ".")
                lay_out(result.handover, place, self._base.objects, lambda path: not self._confined)
        (own.needs / "needs.json").write_text(json.dumps(facts, ensure_ascii=False))

    def _describe(self) -> None:
        """Record how it runs."""
        if not self._confined:
            self._channel.report({}, {"confined": "no"})

    # The process

    def _limits(self) -> Limits:
        unit = self._unit
        return Limits(
            seconds=unit.time + GRACE + 1.0,  # asked to end before that, see `_Supervision`
            cores=os.cpu_count() or 1,
            memory=unit.memory * MIB,
            address_space=UNBOUNDED,
            processes=unit.processes,
            disk=unit.disk * MIB,
            entries=ENTRIES,
            descriptors=DESCRIPTORS,
            output=UNBOUNDED,
        )

    def _execute(
        self,
        command: Sequence[str],
        work: Path,
        log: UnitLog,
        env: Mapping[str, str],
        places: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]],
        what: str,
    ) -> None:
        """Run a command in a workspace until nothing of it is left; raises why it did not succeed."""
        unit = self._unit
        words = [unit.filled(word) for word in command]
        program = _program(words[0])
        variables = {"PEIRA_UNIT": unit.name, "PEIRA_TASK": unit.task, **environment(unit.env), **env}
        view, place = SandboxView(folder=str(work), open=True), work
        if program and (not self._confined or program.folder not in COMMAND_PATH.split(":")):
            words[0] = program.path
        if self._confined:
            mounts = (*(program.mounts if program else ()), *unit.mounts)
            if program and program.folder not in COMMAND_PATH.split(":"):
                variables = {"PATH": f"{program.folder}:{COMMAND_PATH}", **variables}
            bridge = self._access is not None and not what
            words = bridged(words) if bridge else words
            sockets = self._access.sockets if self._access and bridge else ()
            self._mounted |= _make_places(mounts, work)
            view = SandboxView(WORK, True, mounts, sockets, False, str(work), *places)
        launch = Launch(
            tuple(words),
            limits=self._limits(),
            env=variables,
            view=view,
            label=self._channel.label,
            place=None if self._confined else place,
        )
        counted = [Path(here) for here, _ in places[1]] if self._confined else [work]
        watch = _Supervision(unit, self._ended_by, counted, lambda: getattr(self._channel, "queued", 0.0))
        exchange = StreamExchange(launch.limits, _nothing, never, log, log, watch.look)
        with closing(started(self._means, launch)) as process:
            watch.root = process.process.pid
            status = held(process, exchange, b"", log.tail)
        self._raise_signal()
        if problem := self._failure(words[0], status, watch.why or exchange.ended_by, log):
            raise CommandFailed(carried(f"{what}{problem}")) if isinstance(problem, str) else problem

    def _ended_by(self) -> str:
        """Why the attempt is to be ended from outside; "" if it is not."""
        signalled = self._access is not None and self._access.session.signal is not None
        return "stopped" if signalled or self._channel.closed else ""

    def _raise_signal(self) -> None:
        """Raise what ended the attempt, if anything did."""
        if self._access and self._access.session.signal is not None:
            raise self._access.session.signal
        if self._channel.closed:
            raise Abandoned("this attempt was abandoned: its command was ended")

    def _failure(self, name: str, status: int | None, ended_by: str, log: UnitLog) -> str | Exception:
        """Why a command did not succeed; "" if it did."""
        unit, name = self._unit, Path(name).name
        if ended_by in ("time", "cpu"):
            return TimedOut(f"{name}: not over after {lasting(unit.time)}")
        if ended_by:
            most = {
                "memory": f"{unit.memory} MiB of memory",
                "disk": f"{unit.disk} MiB of files",
                "files": f"{ENTRIES:,} files",
            }.get(ended_by, ended_by)
            return f"{name}: used more than {most}, and was ended"
        if status == 0:
            return ""
        by = signal_of(status)
        said = log.last_line()
        return f"{name}: exit code {status}{f' ({by})' if by else ''}{f': {said}' if said else ''}"

    # Afterwards

    def _keep(self, content: bytes) -> str:
        """The digest of a content, which is held if it is not one that it was given."""
        name = digest_bytes(content)
        if name not in self._given:
            self._contents[name] = content
        return name

    def _content(self, name: str) -> bytes:
        found = self._contents.get(name)
        return self._base.objects.content(name) if found is None else found

    def _kept(self, folder: Path) -> Iterable[tuple[str, TreeFile]]:
        """The files of one of its own folders; links are left out."""
        found = scanned(folder, (), self._keep, self._unit.disk * MIB)
        return [(path, one) for path, one in found if one.kind != "link"]

    def _changes(self, files: FileTree, work: Path) -> dict[str, TreeFile | None]:
        """What it changed; raises CommandFailed if that is more than it may."""
        unit, most = self._unit, self._unit.disk * MIB + sum(one.size for one in files.values())
        whole = not self._confined or any(not normal(path) for path in unit.may_write)
        areas: list[tuple[str, ...]] = [()] if whole else sorted(map(normal, set(unit.may_write)))
        now: dict[str, TreeFile] = {}
        for area in areas:
            now.update(scanned(work, area, self._keep, most))
        inside = {p: one for p, one in files.items() if whole or is_inside(p, unit.may_write)}
        changes: dict[str, TreeFile | None] = {
            path: one for path, one in now.items() if inside.get(path) != one and path not in self._mounted
        }
        changes |= {path: None for path in inside if path not in now}
        outside = [path for path in changes if not is_inside(path, unit.may_write)]
        if outside:
            shown = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
            raise CommandFailed(f"it wrote outside of may_write: {shown}")
        return changes

    def _demand_evidence(self, changes: Mapping[str, TreeFile | None]) -> None:
        """Raise CommandFailed unless every pattern matches a file that is new or changed."""
        made = [path for path, one in changes.items() if one is not None and one.kind != "link"]
        missing = [pattern for pattern in self._unit.evidence if not _matches(pattern, made)]
        if missing:
            listed = ", ".join(missing)
            raise CommandFailed(f"evidence: it made or changed nothing that matches {listed}")

    def _check(
        self, files: FileTree, changes: Mapping[str, TreeFile | None], folder: Path, log: UnitLog
    ) -> None:
        """Run the check in a fresh copy of what it made."""
        copy, objects = folder / "check", self._base.objects
        for one in changes.values():
            if one is not None:
                objects.put(self._content(one.digest))
        lay_out(changed_tree(files, changes), copy, objects, lambda path: True)
        log.add(f"--- check: {' '.join(self._unit.check)}\n".encode())
        try:
            self._execute(self._unit.check, copy, log, {}, ((), ((str(copy), WORK),)), "check: ")
        except TimedOut as problem:
            raise TimedOut(f"check: {problem}") from None

    def _proposal(self, own: _OwnFolders) -> dict[str, Json]:
        """The units that it proposes, validated; CommandFailed says everything that is wrong with them."""
        found = dict(scanned(own.here["proposal"], (), self._keep, MOST_PROPOSAL))
        if PROPOSAL not in found or found[PROPOSAL].kind == "link":
            return {}
        problems: list[str] = []
        try:
            document = tomllib.loads(self._content(found[PROPOSAL].digest).decode())
        except (ValueError, RecursionError) as problem:
            raise CommandFailed(f"{PROPOSAL}: {problem}") from None
        problems += [f"{key}: only [units.NAME] may be proposed" for key in document if key != "units"]
        units = read_units(document.get("units", {}), problems)
        problems += proposal_problems(self._unit, units, self._depth)
        if problems:
            raise CommandFailed(f"{PROPOSAL}: {'; '.join(dict.fromkeys(problems))}")
        return {one.name: one.written() for one in units}

    def _attach(self, name: str, content: bytes, media: str = "") -> None:
        kind = media or mimetypes.guess_type(name)[0] or ""
        self.artifacts.append((name, self._channel.attach(name, content, kind), len(content), kind))


class _Supervision:
    """Decides when a process must end: it gets SIGTERM first, and is killed after GRACE."""

    def __init__(
        self, unit: WorkUnit, stopped: Callable[[], str], counted: list[Path], queued: Callable[[], float]
    ) -> None:
        self.root, self.why = 0, ""
        self._unit, self._stopped, self._counted, self._queued = unit, stopped, counted, queued
        self._began = time.monotonic()
        self._ending = self._next_disk = 0.0

    def look(self) -> str:
        """A reason to kill it now; "" if there is none yet."""
        now = time.monotonic()
        if not self.why:
            self.why = self._reason(now)
            if self.why:
                self._ending = now + GRACE
                self._terminate()
        return self.why if self.why and now >= self._ending else ""

    def _reason(self, now: float) -> str:
        if why := self._stopped():
            return why
        if now - self._began - self._queued() >= self._unit.time:
            return "time"
        if now >= self._next_disk:
            used = _used(self._counted, self._unit.disk * MIB)
            self._next_disk = now + max(DISK_EVERY, 20 * (time.monotonic() - now))
            return "disk" if used > self._unit.disk * MIB else ""
        return ""

    def _terminate(self) -> None:
        """Ask everything in its tree to end."""
        with suppress(psutil.Error):
            for process in psutil.Process(self.root).children(recursive=True):
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGTERM)


def _used(folders: Iterable[Path], most: int) -> int:
    """The bytes in these folders, as far as they are counted before they are more than `most`."""
    used = 0
    for folder in folders:
        for parent, _, files in os.walk(folder):
            for name in files:
                with suppress(OSError):
                    used += os.lstat(os.path.join(parent, name)).st_size
            if used > most:
                return used
    return used


def _matches(pattern: str, paths: Iterable[str]) -> bool:
    """Whether a pattern matches any of these paths; a folder matches all below it."""
    if any(mark in pattern for mark in "*?["):
        matcher = path_pattern(pattern)
        return any(matcher.fullmatch(path) for path in paths)
    return any(is_inside(path, [pattern]) for path in paths)


def _program(word: str) -> Any:
    """The program of this machine that a word names; None if it is a file of the workspace."""
    if "/" in word and not word.startswith("/"):
        return None
    return find_program(word, ())


def _make_places(mounts: Iterable[str], work: Path) -> set[str]:
    """What is mounted and lies under /work on this machine needs a place in the workspace; these places."""
    made = set()
    for mount in mounts:
        if Path(mount).is_relative_to(WORK):
            place = work / Path(mount).relative_to(WORK)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(exist_ok=True) if os.path.isdir(mount) else place.touch()
            made.add(str(place.relative_to(work)))
    return made


def confinement_of(unit: WorkUnit) -> Confinement | None:
    """What confines a unit, or keeps its processes together if it is not confined; Invalid if nothing may."""
    if not unit.confine:
        return process_namespace()
    found = program_confinement()
    if isinstance(found, Confinement):
        return found
    if not unconfined_allowed():
        raise Invalid(f"{found}, with confine = false")
    return None


def machine_problems(units: Iterable[WorkUnit]) -> list[str]:
    """Why units cannot be executed on this machine: missing programs, variables, mounts, no sandbox."""
    found: list[str] = []
    for one in units:
        if one.function is not None:
            continue
        for field, words in (("run", one.run), ("check", one.check)):
            try:
                if words:
                    _program(one.filled(words[0]))
            except Invalid as error:
                found += [f"units.{one.name}.{field}{p.removeprefix('command')}" for p in error.problems]
        try:
            environment(one.env)
        except Invalid as error:
            found += [f"units.{one.name}.{problem}" for problem in error.problems]
        found += [f"units.{one.name}.mounts: there is no {p}" for p in one.mounts if not os.path.exists(p)]
    try:
        for one in units:
            if one.function is None:
                confinement_of(one)
    except Invalid as error:
        found += [f"units: {problem}" for problem in error.problems]
    return list(dict.fromkeys(found))


def _nothing() -> None:
    """Replaced by the process's own when it has started."""
