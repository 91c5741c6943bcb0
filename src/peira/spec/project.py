"""The project file `peira.toml` (or `peira.json`): settings for every study in a folder and below."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from peira.core.code.signature import wants
from peira.core.registry import Registry, nearest, plugin_function, registry
from peira.errors import Invalid
from peira.spec.documents import read_document
from peira.spec.limits import Keep, Policy, Storage
from peira.spec.values import MAX_PARALLEL, MAX_SEED, Name, Table, Texts, Value, join, read_value

if TYPE_CHECKING:
    from peira.spec.study import Study

FILE = "peira.toml"
FILES = (FILE, "peira.json")
"""The names of project files."""
STORE = ".peira/peira.db"
LOCAL = "local"
"""The default runner."""
REGISTER = "register"
"""The function of a plug-in's file that is called with the registry, if none is named."""


def _progress(value: Any) -> Any:
    """Accept true and false for "auto" and "none"."""
    return {True: "auto", False: "none"}[value] if isinstance(value, bool) else value


def _policy(raw: Any) -> Policy:
    """The policy that a table stands for."""
    policy: Policy = read_value(Policy, raw)
    return policy


class Project(Value):
    """The settings of a project; `folder` is the folder of its file, or else the working folder.

    `models` are aliases of models, kept as they are written. `plugins` are functions that are called with the
    registry, as module:function or file.py:function, or files and folders of files that have a function
    `register`; what they register is known in this project only. `runners` has a table of options for each
    runner that takes some.
    `keep` says which runs `peira gc` keeps, `storage` how results are kept.
    `telemetry` "otel" sends spans of every run to OpenTelemetry.
    """

    folder: Path = Field(default_factory=Path.cwd, exclude=True)  # is not written in the file
    seed: int | None = Field(default=None, ge=-MAX_SEED, le=MAX_SEED)
    store: Name = STORE
    parallel: int | None = Field(default=None, ge=1, le=MAX_PARALLEL)
    runner: Name = LOCAL
    progress: Annotated[Literal["auto", "plain", "none"], BeforeValidator(_progress)] = "auto"
    telemetry: Literal["none", "otel"] = "none"
    policy: Annotated[Policy, BeforeValidator(lambda raw: read_value(Policy, raw))] = Field(
        default_factory=Policy
    )
    keep: Annotated[Keep, BeforeValidator(lambda raw: read_value(Keep, raw))] = Field(default_factory=Keep)
    storage: Annotated[Storage, BeforeValidator(lambda raw: read_value(Storage, raw))] = Field(
        default_factory=Storage
    )
    models: Table = Field(default_factory=dict)
    runners: dict[str, Table] = Field(default_factory=dict)
    plugins: Texts = ()

    @classmethod
    def find(cls, start: object = None) -> Project:
        """The project of a folder, or of a study's file: the nearest project file, searching upwards.

        If `start` is neither, or the file of a study has no project file above it, it is searched from the
        working folder. A file that `named_project` names goes before all. Without any, the defaults.
        """
        if (named := _named.get()) is not None:
            return cls.read(named)
        here = start.resolve() if isinstance(start, Path) and start.is_dir() else Path().resolve()
        for first in dict.fromkeys((_folder_of(start) or here, here)):
            for folder in (first, *first.parents):
                if (file := project_file(folder)) is not None:
                    return cls.read(file)
        # Not validated: it takes longer to make the validators than to list the runs of a store.
        return cls.model_construct(
            {"folder"},
            folder=here,
            policy=Policy.model_construct(),
            keep=Keep.model_construct(),
            storage=Storage.model_construct(),
        )

    @classmethod
    def read(cls, path: Path) -> Project:
        """Read a project file; Invalid holds every problem."""
        document = read_document(path)
        problems = ["folder: is not known here"] if "folder" in document else []
        try:
            project = cls(**{**document, "folder": path.resolve().parent})
        except Invalid as error:
            problems += error.problems
            problems += _unknown_runner(document)
        else:
            problems += project._runner_problems()
        if problems:
            raise Invalid(f"{path.name}: {problem}" for problem in problems)
        return project

    def _runner_problems(self) -> list[str]:
        """What is wrong with the runners that the file names; a plug-in of the project may register them."""
        chosen = [self.runner] if "runner" in self.model_fields_set else []
        if any(map(runner_problem, (*chosen, *self.runners))):
            self.load_plugins()
        problems = [f"runner: {problem}" for name in chosen if (problem := runner_problem(name))]
        tables = [(name, _runner_table_problem(name)) for name in self.runners]
        return [*problems, *(f"runners.{name}: {problem}" for name, problem in tables if problem)]

    def runner_options(self, name: str) -> Mapping[str, Any]:
        """The table [runners.NAME]."""
        return self.runners.get(name, {})

    @property
    def store_path(self) -> str:
        """The store: an address unchanged, or a path in the project's folder."""
        return self.store if "://" in self.store else str(self.folder / self.store)

    def apply(self, study: Study) -> Study:
        """The study with the project's seed, policy and storage where the study sets none."""
        changes: dict[str, Any] = {}
        if self.seed is not None and "seed" not in study.model_fields_set:
            changes["seed"] = self.seed
        for name, kind in (("policy", Policy), ("storage", Storage)):
            ours, theirs = getattr(self, name), getattr(study, name)
            if ours.model_fields_set - theirs.model_fields_set:
                changes[name] = kind(**{**_fields_set(ours), **_fields_set(theirs)})
        return study.model_copy(update=changes) if changes else study

    def load_plugins(self, into: Registry = registry) -> None:
        """Let the project's plug-ins register, for this project only; enters the project.

        Their modules may be in the project's folder. Raises Invalid with every plug-in that cannot be
        imported.
        """
        project = str(self.folder)
        into.enter(project)
        if self.plugins and project not in sys.path:
            sys.path.append(project)
        problems: list[str] = []
        for i, entry in enumerate(self.plugins):
            try:
                for name in self._plugin_names(entry):
                    into.load_module(plugin_function(name), name, project)
            except Invalid as error:
                problems += [join(f"{FILE}: plugins[{i}]", problem) for problem in error.problems]
        if problems:
            raise Invalid(problems)

    def _plugin_names(self, entry: str) -> list[str]:
        """The functions that an entry of `plugins` stands for, as module:function or file.py:function."""
        place = self.folder / entry
        if place.is_dir():
            files = sorted(file for file in place.glob("*.py") if not file.name.startswith("_"))
            if not files:
                raise Invalid(f"there is no .py file in the folder {entry!r}")
            return [f"{file}:{REGISTER}" for file in files]
        if place.suffix == ".py":
            return [f"{place}:{REGISTER}"]
        module, _, function = entry.rpartition(":")
        if module.endswith(".py"):
            return [f"{self.folder / module}:{function}"]
        own = self.folder / f"{module.replace('.', '/')}.py"
        if own.is_file() and not _is_imported_from(module, own):
            return [f"{own}:{function}"]  # another project's module has the name
        return [entry]


