"""The study, as one frozen value, and `study`: the decorator that makes one of a function, or of several
agents.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from pydantic import BaseModel, Field, SkipValidation, ValidationError

import peira.spec as spec
from peira.core.contracts import Evaluator
from peira.core.transforms import Transform
from peira.errors import Invalid
from peira.spec.agents import AgentValue
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.case import Case
from peira.spec.constraints import Constraint
from peira.spec.factors import Block, Design, Factor
from peira.spec.fields.declaration import About, WrittenAs, keys_of
from peira.spec.fields.reader import StudyReader
from peira.spec.fields.rules import broken_rules
from peira.spec.limits import Budget, Policy, Storage
from peira.spec.modules import Decorated, caller
from peira.spec.plugins import as_evaluator, as_transform, name_of
from peira.spec.stopping import Stop
from peira.spec.values import MAX_REPEATS, MAX_SEED, Name, Table, Texts, Value, translate


class Study(Value, Decorated):
    """Cases x design x agents x evaluators x repeats, with its purpose, its limits and its seed.

    `case_sets` and `agents` are by label; a sole unlabelled case set has the label "", a sole agent the name
    of its function. `labelled` says that agents were given by label, which makes the factor `agent`.
    `version` stands for the agents' code: while it stays, edits make no new trials. `order` is how trials are
    run: at random (within blocks), interleaved (in rounds of all conditions), case by case, or as given.
    `anchors` is how often the first trial is run again through the run, to see whether what is measured
    drifts. `transform` finds in an output the answer that evaluators judge; without one they judge the
    output. `stop` says when enough is known: the run then ends, and the rest of the plan is not needed.
    `data` records where cases came from (source, revision, digest) and is no part of what a trial is.
    A study of one function can be called as that function.

    A field is declared here: `spec.fields` says what is derived from it. `About` marks one on which no trial
    depends.
    """

    name: Annotated[Name, About()] = Field(default="study", pattern=r"^[^/\\\x00-\x1f\x7f]+$")
    title: Annotated[str, About()] = ""
    description: Annotated[str, About()] = ""
    authors: Annotated[Texts, About()] = ()
    rationale: Annotated[str, About()] = ""
    tags: Annotated[Texts, About()] = ()
    notes: Annotated[str, About()] = ""
    version: Name | None = None
    case_sets: Annotated[SkipValidation[Mapping[str, Sequence[Case]]], WrittenAs(("cases",))] = Field(
        default_factory=dict, repr=False
    )
    factors: tuple[Factor, ...] = ()
    blocks: tuple[Block, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    design: Design = Field(default_factory=Design)
    agents: Annotated[SkipValidation[Mapping[str, Any]], WrittenAs(("agent", "agents"))] = Field(
        default_factory=dict
    )
    labelled: Annotated[bool, WrittenAs(())] = False
    transform: SkipValidation[Any] = None
    evaluators: SkipValidation[tuple[Any, ...]] = ()
    repeats: int = Field(default=1, ge=1, le=MAX_REPEATS)
    seed: int = Field(default=0, ge=-MAX_SEED, le=MAX_SEED)
    order: Literal["random", "interleaved", "cases", "given"] = "random"
    stop: Stop | None = None
    anchors: int = Field(default=0, ge=0)
    data: Annotated[Table, About()] = Field(default_factory=dict)
    slices: Annotated[Table, About()] = Field(default_factory=dict)
    outcomes: tuple[Outcome, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    analysis_plans: tuple[AnalysisPlan, ...] = ()
    budget: Budget = Field(default_factory=Budget)
    policy: Policy = Field(default_factory=Policy)
    storage: Annotated[Storage, About()] = Field(default_factory=Storage)

    def __init__(self, **raw: Any) -> None:
        folder, module = caller()
        self._fill(raw, [folder or Path(), Path()], module)

    @classmethod
    def assemble(
        cls,
        raw: Mapping[str, Any],
        folders: Sequence[Path],
        module: str = "",
        *,
        lenient: bool = False,
        without: Sequence[str] = (),
    ) -> Study:
        """The study of what was written, its files in these folders.

        `lenient` is for stored studies: a placeholder stands for code that cannot be had, no rule is applied.
        No rule is applied to the fields `without` which it does.
        """
        study = cls.__new__(cls)
        study._fill(raw, folders, module, lenient, without)
        return study

    def _fill(
        self,
        raw: Mapping[str, Any],
        folders: Sequence[Path],
        module: str,
        lenient: bool = False,
        without: Sequence[str] = (),
    ) -> None:
        """Read the fields; raises Invalid with every problem."""
        reader = StudyReader(folders, lenient)
        fields = reader.read(raw, type(self))
        problems = [*reader.problems, *self._validate(fields)]
        self._resemble_function(module, reader.sources)
        if not lenient:
            problems += broken_rules(self, [*reader.broken, *without])
        if problems:
            raise Invalid(dict.fromkeys(problems))

    def _validate(self, fields: dict[str, Any]) -> list[str]:
        """Set the fields and return the problems; wrong fields keep their defaults."""
        try:
            BaseModel.__init__(self, **fields)
        except ValidationError as error:
            wrong = {str(found["loc"][0]) for found in error.errors() if found["loc"]}
            BaseModel.__init__(self, **{key: value for key, value in fields.items() if key not in wrong})
            return translate(error, keys_of(type(self)))
        return []

    def _resemble_function(self, module: str, sources: Mapping[str, Path | spec.Query]) -> None:
        """Take over name, module and docstring of the function under test; keep the sources of cases."""
        attributes: dict[str, Any] = {
            "__module__": module,
            "__name__": self.name,
            "__qualname__": "",
            "_sources": sources,
        }
        if (fn := self.function) is not None:
            names = ("__module__", "__name__", "__qualname__", "__doc__")
            attributes |= {name: getattr(fn, name) for name in names if hasattr(fn, name)} | {
                "__wrapped__": fn
            }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    @property
    def function(self) -> Any:
        """The one function under test; None if agents were given by label, or by their kind."""
        sole = None if self.labelled else next(iter(self.agents.values()), None)
        return None if isinstance(sole, AgentValue) else sole

    def __reduce__(self) -> str | tuple[Any, ...]:
        """A study that stands in a module is pickled by its name, as functions are; any other by its fields.

        What it refers to (functions, evaluators) must be found in modules.
        """
        name = next((name for name, value in _names(self.__module__) if value is self), "")
        if name:
            return _found, (self.__module__, name)
        fields = {key: value for key, value in self.__dict__.items() if key in type(self).model_fields}
        if (fn := self.function) is not None and _is_hidden(fn, self):
            from pickle import PicklingError  # slow, and imported by whoever pickles

            raise PicklingError(f"study {self.name}: its function cannot be found in {self.__module__}")
        return _rebuilt, (fields, self.sources, self.__module__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            if not self.labelled:
                raise TypeError(f"study {self.name} has no function of its own; run it")
            raise TypeError(f"study {self.name} has agents by label; call one of {', '.join(self.agents)}")
        return self.function(*args, **kwargs)

    def with_agent(self, agent: Any) -> Study:
        """The same study of this agent alone; raises Invalid if it does not take the study's factors."""
        changed = self.model_copy(update={"agents": {name_of(agent): agent}, "labelled": False})
        changed._resemble_function(self.__module__, self.sources)
        if problems := list(broken_rules(changed)):
            raise Invalid(problems)
        return changed

    def __hash__(self) -> int:
        return hash((self.name, self.seed, self.repeats))

    @property
    def run_order(self) -> str:
        """How trials are run: case by case where the study may stop."""
        return "cases" if self.stop is not None else self.order

    @property
    def sources(self) -> Mapping[str, Path | spec.Query]:
        """The files that case sets were read from, or the queries that found them, by label."""
        return dict(self.__dict__.get("_sources", {}))

    def resolved_transform(self) -> Transform | None:
        """The transform, made of what was written; None if there is none."""
        return None if self.transform is None else as_transform(self.transform)

    def resolved_evaluators(self) -> tuple[Evaluator, ...]:
        """The evaluators, made of what was written."""
        return tuple(map(as_evaluator, self.evaluators))

    def unexecuted(self) -> list[str]:
        """What the study declares and nothing can be made of; every result says so."""
        vague = [h.id for h in self.hypotheses if not h.factor]
        empty = [p.name for p in self.analysis_plans if not any(map(p.tests, self.hypotheses))]
        return [
            *(f"hypothesis {name}: declared, not executed (it names no factor)" for name in vague),
            *(f"analysis plan {name}: declared, not executed (it has no hypothesis)" for name in empty),
        ]


