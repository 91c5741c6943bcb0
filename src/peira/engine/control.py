"""Stopping a run: stop requests, and commands sent by other processes.

Commands are JSON files renamed into a folder beside the store; the process that owns the store executes them.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from peira.core.log.events import Status
from peira.errors import Abandoned, Exhausted, Invalid
from peira.spec.limits import Policy


@dataclass(frozen=True)
class StopRequest:
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


CANCEL = "cancel"
"""The only command there is."""
MOST_BYTES = 10_000
"""Larger files in the folder are not commands."""


@dataclass(frozen=True)
class Command:
    """A command to the run with this id; `by` is the user who sent it, `id` makes it unique."""

    command: str
    run: str
    by: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


_decode = msgspec.json.Decoder(Command).decode


class ControlFolder:
    """The folder through which processes send commands to the owner of a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def send(self, command: Command) -> None:
        """Write the command atomically and durably: to a hidden file, renamed when it is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{command.id}"
        with draft.open("w") as file:
            file.write(json.dumps(asdict(command)))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self.folder / f"{command.id}.json")
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def holds(self, command: Command) -> bool:
        """Whether the command is still queued: the owner has not taken it."""
        return (self.folder / f"{command.id}.json").exists()

    def take(self) -> list[Command]:
        """Read and delete the commands that have arrived; files that are no commands are deleted."""
        if not self.folder.is_dir():
            return []
        return [
            c for name in sorted(os.listdir(self.folder)) if name.endswith(".json") for c in self._read(name)
        ]

    def _read(self, name: str) -> list[Command]:
        """The command in a file (none if it is malformed, too large or a symlink); deletes the file."""
        file = self.folder / name
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_BYTES:
            _discard(file)
            return []
        try:
            return [_decode(file.read_bytes())]
        except msgspec.DecodeError:
            return []
        finally:
            _discard(file)

    def clear(self) -> None:
        """Delete all commands without executing them."""
        self.take()


def _discard(file: Path) -> None:
    """Delete a file or folder that is not (or no longer) a command."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file, ignore_errors=True)
    else:
        file.unlink(missing_ok=True)


def requester() -> str:
    """The user who sends a command, for the log."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid {os.getuid()}"


def check(command: str) -> None:
    """Raise Invalid if there is no such command."""
    if command != CANCEL:
        raise Invalid(f"unknown command {command!r}")
