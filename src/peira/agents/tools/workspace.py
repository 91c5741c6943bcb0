"""`shell`, `python` and `files`: tools in a sandbox without a network, which share the files of their trial.

The files of a trial are held in memory. A command gets copies of them and gives back what it made of them;
what changed is recorded with the call, so that a resumed trial goes on with the files that it had.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from peira.core.chat.tools import FunctionTool, Tool, ToolEffects, function_tool
from peira.core.context import Trial
from peira.core.ids import Json, digest_bytes
from peira.core.registry import Registry
from peira.errors import Invalid, ToolRefused
from peira.sandbox.confinement import MIB, Limits, interpreter, needs_confinement
from peira.sandbox.run import ProcessOutcome, run_confined
from peira.sandbox.workspace import checked

WORKSPACE = "workspace"
"""The name under which the tools of a trial find its workspace."""
EVERYTHING = ("**",)
MOST_SHOWN = 30_000
"""The most characters of an output that are given to a model."""
MOST_READ = 200_000
"""The most characters of a file that are given to a model at once."""


class Workspace:
    """The files of one trial, by name; one tool at a time uses them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.lock = threading.RLock()

    def replace(self, files: Mapping[str, bytes]) -> dict[str, Json]:
        """Replace the files by those after a command; returns the changed ones (base64; None: deleted)."""
        changed: dict[str, Json] = {
            name: base64.b64encode(data).decode()
            for name, data in files.items()
            if self.files.get(name) != data
        }
        changed |= {name: None for name in self.files if name not in files}
        self.files = dict(files)
        return changed

    def apply(self, changes: Mapping[str, Json]) -> None:
        """Make recorded changes again."""
        with self.lock:
            for name, data in changes.items():
                if data is None:
                    self.files.pop(name, None)
                else:
                    self.files[name] = base64.b64decode(data)


@dataclass(frozen=True)
class WorkspaceTool:
    """A tool that works on the files of a trial: a function that returns its result and what it changed."""

    inner: FunctionTool
    workspace: Workspace
    options: Json = None

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.inner.name

    @property
    def description(self) -> str:
        """What the model reads about it."""
        return self.inner.description

    @property
    def parameters(self) -> dict[str, Json]:
        """The JSON schema of its arguments."""
        return self.inner.parameters

    @property
    def identity(self) -> Json:
        """Name and options."""
        return {"tool": self.name, "options": self.options}

    def call(self, arguments: Json) -> Any:
        """Execute it, alone on these files."""
        with self.workspace.lock:
            return self.inner.call(arguments)

    def restore(self, changes: Json) -> None:
        """Make the changes of a recorded call again."""
        self.workspace.apply(changes)


@dataclass(frozen=True)
class WorkspaceTools:
    """Tools on the files of a trial, of one kind: shell, python or files."""

    name: str
    initial: Mapping[str, str] = field(default_factory=dict)
    """Files that are there from the beginning: paths on this machine, by name."""
    keep: tuple[str, ...] = ()
    """Patterns of files that are attached to the trial in the end."""
    seconds: float = 60.0
    memory: int = 1024
    disk: int = 64
    allow_unconfined: bool = False

    @property
    def options(self) -> dict[str, Json]:
        """What it was made with, without defaults."""
        default = WorkspaceTools(self.name)
        given: dict[str, Json] = {
            "files": dict(self.initial),
            "keep": list(self.keep),
            "timeout": self.seconds,
            "memory": self.memory,
            "disk": self.disk,
            "allow_unconfined": self.allow_unconfined,
        }
        usual = {
            "files": {},
            "keep": [],
            "timeout": default.seconds,
            "memory": default.memory,
            "disk": default.disk,
            "allow_unconfined": False,
        }
        return {name: value for name, value in given.items() if value != usual[name]}

    @property
    def identity(self) -> Json:
        """Its kind, its limits, and the contents of its files."""
        contents = {name: digest_bytes(self._read(path)) for name, path in sorted(self.initial.items())}
        limits = [self.seconds, self.memory, self.disk]
        return {"tool": self.name, "limits": limits, "files": contents, "confined": not self.allow_unconfined}

    def written(self) -> Json:
        """How a study file names it."""
        return {"name": self.name, **self.options} if self.options else self.name

    def _read(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise Invalid(f"{self.name}: cannot read {path}: {error.strerror or error}") from None

    @contextmanager
    def open(self, trial: Trial) -> Iterator[tuple[Tool, ...]]:
        """The tools of a trial; in the end the files to keep are attached to it."""
        workspace: Workspace = trial.parts.setdefault(WORKSPACE, Workspace())
        for name, path in self.initial.items():
            workspace.files.setdefault(name, self._read(path))
        options = self.identity
        yield tuple(
            WorkspaceTool(function_tool(fn, name), workspace, options)
            for name, fn in self._functions(workspace).items()
        )
        for name, data in sorted(workspace.files.items()):
            if any(fnmatch(name, pattern) for pattern in self.keep):
                trial.attach(name, data)

    def _functions(self, workspace: Workspace) -> dict[str, Callable[..., Any]]:
        """The functions that the tools call."""
        if self.name == "files":
            return _file_functions(workspace)

        def shell(command: str) -> Any:
            """Run a command with /bin/sh in a sandbox without a network. Its folder holds the files of
            this task; what it writes there is kept for later commands.

            Args:
                command: The command line.
            """
            return self._execute(workspace, ["/bin/sh", "-c", command])

        def python(code: str) -> Any:
            """Run Python code in a sandbox without a network, with the standard library only. Its working
            folder holds the files of this task; what it writes there is kept. Print what you want to see.

            Args:
                code: The program.
            """
            return self._execute(workspace, [interpreter(), "-S", "-s", "-P", "-B", "-c", code])

        return {"shell": shell} if self.name == "shell" else {"python": python}

    def _execute(self, workspace: Workspace, argv: Sequence[str]) -> ToolEffects:
        """Run a command on the files; its output as text, and what it changed."""
        limits = Limits(seconds=self.seconds, memory=self.memory * MIB, disk=self.disk * MIB)
        outcome = run_confined(
            argv,
            files=dict(workspace.files),
            limits=limits,
            keep=EVERYTHING,
            allow_unconfined=self.allow_unconfined,
        )
        changes = workspace.replace(outcome.files) if outcome.exit is not None else {}
        return ToolEffects(_shown(outcome), changes or None)

    def check(self) -> None:
        """Raise Invalid if there is no sandbox on this machine."""
        if self.name != "files":
            needs_confinement(self.name, self.allow_unconfined)


def _shown(outcome: ProcessOutcome) -> str:
    """What a command printed, and how it ended if that was no success."""
    parts = [_cut(outcome.stdout)]
    if outcome.stderr:
        parts.append(f"[stderr]\n{_cut(outcome.stderr)}")
    if outcome.killed_by:
        parts.append(f"[ended: {outcome.killed_by} limit or signal]")
    elif outcome.exit:
        parts.append(f"[exit code {outcome.exit}]")
    return "\n".join(part for part in parts if part) or "(no output)"


def _cut(data: bytes) -> str:
    """Bytes as text; of a long one, its beginning and its end."""
    text = data.decode("utf-8", "replace")
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half:,} characters are left out)\n{text[-half:]}"