def _is_imported_from(module: str, file: Path) -> bool:
    """Whether a module is, or would be, imported from this file."""
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None and Path(found.origin).resolve() == file.resolve()


def _fields_set(value: Value) -> dict[str, Any]:
    """The fields that were written."""
    return {key: getattr(value, key) for key in value.model_fields_set}


_named: ContextVar[Path | None] = ContextVar("peira_project", default=None)


@contextmanager
def named_project(path: str | None) -> Iterator[None]:
    """Use this project file, or that of this folder, instead of searching for one; None searches.

    Raises Invalid if there is none.
    """
    token = _named.set(_project_named(path) if path else None)
    try:
        yield
    finally:
        _named.reset(token)


def _project_named(path: str) -> Path:
    """The project file at a path, or in the folder at a path."""
    place = Path(path).resolve()
    found = project_file(place) if place.is_dir() else place if place.is_file() else None
    if found is None:
        raise Invalid(f"project: there is no {' or '.join(FILES)} at {path}")
    return found


def project_file(folder: Path) -> Path | None:
    """The project file in a folder; None if there is none. Raises Invalid if there are two."""
    found = [folder / name for name in FILES if (folder / name).is_file()]
    if len(found) > 1:
        raise Invalid(f"{folder}: {' and '.join(FILES)} are both there; keep one")
    return found[0] if found else None


def _folder_of(study: object) -> Path | None:
    """The folder of a study that is given by its file, as file.py or file.py:name; None if it is not."""
    if not isinstance(study, (str, Path)):
        return None
    text = str(study)
    file = Path(text.rpartition(":")[0] if ".py:" in text else text)
    return file.resolve().parent if file.suffix and file.is_file() else None


def parallel_problem(number: int | None) -> str:
    """What is wrong with a number of trials at once; "" if nothing is."""
    if number is None or 1 <= number <= MAX_PARALLEL:
        return ""
    return f"parallel: must be at least 1 and at most {MAX_PARALLEL:,}, not {number}"


def runner_problem(name: str) -> str:
    """What is wrong with the name of a runner; "" if it is registered."""
    known = registry.names("runner")
    return "" if name in known else f"{name!r} is not known{nearest(name, known)}"


def _runner_table_problem(name: str) -> str:
    """What is wrong with a table [runners.NAME], whatever is in it; "" if nothing is."""
    known = registry.names("runner")
    if name not in known:
        return f"is not known here{nearest(name, known)}"
    taken = wants(registry.look("runner", name))
    return "" if taken.anything or "options" in taken.names else "this runner has no options"


def _unknown_runner(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with the runner of a file with other problems, whose plug-ins are not loaded."""
    name = document.get("runner")
    if not isinstance(name, str) or not name or "plugins" in document:
        return []
    return [f"runner: {problem}"] if (problem := runner_problem(name)) else []
