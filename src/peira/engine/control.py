"""Control of runs: stop requests, and the folder through which other processes send commands."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from peira.core.contracts import Commands, Ownership
from peira.core.failpoints import reach
from peira.core.log.events import Status
from peira.errors import Abandoned, Exhausted, Invalid
from peira.spec.limits import Policy

BY = "PEIRA_BY"
"""The environment variable that says for whom a process acts, if not for the user who started it."""


class StopRequest(msgspec.Struct, frozen=True):
    """A request to stop a run, with the status and exit code the run will end with.

    With `now`, attempts under way are abandoned; otherwise they may finish.
    """

    status: Status
    reason: str
    now: bool = False
    exit_code: int = 1

    @property
    def signal(self) -> Abandoned:
        """The exception with which attempts under way are abandoned."""
        return (Exhausted if self.status is Status.stopped else Abandoned)(self.reason)

    @staticmethod
    def interrupted(now: bool = False) -> StopRequest:
        """Ctrl-C or SIGTERM; the second one (`now`) abandons what is running."""
        return StopRequest(Status.interrupted, "interrupted", now, exit_code=130)

    @staticmethod
    def cancelled(by: str) -> StopRequest:
        """Cancelled by `by` (a user's command, or a handle): abandons what is running."""
        return StopRequest(Status.cancelled, f"cancelled by {by}", now=True)

    @staticmethod
    def failing(reason: str) -> StopRequest:
        """Too many failures, by the policy."""
        return StopRequest(Status.stopped, reason)

    @staticmethod
    def limit(reason: str, now: bool = False) -> StopRequest:
        """A limit of the budget was reached; exit code 3."""
        return StopRequest(Status.stopped, reason, now, exit_code=3)


def most_failures(policy: Policy, planned: int | None) -> int | None:
    """The number of failures the policy allows: a count, or a fraction of `planned`.

    None if there is no limit, or if it is a fraction and `planned` is not known.
    """
    most: int | float | None = policy.max_failures
    if isinstance(most, float):
        return None if planned is None else int(most * planned)
    return most


CANCEL, PAUSE, RESUME, ADJUST, ANSWER, SKIP = COMMANDS = (
    "cancel",
    "pause",
    "resume",
    "adjust",
    "answer",
    "skip",
)
"""The commands there are; `engine.commands` executes them."""
MOST_BYTES = 16 * 2**20
"""The size of the largest command; larger files in the folder are not commands."""
OLD_DRAFT = 3600.0
"""Seconds after which a draft is one that a killed process left."""


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command to the owner of a store; `by` is the user who sent it, `id` makes it unique.

    `run` is the id of the run that it is about ("" if it is about none), `tasks` are tasks of that run;
    `body` has what else the command needs.
    """

    command: str
    run: str
    by: str
    id: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    tasks: tuple[str, ...] = ()
    body: dict[str, Any] = {}


class ControlFolder:
    """The folder through which processes send commands to the owner of a store.

    A command is a file `TIME-ID.json`, complete and durable once it is there: the names are in the order of
    sending. Its file is removed after it was executed and that was committed, so a command outlives every
    process; who finds one again executes it again, and that changes nothing.
    """

    _last = 0
    _naming = threading.Lock()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: dict[str, str] = {}  # of what was sent from here, by command id

    def send(self, command: Command) -> None:
        """Write the command atomically and durably: to a hidden file, renamed when it is complete."""
        content = msgspec.json.encode(command)
        if len(content) > MOST_BYTES:
            raise Invalid(f"{command.command}: {len(content):,} bytes are too many: at most {MOST_BYTES:,}")
        self.folder.mkdir(parents=True, exist_ok=True)
        draft, name = self.folder / f".{command.id}", f"{self._now():020d}-{command.id}.json"
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        reach("control.before_rename")
        draft.rename(self.folder / name)
        self._names[command.id] = name
        self._sync()

    @classmethod
    def _now(cls) -> int:
        """The time in nanoseconds, each given once in this process: commands keep their order."""
        with cls._naming:
            cls._last = max(cls._last + 1, time.time_ns())
            return cls._last

    def _sync(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def holds(self, command: Command) -> bool:
        """Whether a command that was sent from here is still queued: no owner has executed it."""
        return (self.folder / self._names[command.id]).exists()

    def pending(self) -> Iterator[tuple[Path, Command]]:
        """The commands that have arrived, in the order of sending, each with its file.

        Files that are no commands (malformed, too large, links) are deleted.
        """
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return
        for name in sorted(names):
            file = self.folder / name
            if name.endswith(".json") and not name.startswith("."):
                if (command := self._read(file)) is None:
                    self.remove(file)
                else:
                    yield file, command
            elif name.startswith("."):
                self._sweep(file)

    def _read(self, file: Path) -> Command | None:
        """The command in a file; None if there is none."""
        try:
            if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_BYTES:
                return None
            return msgspec.json.decode(file.read_bytes(), type=Command)
        except (msgspec.MsgspecError, RecursionError, FileNotFoundError):  # or its owner was faster
            return None

    def _sweep(self, file: Path) -> None:
        """Delete a draft that a killed process left."""
        with suppress(OSError):
            if time.time() - file.lstat().st_mtime > OLD_DRAFT:
                self.remove(file)

    def remove(self, file: Path) -> None:
        """Delete the file of a command that was executed, or a file that is none."""
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)


class StoreCommands:
    """The commands of a store that carries them itself; as `ControlFolder` otherwise."""

    def __init__(self, store: Commands) -> None:
        self._store = store

    def send(self, command: Command) -> None:
        """Leave the command in the store, durably."""
        content = msgspec.json.encode(command)
        if len(content) > MOST_BYTES:
            raise Invalid(f"{command.command}: {len(content):,} bytes are too many: at most {MOST_BYTES:,}")
        self._store.send_command(command.id, content)

    def holds(self, command: Command) -> bool:
        """Whether the command is still queued: no owner has executed it."""
        return self._store.command_queued(command.id)

    def pending(self) -> Iterator[tuple[str, Command]]:
        """The commands that have arrived, in the order of sending; what is no command is removed."""
        for id, body in self._store.pending_commands():
            try:
                yield id, msgspec.json.decode(body, type=Command)
            except (msgspec.MsgspecError, RecursionError):
                self.remove(id)

    def remove(self, id: str) -> None:
        """Remove a command that was executed."""
        self._store.remove_command(id)


Control = ControlFolder | StoreCommands
"""The way in which commands reach the owner of a store."""


def control_of(store: Ownership) -> Control | None:
    """The way in which commands reach the owner of this store; None if there is none."""
    if isinstance(store, Commands):
        return StoreCommands(store)
    folder = store.folder("control")
    return None if folder is None else ControlFolder(folder)


def commands_pending(store: Ownership) -> bool:
    """Whether commands for the owner of a store have arrived."""
    control = control_of(store)
    return control is not None and any(True for _ in control.pending())


def requester() -> str:
    """Who sends a command or starts a run, for the log: the user, unless `PEIRA_BY` says who asked for it."""
    return os.environ.get(BY) or os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid {os.getuid()}"
