"""The project file `peira.toml`: what holds for every study in a folder and below."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from peira.core.registry import Registry, registry
from peira.errors import Invalid
from peira.spec.files import read_document
from peira.spec.limits import Policy
from peira.spec.values import MAX_SEED, Name, Table, Texts, Value, join, read_value

if TYPE_CHECKING:
    from peira.spec.study import Study

FILE = "peira.toml"
STORE = ".peira/peira.db"


def _progress(value: Any) -> Any:
    return {True: "auto", False: "none"}[value] if isinstance(value, bool) else value


def _policy(raw: Any) -> Policy:
    policy: Policy = read_value(Policy, raw)
    return policy


class Project(Value):
    """The settings of a project; `folder` is where its file lies, or the working folder if there is none.

    `models` are aliases of models, carried as they are written. `plugins` are functions, as module:function,
    that are given the registry. `telemetry` "otel" sends spans of every run to OpenTelemetry.
    """

    folder: Path = Field(default_factory=Path.cwd)
    seed: int | None = Field(default=None, ge=-MAX_SEED, le=MAX_SEED)
    store: Name = STORE
    parallel: int | None = Field(default=None, ge=1)
    runner: Name = "local"
    progress: Annotated[Literal["auto", "plain", "none"], BeforeValidator(_progress)] = "auto"
    telemetry: Literal["none", "otel"] = "none"
    policy: Annotated[Policy, BeforeValidator(lambda raw: read_value(Policy, raw))] = Field(
        default_factory=Policy
    )
    models: Table = Field(default_factory=dict)
    plugins: Texts = ()

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project that `start` (or else the working folder) lies in: the nearest file, looking upward."""
        here = (start or Path()).resolve()
        for folder in (here, *here.parents):
            if (folder / FILE).is_file():
                return cls.read(folder / FILE)
        return cls(folder=here)

    @classmethod
    def read(cls, path: Path) -> Project:
        """The project of a file; Invalid names every problem."""
        document = read_document(path)
        problems = ["folder: is not known here"] if "folder" in document else []
        try:
            project = cls(**{**document, "folder": path.resolve().parent})
        except Invalid as error:
            problems += error.problems
        if problems:
            raise Invalid(f"{path.name}: {problem}" for problem in problems)
        return project

    @property
    def store_path(self) -> str:
        """The store: an address as it is, a path under the project's folder."""
        return self.store if "://" in self.store else str(self.folder / self.store)

    def apply(self, study: Study) -> Study:
        """The study with the project's seed and policy, where the study does not say its own."""
        changes: dict[str, Any] = {}
        if self.seed is not None and "seed" not in study.model_fields_set:
            changes["seed"] = self.seed
        ours = {key: getattr(self.policy, key) for key in self.policy.model_fields_set}
        theirs = {key: getattr(study.policy, key) for key in study.policy.model_fields_set}
        if ours.keys() - theirs.keys():
            changes["policy"] = Policy(**{**ours, **theirs})
        return study.model_copy(update=changes) if changes else study

    def load_plugins(self, into: Registry = registry) -> None:
        """Let the project's plug-ins register. Their modules may lie in the project's folder."""
        if self.plugins and str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        problems: list[str] = []
        for i, name in enumerate(self.plugins):
            try:
                into.load_module(_plugin(name))
            except Invalid as error:
                problems += [join(f"{FILE}: plugins[{i}]", problem) for problem in error.problems]
        if problems:
            raise Invalid(problems)


def _plugin(name: str) -> Any:
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except (ImportError, ValueError) as error:
        raise Invalid(f"cannot import {name!r}: {error}") from None
    if not callable(found):
        raise Invalid(f"{name!r} is no function; write module:function")
    return found
