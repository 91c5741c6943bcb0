"""Commands from other processes: a file renamed into a folder beside the store, executed by the owner.

The answer is an event of the run. A command that nobody executes harms nobody: an owner that starts
later throws away what it finds.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from peira.errors import Invalid

CANCEL = "cancel"
MOST_BYTES = 10_000


@dataclass(frozen=True)
class Command:
    command: str
    run: str
    by: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


_decode = msgspec.json.Decoder(Command).decode


class ControlFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def send(self, command: Command) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{command.id}"
        draft.write_text(json.dumps(asdict(command)))
        draft.rename(self.folder / f"{command.id}.json")

    def take(self) -> list[Command]:
        """The commands that have arrived, each once; what is not a command is thrown away."""
        if not self.folder.is_dir():
            return []
        return [
            c for name in sorted(os.listdir(self.folder)) if name.endswith(".json") for c in self._read(name)
        ]

    def _read(self, name: str) -> list[Command]:
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
        self.take()


def _discard(file: Path) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file, ignore_errors=True)
    else:
        file.unlink(missing_ok=True)


def who() -> str:
    """Who is asking, for the record."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid {os.getuid()}"


def check(command: str) -> None:
    if command != CANCEL:
        raise Invalid(f"unknown command {command!r}")
