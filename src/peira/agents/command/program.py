"""The program of a command: where it is, what of this machine it needs to see, and its digest."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from peira.core.ids import digest_bytes
from peira.errors import Invalid

SHEBANG = 256
DEPTH = 4
"""How many interpreters of interpreters are followed."""
MODULES = "node_modules"
SHIMS = "shims"
"""The folder of programs that look for the right version of themselves (pyenv, asdf): no use in a sandbox."""


@dataclass(frozen=True)
class Program:
    """A program as it is started: its `path`, the `mounts` that it needs in a sandbox, and its `digest`.

    `path` is relative for a file of the command's own folder.
    """

    path: str
    mounts: tuple[str, ...] = ()
    digest: str = ""

    @property
    def folder(self) -> str:
        """The folder that it lies in; "" for a file of the command's own folder."""
        return os.path.dirname(self.path) if os.path.isabs(self.path) else ""


def find_program(name: str, files: Collection[str]) -> Program:
    """The program of this name: a file of the command's folder, a path, or one on the PATH.

    Raises Invalid if there is none.
    """
    own = os.path.normpath(name)
    if own in files and "/" in name:
        return Program(f"./{own}")
    path = name if os.path.isabs(name) else _on_path(name)
    if path is None or not os.access(path, os.X_OK) or os.path.isdir(path):
        raise Invalid(f"command: there is no program {name!r} here{_hint(own, files)}")
    path = os.path.abspath(path)
    digest = _digest(path, os.stat(path).st_mtime_ns)
    return Program(path, tuple(dict.fromkeys(_needed(path))), digest)


def _on_path(name: str) -> str | None:
    """The first program of this name on the PATH that is not the shim of a version manager.

    Python is that of this process if there is no other.
    """
    for folder in os.get_exec_path():
        if Path(folder).name != SHIMS and (found := shutil.which(name, path=folder)):
            return found
    return sys.executable if name in ("python", "python3") else None


def _hint(name: str, files: Collection[str]) -> str:
    """What may be meant by the name of a file of the command's folder."""
    return f"; write ./{name} for the file" if name in files else ""


@lru_cache(maxsize=64)
def _digest(path: str, changed: int) -> str:
    """The digest of a program, computed once as long as it does not change."""
    return digest_bytes(Path(path).read_bytes())


def _needed(path: str, depth: int = 0) -> Iterator[str]:
    """What has to be mounted so that the program can be executed in a sandbox."""
    if not _visible(path):
        yield from _installation(path)
    real = os.path.realpath(path)
    if real != path and not _visible(real):
        yield from _installation(real)
    if depth < DEPTH and (interpreter := _interpreter(real)):
        yield from _needed(interpreter, depth + 1)


def _installation(path: str) -> Iterator[str]:
    """The folder that a program needs around itself: its virtual environment, or its node_modules."""
    environment = Path(path).parent.parent
    if (environment / "pyvenv.cfg").is_file():
        yield str(environment)
        return
    parts = Path(path).parts
    if MODULES in parts:
        yield str(Path(*parts[: parts.index(MODULES) + 1]))
        return
    yield path


def _interpreter(path: str) -> str:
    """The program that a script names in its first line; "" if it is no script."""
    with open(path, "rb") as file:
        first = file.read(SHEBANG).split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode(errors="replace").split()
    if not words:
        return ""
    named = next((word for word in words[1:] if not word.startswith("-")), "")
    found = shutil.which(named) if os.path.basename(words[0]) == "env" and named else words[0]
    return found if found and os.path.isfile(found) else ""


def _visible(path: str) -> bool:
    """Whether a sandbox shows this path anyway."""
    bases = (Path("/usr"), Path("/bin"), Path("/lib"), Path(os.path.realpath(sys.base_prefix)))
    hidden = Path(path).is_relative_to("/usr/src")
    return not hidden and any(Path(path).is_relative_to(base) for base in bases)