def _names(module: str) -> list[tuple[str, object]]:
    """What stands in a module that is imported."""
    found = sys.modules.get(module)
    return list(vars(found).items()) if found is not None else []


def _is_hidden(function: object, study: Study) -> bool:
    """Whether a function's name stands for something else in its module, so that pickle cannot find it."""
    found = dict(_names(getattr(function, "__module__", ""))).get(getattr(function, "__qualname__", ""))
    return isinstance(found, Study) and found is not study


def _found(module: str, name: str) -> Any:
    """The study of this name; it is imported if need be."""
    return getattr(import_module(module), name)


def _rebuilt(fields: dict[str, Any], sources: Mapping[str, Path | spec.Query], module: str) -> Study:
    """A study with these fields, which were checked when it was made."""
    study = Study.__new__(Study)
    BaseModel.__init__(study, **fields)
    study._resemble_function(module, sources)
    return study


P = ParamSpec("P")
R = TypeVar("R")
if TYPE_CHECKING:

    class FunctionStudy(Study, Generic[P, R]):
        """A study of one function, which can be called as that function."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    class DecoratingStudy(Study):
        """What `study(...)` returns without a function: a study if it has agents, else the decorator."""

        def __call__(self, function: Callable[P, R], /) -> FunctionStudy[P, R]: ...

else:
    DecoratingStudy = Any

    class FunctionStudy:
        """The type that checkers see of a study of one function; it is a `Study`."""

        def __class_getitem__(cls, of: object) -> type[Study]:
            return Study


class StudyFields(TypedDict, total=False):
    """What a study can be made of; see `Study`. Written by docs/generate.py."""

    name: str
    title: str
    description: str
    authors: Any
    rationale: str
    tags: Any
    notes: str
    version: str
    cases: Any
    factors: Any
    blocks: Any
    constraints: Any
    design: Any
    agent: Any
    agents: Any
    transform: Any
    evaluators: Any
    repeats: int
    seed: int
    order: str
    stop: Any
    anchors: int
    data: Any
    slices: Any
    outcomes: Any
    hypotheses: Any
    analysis_plans: Any
    budget: Any
    policy: Any
    storage: Any


class StudyDecorator:
    """The decorator that `study(...)` returns: makes a study of a function."""

    def __init__(self, fields: StudyFields, folders: list[Path], module: str) -> None:
        self._fields, self._folders, self._module = fields, folders, module

    def __call__(self, function: Callable[P, R]) -> FunctionStudy[P, R]:
        named = {"name": getattr(function, "__name__", "study"), **self._fields, "agent": function}
        made: Any = Study.assemble(named, self._folders, self._module)
        return made  # type: ignore[no-any-return]


@overload
def study(function: Callable[P, R], /, **fields: Unpack[StudyFields]) -> FunctionStudy[P, R]: ...
@overload
def study(function: None = None, /, **fields: Unpack[StudyFields]) -> DecoratingStudy: ...
def study(function: Callable[..., Any] | None = None, /, **fields: Unpack[StudyFields]) -> Any:
    """Make a study: `@study(cases=..., factors=...)` on a function, or `study(agents={...}, cases=...)`.

    The function stays callable. Relative files are looked for beside the calling file, then in the working
    folder. Everything that is wrong is raised at once, as `Invalid`.
    """
    folder, module = caller()
    folders = [folder or Path(), Path()]
    if function is not None:
        return StudyDecorator(fields, folders, module)(function)
    if "agent" in fields or "agents" in fields:
        return Study.assemble(fields, folders, module)
    return StudyDecorator(fields, folders, module)
