"""The project file `peira.toml`: settings for every study in a folder and its subfolders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from peira.core.registry import Registry, nearest, plugin_function, registry
from peira.errors import Invalid
from peira.spec.documents import read_document
from peira.spec.limits import Keep, Policy
from peira.spec.values import MAX_SEED, Name, Table, Texts, Value, join, read_value

if TYPE_CHECKING:
    from peira.spec.study import Study

FILE = "peira.toml"
STORE = ".peira/peira.db"
LOCAL = "local"
"""The default runner."""


def _progress(value: Any) -> Any:
    """Accept true and false for "auto" and "none"."""
    return {True: "auto", False: "none"}[value] if isinstance(value, bool) else value


def _policy(raw: Any) -> Policy:
    """The policy that a table stands for."""
    policy: Policy = read_value(Policy, raw)
    return policy


class Project(Value):
    """The settings of a project; `folder` is the folder of its file, or else the working folder.

    `models` are aliases of models, kept as they are written. `plugins` are functions, as module:function,
    that are called with the registry. `keep` says which runs `peira gc` keeps.
    `telemetry` "otel" sends spans of every run to OpenTelemetry.
    """

    folder: Path = Field(default_factory=Path.cwd)
    seed: int | None = Field(default=None, ge=-MAX_SEED, le=MAX_SEED)
    store: Name = STORE
    parallel: int | None = Field(default=None, ge=1)
    runner: Name = LOCAL
    progress: Annotated[Literal["auto", "plain", "none"], BeforeValidator(_progress)] = "auto"
    telemetry: Literal["none", "otel"] = "none"
    policy: Annotated[Policy, BeforeValidator(lambda raw: read_value(Policy, raw))] = Field(
        default_factory=Policy
    )
    keep: Annotated[Keep, BeforeValidator(lambda raw: read_value(Keep, raw))] = Field(default_factory=Keep)
    models: Table = Field(default_factory=dict)
    plugins: Texts = ()

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project of `start` (default: the working folder): the nearest file, searching upwards."""
        here = (start or Path()).resolve()
        for folder in (here, *here.parents):
            if (folder / FILE).is_file():
                return cls.read(folder / FILE)
        return cls(folder=here)

    @classmethod
    def read(cls, path: Path) -> Project:
        """Read a project file; Invalid holds every problem."""
        document = read_document(path)
        problems = ["folder: is not known here"] if "folder" in document else []
        try:
            project = cls(**{**document, "folder": path.resolve().parent})
        except Invalid as error:
            problems += error.problems
        else:
            problems += [f"runner: {problem}" for problem in project._runner_problems()]
        if problems:
            raise Invalid(f"{path.name}: {problem}" for problem in problems)
        return project

    def _runner_problems(self) -> list[str]:
        """What is wrong with the runner that the file names; a plug-in of the project may register it."""
        if "runner" not in self.model_fields_set or not runner_problem(self.runner):
            return []
        self.load_plugins()
        return [problem] if (problem := runner_problem(self.runner)) else []

    @property
    def store_path(self) -> str:
        """The store: an address unchanged, or a path in the project's folder."""
        return self.store if "://" in self.store else str(self.folder / self.store)

    def apply(self, study: Study) -> Study:
        """The study with the project's seed and policy where the study sets none."""
        changes: dict[str, Any] = {}
        if self.seed is not None and "seed" not in study.model_fields_set:
            changes["seed"] = self.seed
        ours = {key: getattr(self.policy, key) for key in self.policy.model_fields_set}
        theirs = {key: getattr(study.policy, key) for key in study.policy.model_fields_set}
        if ours.keys() - theirs.keys():
            changes["policy"] = Policy(**{**ours, **theirs})
        return study.model_copy(update=changes) if changes else study

    def load_plugins(self, into: Registry = registry) -> None:
        """Let the project's plug-ins register; their modules may be in the project's folder.

        Raises Invalid with every plug-in that cannot be imported.
        """
        if self.plugins and str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        problems: list[str] = []
        for i, name in enumerate(self.plugins):
            try:
                into.load_module(plugin_function(name), name)
            except Invalid as error:
                problems += [join(f"{FILE}: plugins[{i}]", problem) for problem in error.problems]
        if problems:
            raise Invalid(problems)


def runner_problem(name: str) -> str:
    """What is wrong with the name of a runner; "" if it is registered."""
    known = registry.names("runner")
    return "" if name in known else f"{name!r} is not known{nearest(name, known)}"
