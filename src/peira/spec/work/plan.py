"""The work plan and its units as frozen values, and `unit`, which makes a unit in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from peira.core.code.fingerprint import fingerprint
from peira.core.ids import Json, digest
from peira.errors import Invalid
from peira.spec.values import Duration, Texts, Value

TIME = 3600.0
"""The seconds of a unit for which nothing else is said."""
PARALLEL = 4
ALL = "/*"
"""The end of a need that means a unit and everything that it proposes."""
TOOLS = ("attach", "report", "log", "result")
"""The tools of an attempt that a unit may be given."""


class WorkUnit(Value):
    """One unit of a work plan: a command in a workspace of its own, or a function.

    `run` is a command line, in which {task} and {unit} are replaced, or a function that gets the values of
    its needs by name. `needs` are the units that must succeed before it. It may change what lies under
    `may_write` and nothing else. It succeeds if it exits with 0, each pattern of `evidence` matches a file
    that it made or changed, and the command `check` exits with 0 in a fresh copy of its workspace.

    `env` are its variables, `models` and `tools` what it may use (as in `command`), `mounts` what else of
    this machine it may read. `time`, `memory` and `disk` (MiB), `processes`, `money`, `tokens` and `calls`
    are its limits. Units of a higher `priority` start first. A unit that `grows` may propose up to so many
    further units, which may write under `grows_into`.
    """

    name: str
    run: Any
    task: str = ""
    needs: Texts = ()
    may_write: Texts = ()
    evidence: Texts = ()
    check: Texts = ()
    env: dict[str, str] = Field(default_factory=dict)
    models: dict[str, str] = Field(default_factory=dict)
    tools: tuple[Literal["attach", "report", "log", "result"], ...] = ()
    mounts: Texts = ()
    confine: bool = True
    time: Duration = Field(default=TIME, gt=0)
    memory: int = Field(default=4096, gt=0)
    disk: int = Field(default=1024, gt=0)
    processes: int = Field(default=256, gt=0)
    money: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, ge=1)
    calls: int | None = Field(default=None, ge=1)
    priority: int = Field(default=0, ge=-1000, le=1000)
    grows: int = Field(default=0, ge=0, le=10_000)
    grows_into: Texts = ()

    @field_validator("run", mode="before")
    @classmethod
    def _words(cls, given: Any) -> Any:
        """A function, or the words of a command."""
        if callable(given):
            return given
        if isinstance(given, str):
            raise Invalid(f"write its words as a list: {given.split()!r}")
        fine = isinstance(given, (list, tuple)) and given and all(isinstance(word, str) for word in given)
        if not fine or not given[0]:
            raise Invalid(f"must be a list of words, the first of which is a program, not {given!r}")
        return tuple(given)

    @field_validator("env", mode="before")
    @classmethod
    def _variables(cls, given: Any) -> Any:
        """Names of variables of this process, or names and values."""
        if isinstance(given, (list, tuple)):
            return {str(name): f"${name}" for name in given}
        return dict(given) if isinstance(given, Mapping) else given

    @field_validator("models", mode="before")
    @classmethod
    def _models(cls, given: Any) -> Any:
        """One model for every name, or models by name."""
        return {"*": given} if isinstance(given, str) else given

    @field_validator("tools", mode="before")
    @classmethod
    def _tools(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, if it is no command."""
        return self.run if callable(self.run) else None

    def filled(self, text: str) -> str:
        """A word of a command line with {task} and {unit} replaced; other braces stay."""
        return text.replace("{unit}", self.name).replace("{task}", self.task)

    @cached_property
    def digest(self) -> str:
        """What counts of it for its identity: neither limits nor priority, of inherited variables the name.

        The needs do not count by name only: what they made enters the identity apart.
        """
        code = _code_digest(self.run) if callable(self.run) else list(self.run)
        return digest(
            [
                self.name,
                code,
                self.task,
                sorted(self.needs),
                sorted(self.may_write),
                sorted(self.evidence),
                list(self.check),
                self.env,
                self.models,
                sorted(self.tools),
                sorted(self.mounts),
                self.confine,
                self.grows,
                sorted(self.grows_into),
            ]
        )

    def written(self) -> dict[str, Json]:
        """The unit as a table, without what is not said; of a function its name."""
        said = self.model_dump(exclude_defaults=True, exclude={"name"})
        if callable(self.run):
            said["run"] = f"{self.run.__module__}:{getattr(self.run, '__qualname__', self.run)}"
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}


@lru_cache(maxsize=1024)
def _code_digest(function: Callable[..., Any]) -> str:
    """The digest of a function's code, computed once for all units that share it."""
    return fingerprint(function).digest


class WorkPlan(Value):
    """Units of work, and where they start from.

    `base` is a folder or git:REF; None if no unit needs files. At most `parallel` units run at once; a unit
    that fails is tried `retries` times more. With `fail_fast` nothing more begins after a failure. Units that
    units propose may propose further ones, down to `depth`.
    """

    name: str = "work"
    base: str | None = None
    parallel: int = PARALLEL
    retries: int = Field(default=0, ge=0)
    fail_fast: bool = False
    depth: int = Field(default=1, ge=1, le=20)
    money: float | None = Field(default=None, gt=0)
    units: tuple[WorkUnit, ...] = ()
    folder: str = "."
    """The folder that `base` is relative to."""
    source: str = ""
    """The file that it was read from, which is no part of its base."""

    @cached_property
    def by_name(self) -> dict[str, WorkUnit]:
        """The units by name."""
        return {one.name: one for one in self.units}

    @property
    def base_folder(self) -> Path | None:
        """The folder of the base; None if it is a commit, or there is none."""
        if self.base is None or self.base.startswith("git:"):
            return None
        return Path(self.folder, self.base)

    def written(self) -> dict[str, Json]:
        """The plan as a document that can be read again, if all its units are commands."""
        said = self.model_dump(exclude_defaults=True, exclude={"units", "folder", "source"})
        return {**said, "units": {one.name: one.written() for one in self.units}}


def unit(
    name: str, run: Sequence[str] | Callable[..., Any], needs: Iterable[str] = (), **fields: Any
) -> WorkUnit:
    """A unit for `fanout`: `unit("api", ["make", "api"], needs=["schema"], may_write=["src/api"])`.

    `run` is a command line or a function; the other fields are those of `WorkUnit`. A function gets the
    values of its needs as arguments of their names, or all of them as `needs`.
    """
    listed = {k: tuple(v) if isinstance(v, (list, set, frozenset)) else v for k, v in fields.items()}
    said: dict[str, Any] = {"name": name, "run": run, "needs": tuple(needs), **listed}
    return WorkUnit(**said)


def base_name(need: str) -> str:
    """The unit that a need names, also if everything that it proposes is needed."""
    return need.removesuffix(ALL)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of a unit, with those of this process filled in; Invalid if one is not set."""
    missing = [value[1:] for value in env.values() if value.startswith("$") and value[1:] not in os.environ]
    if missing:
        raise Invalid(f"env: the variable {name} is not set" for name in missing)
    return {name: os.environ[value[1:]] if value.startswith("$") else value for name, value in env.items()}
