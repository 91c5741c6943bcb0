"""`command`: a program as agent, described by its words, its files, and what it may use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from peira.agents.command.attempt import CommandAttempt
from peira.agents.command.placeholders import CASE, names_in
from peira.agents.command.program import Program, find_program
from peira.core.code.fingerprint import Fingerprint
from peira.core.context import Trial
from peira.core.ids import Json, digest, digest_bytes
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.sandbox.confinement import program_confinement, unconfined_allowed
from peira.sandbox.workspace import checked
from peira.spec.agents import COMMAND, AgentKind
from peira.spec.values import Duration, Texts, Value

TOOLS = ("attach", "report", "log", "result")
"""The tools of an attempt that a command may be given."""
TRIAL_MODEL = "model"
"""The factor whose level is the trial's model."""


class CommandOptions(Value):
    """What a command is: see `command`."""

    command: Annotated[Texts, Field(min_length=1)]
    stdin: str | None = None
    files: dict[str, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    keep: Texts = ()
    parse: Literal["text", "json", "last_line"] = "text"
    confine: bool = True
    models: dict[str, str] = Field(default_factory=dict)
    tools: Texts = ()
    mounts: Texts = ()
    timeout: Duration = Field(default=600.0, gt=0)
    memory: int = Field(default=4096, gt=0)
    disk: int = Field(default=512, gt=0)
    processes: int = Field(default=256, gt=0)

    @field_validator("env", mode="before")
    @classmethod
    def _env_by_name(cls, given: Any) -> Any:
        """A list of names stands for the variables of the process that runs the study."""
        return {name: f"${name}" for name in given} if isinstance(given, list | tuple) else given

    @field_validator("models", mode="before")
    @classmethod
    def _models_by_name(cls, given: Any) -> Any:
        """A single model stands for every name."""
        return {"*": given} if isinstance(given, str) else given

    @field_validator("files", mode="before")
    @classmethod
    def _files_by_name(cls, given: Any) -> Any:
        """A list of paths: each file by the last part of its path."""
        return {Path(path).name: path for path in given} if isinstance(given, list | tuple) else given

    def problems(self) -> Iterator[str]:
        """The problems of the description that its types do not exclude."""
        for name in self.tools:
            if name not in TOOLS:
                yield f"tools: no {name!r}{nearest(name, TOOLS)}"
        for name in (*self.files, *self.keep):
            try:
                checked([name])
            except Invalid as error:
                yield from error.problems
        for path in self.mounts:
            if not os.path.isabs(path):
                yield f"mounts: {path!r} is not an absolute path"
        if not all(self.command[:1]):
            yield "command: the first word is empty"

    @property
    def given(self) -> str:
        """The text for standard input: `stdin`, else the case's input if no word of the command has it."""
        if self.stdin is not None:
            return self.stdin
        return "" if "input" in names_in((*self.command, *self.env.values())) else "{input}"

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything in which placeholders are replaced."""
        return (*self.command, self.given, *self.env.values(), *self.models.values())


class CommandAgent:
    """Runs a command for each trial; what it prints is the output. See `command` for the options."""

    asynchronous = False
    starts_processes = True

    def __init__(self, label: str, version: str | None = None, **options: Any) -> None:
        self.label, self.version = label, version
        self.options = CommandOptions(**options)
        if problems := list(self.options.problems()):
            raise Invalid(problems)

    @property
    def requires(self) -> frozenset[str]:
        """The factors that its placeholders name."""
        return names_in(self.options.texts) - {*CASE}

    @property
    def takes(self) -> frozenset[str]:
        """Those, and the trial's model if it may use that."""
        return self.requires | (frozenset() if self.options.models else {TRIAL_MODEL})

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it may call, as far as they are known without a trial."""
        return tuple(name for name in self.options.models.values() if "{" not in name)

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The contents of its files, read once: what enters the identity is what is used."""
        try:
            return {name: Path(path).read_bytes() for name, path in self.options.files.items()}
        except OSError as error:
            raise Invalid(f"files: cannot read {error.filename}: {error.strerror or error}") from None

    @cached_property
    def executable(self) -> frozenset[str]:
        """The names of those of its files that may be executed."""
        return frozenset(n for n, path in self.options.files.items() if os.access(path, os.X_OK))

    @cached_property
    def program(self) -> Program:
        """Its program on this machine; Invalid if there is none."""
        word = self.options.command[0]
        return Program(word) if "{" in word else find_program(word, self.options.files)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Its files as parts; its program, which the identity does not cover, as unseen."""
        parts = tuple((f"file {name}", digest_bytes(data)) for name, data in sorted(self.files.items()))
        paths = tuple(sorted(self.options.files.values()))
        unseen = (f"program {self.options.command[0]}",)
        return Fingerprint(digest([list(part) for part in parts]), parts, unseen, paths)

    @property
    def identity(self) -> Json:
        """Its words, the digests of its files, its variables (of inherited ones the names), its options.

        With a version, that stands for the contents of its files. Limits and what is kept do not count.
        """
        said = self.options
        inherited = sorted(name for name, value in said.env.items() if value.startswith("$"))
        code: dict[str, Json] = {name: digest_bytes(data) for name, data in sorted(self.files.items())}
        return {
            "agent": COMMAND,
            "label": self.label,
            "command": list(said.command),
            "stdin": said.given,
            "files": code if self.version is None else {"version": self.version, "names": sorted(said.files)},
            "env": {name: value for name, value in said.env.items() if name not in inherited},
            "inherited": inherited,
            "parse": said.parse,
            "confine": said.confine,
            "models": dict(said.models),
            "tools": sorted(said.tools),
            "mounts": sorted(said.mounts),
        }

    def check(self) -> None:
        """Raise Invalid if it cannot be started on this machine: no program, no sandbox, no mount."""
        problems: list[str] = []
        try:
            _ = self.program
        except Invalid as error:
            problems += error.problems
        found = program_confinement() if self.options.confine else ""
        if isinstance(found, str) and found and not unconfined_allowed():
            problems.append(f"command: {found}, with confine = false")
        problems += [
            f"mounts: there is no {path}" for path in self.options.mounts if not os.path.exists(path)
        ]
        missing = [v[1:] for v in self.options.env.values() if v.startswith("$") and v[1:] not in os.environ]
        problems += [f"env: the variable {name} is not set" for name in missing]
        if problems:
            raise Invalid(problems)

    def invoke(self, trial: Trial) -> Any:
        """Run the command and return what it printed, parsed; raises CommandFailed if it failed."""
        return CommandAttempt(self, trial).run()


def command(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    files: Sequence[str | Path] | Mapping[str, str | Path] = (),
    env: Sequence[str] | Mapping[str, str] = (),
    keep: Sequence[str] = (),
    parse: Literal["text", "json", "last_line"] = "text",
    confine: bool = True,
    models: str | Mapping[str, str] | None = None,
    tools: Sequence[str] = (),
    mounts: Sequence[str | Path] = (),
    timeout: float | str = 600.0,
    memory: int = 4096,
    disk: int = 512,
    processes: int = 256,
    version: str | None = None,
) -> AgentKind:
    """A command as agent: `study(agent=command(["prog", "{input}"]), cases=...)`.

    The words of `command`, `stdin`, and the values of `env` and `models` may contain {input}, {id}, {slice},
    {cluster}, {metadata.x}, {seed}, {repeat} and factors; without any {input} the input is on standard input.
    It starts in a new folder (/work) with these `files`; files that match the patterns of `keep` become
    artifacts. Its standard output is the output of the trial: as text, as JSON, or its last line; an exit
    code other than 0 is a failure.

    It is confined: no network, no other files of this machine than the system's programs and `mounts`, at
    most `memory` and `disk` MiB, so many `processes`, `timeout` seconds, and the variables of `env` (names of
    variables of this process, or names and values, in which "$NAME" is a variable of this process).
    `confine=False` lifts that, and is marked in the results.

    Its model calls go through the recording endpoint, which it finds in OPENAI_BASE_URL and
    ANTHROPIC_BASE_URL. `models` says what the names that it asks for stand for: {"gpt-5": "openai:gpt-5",
    "*": "{model}"}; without it, every name stands for the trial's model, the factor `model`. `tools` (attach,
    report, log, result) are offered to it over MCP at PEIRA_MCP_URL. `version` stands for its files.
    """
    options: dict[str, Any] = {
        "stdin": stdin,
        "files": {str(k): str(v) for k, v in files.items()}
        if isinstance(files, Mapping)
        else [str(f) for f in files],
        "env": dict(env) if isinstance(env, Mapping) else list(env),
        "keep": list(keep),
        "parse": parse,
        "confine": confine,
        "models": models if isinstance(models, str) else dict(models or {}),
        "tools": list(tools),
        "mounts": [str(path) for path in mounts],
        "timeout": timeout,
        "memory": memory,
        "disk": disk,
        "processes": processes,
        "version": version,
    }
    defaults = CommandOptions.model_fields
    given = {
        name: value
        for name, value in options.items()
        if value not in ((), [], {}, None)
        and not (name in defaults and value == defaults[name].get_default(call_default_factory=True))
    }
    if isinstance(command, str):
        raise Invalid(f"command: write its words as a list: {command.split()!r}")
    return AgentKind(COMMAND, {"command": [str(word) for word in command], **given})