def _file_functions(workspace: Workspace) -> dict[str, Callable[..., Any]]:
    """The functions on files without a sandbox: list, read, write."""

    def list_files() -> list[str]:
        """List the files of this task."""
        return sorted(workspace.files)

    def read_file(path: str, start: int = 0) -> str:
        """Read a file of this task as text.

        Args:
            path: The name of the file.
            start: The number of the first character, to go on in a long file.
        """
        if path not in workspace.files:
            raise ToolRefused(f"there is no file {path!r}")
        text = workspace.files[path].decode("utf-8", "replace")
        part = text[max(0, start) : max(0, start) + MOST_READ]
        left = len(text) - max(0, start) - len(part)
        return part if left <= 0 else f"{part}\n... ({left:,} more characters)"

    def write_file(path: str, text: str) -> Any:
        """Write a text to a file of this task; it replaces the file if there is one.

        Args:
            path: The name of the file, relative to the folder of the task.
            text: The whole content.
        """
        try:
            checked([path])
        except Invalid as error:
            raise ToolRefused(str(error)) from None
        changes = workspace.replace({**workspace.files, path: text.encode()})
        return ToolEffects(f"wrote {len(text):,} characters to {path}", changes or None)

    return {"list_files": list_files, "read_file": read_file, "write_file": write_file}


def _made(
    name: str,
    files: Sequence[str | Path] | Mapping[str, str | Path] = (),
    keep: Sequence[str] = (),
    timeout: float = 60.0,
    memory: int = 1024,
    disk: int = 64,
    allow_unconfined: bool = False,
) -> WorkspaceTools:
    """Tools of a kind; Invalid with everything that is wrong with the options."""
    given = files.items() if isinstance(files, Mapping) else ((Path(path).name, path) for path in files)
    initial = {str(inner): str(Path(path).resolve()) for inner, path in given}
    checked(initial)
    problems = [f"files: there is no {path}" for path in initial.values() if not Path(path).is_file()]
    amounts: dict[str, Any] = {"timeout": timeout, "memory": memory, "disk": disk}
    problems += [
        f"{option}: must be more than 0, not {value!r}"
        for option, value in amounts.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0
    ]
    if problems:
        raise Invalid(f"{name}: {problem}" for problem in problems)
    return WorkspaceTools(
        name, initial, tuple(keep), float(timeout), int(memory), int(disk), allow_unconfined
    )


def shell(**options: Any) -> WorkspaceTools:
    """The tool `shell`: a command line in a sandbox, on the files of the trial.

    Options: `files` (paths, or names and paths, that are there from the beginning), `keep` (patterns of files
    that are attached to the trial), `timeout` in seconds, `memory` and `disk` in MiB, `allow_unconfined`.
    """
    return _made("shell", **options)


def python(**options: Any) -> WorkspaceTools:
    """The tool `python`: a program in a sandbox, on the files of the trial; options as for `shell`."""
    return _made("python", **options)


def files(**options: Any) -> WorkspaceTools:
    """The tools `list_files`, `read_file` and `write_file` on the files of the trial; options as `shell`."""
    return _made("files", **options)


def register(registry: Registry) -> None:
    """Register the tools that a study file may name."""
    for name, make in (("shell", shell), ("python", python), ("files", files)):
        registry.add("tools", name, make)
