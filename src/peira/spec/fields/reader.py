"""Reads the fields of a study, in every accepted form, and reports all problems at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

import peira.spec as spec
from peira.core.code.signature import has_run
from peira.core.ids import Json
from peira.core.registry import nearest, registry
from peira.errors import Invalid
from peira.spec.agents import COMMAND, AgentKind, AgentValue, is_kind, read_kind
from peira.spec.case import Case, as_cases, gathered, with_evaluators
from peira.spec.constraints import Constraint
from peira.spec.documents import locate
from peira.spec.factors import Block, Design, Factor
from peira.spec.fields.declaration import fields_of, keys_of, shaped
from peira.spec.modules import Decorated, Missing, attribute, is_reference, load_file
from peira.spec.plugins import name_of
from peira.spec.stopping import read_stop
from peira.spec.values import Value, join, read_value

T = TypeVar("T")


class StudyReader:
    """Reads one study. With `lenient`, code that cannot be loaded becomes a placeholder, not a problem."""

    def __init__(self, folders: Sequence[Path], lenient: bool = False) -> None:
        self.folders = folders
        self.lenient = lenient
        self.problems: list[str] = []
        self.broken: set[str] = set()
        self.sources: dict[str, Path | spec.Query] = {}
        self.data: dict[str, Json] = {}

    def read(self, raw: Mapping[str, Any], study: type[BaseModel]) -> dict[str, Any]:
        """The fields of a study of this class that could be read; problems are collected."""
        keys = keys_of(study)
        unknown = [key for key in raw if key not in keys]
        self.problems += [f"{key}: is not a part of a study{nearest(str(key), keys)}" for key in unknown]
        fields = {
            field.name: raw[field.name]
            for field in shaped(study, "plain")
            if field.name in raw and field.name in keys and field.name not in _OWN
        }
        fields["case_sets"] = self.case_sets(raw.get("cases"))
        if "data" in raw or self.data:
            fields["data"] = self.data or raw["data"]
        fields |= self.agents(raw)
        if raw.get("transform") is not None:
            fields["transform"] = self.attempt("transform", self._transform, raw["transform"])
        fields["evaluators"] = self.evaluators(raw.get("evaluators"), "evaluators")
        parts = _PARTS | {
            field.name: partial(_one if field.shape == "table" else _many, field.kind)
            for field in fields_of(study)
            if field.kind is not None and field.name not in _PARTS
        }
        fields |= {key: read(self, raw[key], key) for key, read in parts.items() if raw.get(key) is not None}
        return {key: value for key, value in fields.items() if value is not None or key not in parts}

    def attempt(self, path: str, make: Callable[..., T], *args: Any) -> T | None:
        """The value of `make(*args)`; None if it raises Invalid, whose problems are noted at the path."""
        try:
            return make(*args)
        except Invalid as error:
            self.problems += [join(path, problem) for problem in error.problems]
            return None

    # Cases

    def case_sets(self, raw: Any) -> dict[str, Sequence[Case]]:
        """The sets of cases by label; a sole set has the label ""."""
        if raw is None:
            self.problems.append("cases: is missing")
            return {}
        if not isinstance(raw, Mapping) or spec.is_query(raw):
            return {"": self.case_set("", raw, "cases")}
        if "input" in raw:
            self.problems.append("cases: this is one case; write a list of cases")
            return {}
        return {
            str(label): self.case_set(str(label), given, f"cases.{label}") for label, given in raw.items()
        }

    def case_set(self, label: str, raw: Any, path: str) -> Sequence[Case]:
        """One set of cases: from a list, a file or a query."""
        before = len(self.problems)
        cases: Sequence[Case]
        if isinstance(raw, (str, Path)):
            cases = self.attempt(path, self._from_file, label, raw) or ()
        elif not isinstance(raw, (list, tuple)) and spec.is_query(raw):
            cases = self.attempt(path, self._from_data, label, raw) or ()
        elif isinstance(raw, Iterable) and not isinstance(raw, (Mapping, bytes)):
            problems: list[str] = []
            cases = gathered(as_cases(raw, lambda i: f"{path}[{i}]", problems))
            self.problems += spec.shortened(problems) if problems else ()
        else:
            self.problems.append(f"{path}: must be a list of cases, or the name of a file, not {raw!r}")
            cases = ()
        if not cases and len(self.problems) > before:
            self.broken.add(path)
        judged = any(with_evaluators(cases))
        return tuple(self._with_functions(case, path) for case in cases) if judged else cases

    def _from_file(self, label: str, name: str | Path) -> Sequence[Case]:
        """The cases of a file."""
        path = locate(name, self.folders).resolve()
        cases = spec.read_cases(path)
        self.sources[label] = path
        return cases

    def _from_data(self, label: str, raw: Any) -> Sequence[Case]:
        """The cases that a query selects."""
        query: spec.Query = read_value(spec.Query, raw)
        found = spec.ask_for(query, self.folders)
        if query.rows is None:
            self.sources[label] = _placed(query, self.folders)
        self.data[label] = found.origin
        return found.cases

    def _with_functions(self, case: Case, path: str) -> Case:
        """The case, with evaluators that are named as file.py:name replaced by their functions."""
        if not any(isinstance(e, str) and is_reference(e) for e in case.evaluators):
            return case
        return msgspec.structs.replace(
            case, evaluators=self.evaluators(case.evaluators, f"{path}.evaluators")
        )

    # Code

    def agents(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The agents by label, and whether the labels were given."""
        given = [key for key in ("agent", "agents") if raw.get(key) is not None]
        if len(given) != 1:
            self.problems.append(
                "agent: is missing" if not given else "agent: give agent or agents, not both"
            )
            return {"agents": {}, "labelled": False}
        value = raw[given[0]]
        if isinstance(value, Mapping) and not self._is_missing(value) and not is_kind(value):
            return {"agents": self._labelled(value, given[0]), "labelled": True}
        fn = self.attempt(given[0], self._agent, value)
        return {"agents": {} if fn is None else {name_of(fn): fn}, "labelled": False}

    def _labelled(self, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Several agents by label."""
        if not value:
            self.problems.append(f"{path}: there are none")
        made = {str(k): self.attempt(f"{path}.{k}", self._agent, v) for k, v in value.items()}
        return {label: fn for label, fn in made.items() if fn is not None}

    def _agent(self, value: Any) -> Any:
        """An agent: a function, or a registered kind that is given by its table or its name."""
        if isinstance(value, AgentKind):
            value = value.written()
        elif isinstance(value, AgentValue):
            return value
        elif isinstance(value, str) and value in registry.names("agent"):
            value = {"kind": value}
        return self._kind(value) if is_kind(value) else self._function(value)

    def _kind(self, value: Mapping[str, Any]) -> Any:
        """An agent of a registered kind."""
        try:
            return read_kind(value, self.folders)
        except Invalid as error:
            if not self.lenient:
                raise
            return Missing(str(value.get("kind", COMMAND)), str(error))

    def _function(self, value: Any) -> Any:
        """A function under test, also that of a decorated study."""
        value = self._code(value)
        if isinstance(value, AgentValue):
            return value
        if isinstance(value, Decorated):
            if value.function is None:
                raise Invalid("is a study of several agents; name one function")
            return value.function
        if callable(value) or has_run(value):
            return value
        if callable(run := getattr(value, "run", None)):
            return run
        raise Invalid(f"must be a function or its name as file.py:name, not {value!r}")

    def _code(self, value: Any) -> Any:
        """The function that a string names, a placeholder for one that a snapshot lacks, else the value."""
        if isinstance(value, str):
            return self.resolve(value)
        if self._is_missing(value):
            return Missing(str(value["missing"]), "it had no name in a file, so it was not kept where it is")
        return value

    def _is_missing(self, value: Any) -> bool:
        """Whether it stands for code that a snapshot could not name."""
        return self.lenient and isinstance(value, Mapping) and set(value) == {"missing"}

    def resolve(self, text: str) -> Any:
        """The object named by file.py:name, from the first folder that has the file."""
        try:
            if not is_reference(text):
                raise Invalid(f"{text!r} does not have the form file.py:name")
            file, _, name = text.rpartition(":")
            return attribute(load_file(locate(file, self.folders)), name, file)
        except Invalid as error:
            if not self.lenient:
                raise
            return Missing(re.split(r"[:.]", text)[-1], str(error))

    def evaluators(self, raw: Any, path: str) -> tuple[Any, ...]:
        """One evaluator, or a list of them."""
        given = () if raw is None else raw if isinstance(raw, (list, tuple)) else (raw,)
        made = [self.attempt(f"{path}[{i}]", self._plugin, e) for i, e in enumerate(given)]
        return tuple(e for e in made if e is not None)

    def _plugin(self, given: Any) -> Any:
        """The name of a plug-in as it is; what anything else refers to."""
        return given if isinstance(given, str) and not is_reference(given) else self._code(given)

    def _transform(self, given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return tuple(map(self._transform, given))
        return self._plugin(given)

    # Parts

    def varying(self, raw: Any, path: str, kind: type[Factor | Block]) -> tuple[Any, ...]:
        """Factors or blocks: a table of name and levels (or of name and fields), or a list."""
        if isinstance(raw, Mapping):
            made = [self._named(str(name), given, path, kind) for name, given in raw.items()]
        else:
            made = list(self.several(raw, path, kind))
        return tuple(v for v in made if v is not None)

    def _named(self, name: str, given: Any, path: str, kind: type[Factor | Block]) -> Any:
        if isinstance(given, kind):
            if given.name != name:
                self.problems.append(f"{path}.{name}: its own name is {given.name!r}")
            return given
        fields = {"name": name, **(given if isinstance(given, Mapping) else {"levels": given})}
        before = len(self.problems)
        made = self.attempt(f"{path}.{name}", read_value, kind, fields)
        if made is None:
            self.broken.add(name)
            self.problems[before:] = [
                p.replace(f".{name}.name:", f".{name}:") for p in self.problems[before:]
            ]
        return made

    def several(self, raw: Any, path: str, kind: type[Value]) -> tuple[Any, ...]:
        """A list of values of one kind, or a single one."""
        if not isinstance(raw, (list, tuple)):
            raw = (raw,)
        made = [self.attempt(f"{path}[{i}]", read_value, kind, item) for i, item in enumerate(raw)]
        self.broken |= {str(_label(item)) for item, value in zip(raw, made, strict=True) if value is None}
        return tuple(value for value in made if value is not None)

    def constraints(self, raw: Any, path: str) -> tuple[Any, ...]:
        """Constraints: expressions, functions or tables."""
        given = raw if isinstance(raw, (list, tuple)) else (raw,)
        made = [self.attempt(f"{path}[{i}]", self._constraint, item) for i, item in enumerate(given)]
        return tuple(c for c in made if c is not None)

    def _constraint(self, raw: Any) -> Constraint:
        if isinstance(raw, Constraint):
            return raw
        table = dict(raw) if isinstance(raw, Mapping) else {"expression": raw}
        text = table.get("expression")
        if not isinstance(text, str) or is_reference(text):
            table["expression"] = self._code(text)
        made: Constraint = read_value(Constraint, table)
        return made

    def design(self, raw: Any, path: str) -> Design | None:
        """The design: a name, or a table of its name and parameters."""
        if isinstance(raw, str):
            return self.attempt(path, Design, raw)
        if isinstance(raw, Mapping) and "name" in raw:
            rest = {key: value for key, value in raw.items() if key != "name"}
            raw = {"name": raw["name"], "parameters": rest}
        return self.attempt(path, read_value, Design, raw)


def _placed(query: spec.Query, folders: Sequence[Path]) -> spec.Query:
    """The query with absolute paths of its files and folder."""
    files = tuple(str(locate(name, folders).resolve()) for name in query.file)
    folder = str(locate(query.folder, folders).resolve()) if query.folder else ""
    places = {"file": files} if files else {"folder": folder} if folder else {}
    return query.model_copy(update=places)


def _label(raw: Any) -> Any:
    return next((raw[key] for key in ("name", "id") if key in raw), "") if isinstance(raw, Mapping) else ""


def _one(kind: type[Value], reader: StudyReader, raw: Any, path: str) -> Any:
    return reader.attempt(path, read_value, kind, raw)


def _many(kind: type[Value], reader: StudyReader, raw: Any, path: str) -> Any:
    return reader.several(raw, path, kind)


_PARTS: dict[str, Callable[[StudyReader, Any, str], Any]] = {
    "factors": lambda reader, raw, path: reader.varying(raw, path, Factor),
    "blocks": lambda reader, raw, path: reader.varying(raw, path, Block),
    "constraints": StudyReader.constraints,
    "design": StudyReader.design,
    "stop": lambda reader, raw, path: reader.attempt(path, read_stop, raw),
}
"""Fields with readers of their own."""
_OWN = {*_PARTS, "agents", "data", "transform", "evaluators"}
"""Those, and fields that hold code or come with the cases."""
