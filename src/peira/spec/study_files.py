"""Studies from files, and back: .py, .toml, .yaml and .json files of the same study give the same study.

`check` lists every problem of a study file, one line each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import peira.spec as spec
from peira.core.ids import Json, normalise
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.agents import AgentValue
from peira.spec.case import Case
from peira.spec.constraints import Constraint
from peira.spec.documents import FORMATS, read_document, write_document
from peira.spec.factors import Block, Factor, Level
from peira.spec.fields.declaration import shaped
from peira.spec.fields.rules import broken_rules
from peira.spec.modules import is_reference, load_file, reference, resolve_reference
from peira.spec.plugins import name_of, write_evaluator, write_transform
from peira.spec.study import Study
from peira.spec.values import Value

OWN = {"agents", "labelled", "case_sets", "factors", "blocks", "constraints", "design", "transform"}
OWN |= {"evaluators", "stop"}
"""Fields that are written in shapes of their own."""


class StudyWriter:
    """Writes one study. `unnamed` collects what no file can name."""

    def __init__(self, base: Path | None) -> None:
        self.base = base
        self.unnamed: list[str] = []

    def study(self, study: Study, *, files: bool = True, cases: bool = True) -> dict[str, Any]:
        """Only what the study says: what was left at its default is left out."""
        said = study.model_fields_set
        names = {
            shape: [field.name for field in shaped(type(study), shape) if field.name not in OWN]
            for shape in ("plain", "list", "table")
        }
        document: dict[str, Any] = {
            name: getattr(study, name) for name in names["plain"] if name in said or name == "name"
        }
        document |= self._agents(study)
        document["cases"] = self._case_sets(study, files, cases)
        if study.factors:
            document["factors"] = {factor.name: _varying(factor) for factor in study.factors}
        if study.blocks:
            document["blocks"] = {block.name: _varying(block) for block in study.blocks}
        if study.constraints:
            document["constraints"] = [
                self._constraint(c, f"constraints[{i}]") for i, c in enumerate(study.constraints)
            ]
        if "design" in said:
            name, parameters = study.design.name, study.design.parameters
            document["design"] = {"name": name, **parameters} if parameters else name
        if study.transform is not None:
            written = write_transform(study.transform, self.base)
            document["transform"] = (
                self._missing(study.transform, "transform") if written is None else written
            )
        if study.evaluators:
            document["evaluators"] = self._evaluators(study.evaluators, "evaluators")
        if study.stop is not None:
            document["stop"] = study.stop.written()
        lists = {name: getattr(study, name) for name in names["list"]}
        document |= {name: [_said(value) for value in values] for name, values in lists.items() if values}
        tables = {name: getattr(study, name) for name in names["table"] if name in said}
        document |= {name: table.model_dump(exclude_unset=True) for name, table in tables.items()}
        return dict(normalise(document))

    def _agents(self, study: Study) -> dict[str, Any]:
        if not study.labelled and study.agents:
            [sole] = study.agents.values()
            return {"agent": self._agent(sole, "agent")}
        return {"agents": {label: self._agent(fn, f"agents.{label}") for label, fn in study.agents.items()}}

    def _agent(self, given: Any, path: str) -> Json:
        written = given.written(self.base) if isinstance(given, AgentValue) else None
        return self._code(given, path) if written is None else written

    def _code(self, fn: Any, path: str) -> Json:
        return reference(fn, self.base) or self._missing(fn, path)

    def _missing(self, fn: Any, path: str) -> Json:
        self.unnamed.append(f"{path}: {name_of(fn)} has no name in a file; define it at the top of a module")
        return {"missing": name_of(fn)}

    def _case_sets(self, study: Study, files: bool, cases: bool) -> Json:
        sets: dict[str, Json] = {}
        for label, found in study.case_sets.items():
            if files and label in study.sources:
                sets[label] = self._source(study.sources[label])
            else:
                sets[label] = [self._case(case) for case in found] if cases else []
        return sets[""] if set(sets) == {""} else sets

    def _source(self, source: Path | spec.Query) -> Json:
        if isinstance(source, Path):
            return self._file(source)
        said = source.model_dump(exclude_unset=True, exclude={"rows"})
        files = [self._file(Path(name)) for name in source.file]
        said["file"] = files[0] if len(files) == 1 else files
        said["folder"] = self._file(Path(source.folder)) if source.folder else ""
        return {key: value for key, value in said.items() if value not in ("", [], ())}

    def _file(self, path: Path) -> str:
        return str(path) if self.base is None else os.path.relpath(path, self.base.resolve())

    def _case(self, case: Case) -> Json:
        written: dict[str, Json] = {"input": case.input}
        if case.expected is not None:
            written["expected"] = case.expected
        for key in ("id", "cluster", "slice"):
            if (value := getattr(case, key)) is not None:
                written[key] = value
        if case.metadata:
            written["metadata"] = case.metadata
        if case.evaluators:
            written["evaluators"] = self._evaluators(case.evaluators, "cases.evaluators")
        return written

    def _evaluators(self, given: tuple[Any, ...], path: str) -> list[Json]:
        written = [(write_evaluator(e, self.base), e, f"{path}[{i}]") for i, e in enumerate(given)]
        return [self._missing(e, where) if text is None else text for text, e, where in written]

    def _constraint(self, constraint: Constraint, path: str) -> Json:
        text = constraint.expression
        if not isinstance(text, str):
            text = self._code(text, path)
        rest = {key: value for key, value in _said(constraint).items() if key != "expression"}
        return {"expression": text, **rest} if rest or not isinstance(text, str) else text


def _varying(varying: Factor | Block) -> Json:
    levels = [_level(level) for level in varying.levels]
    rest = {key: v for key, v in _said(varying).items() if key not in ("name", "levels")}
    if not levels:  # a range
        return rest
    return {"levels": levels, **rest} if rest else levels


def _level(level: Level) -> Json:
    said = _said(level)
    # A table that has a `value` would be read as a Level, so such a value is written inside one.
    plain = set(said) == {"value"} and not (isinstance(level.value, Mapping) and "value" in level.value)
    return level.value if plain else said


def _said(value: Value) -> dict[str, Any]:
    return value.model_dump(exclude_defaults=True)


def load(ref: str | Path, base: Path | None = None) -> Study:
    """The study that is meant by file.py, file.py:name, a .toml, .yaml or .json file, or a benchmark's name.

    Invalid holds every problem. A relative file lies under `base`, or else the working folder.
    """
    text, base = str(ref), base or Path()
    if is_reference(text):
        return _named(text, base)
    path = base / text
    if path.suffix == ".py":
        return _sole(load_file(path), path.name)
    if path.suffix in FORMATS:
        return _from_document(path)
    if (meant := spec.find_benchmark(text)) is not None:
        return meant.compile()
    raise Invalid(f"{text!r} is no study; use file.py, file.py:name, or one of {', '.join(FORMATS)}")


def _named(text: str, base: Path) -> Study:
    found = resolve_reference(text, base)
    if isinstance(found, Study):
        return found
    if isinstance(found, spec.Benchmark):
        return found.compile()
    file, _, name = text.rpartition(":")
    studies = _studies(load_file(base / file))
    raise Invalid(f"{name} in {file} is not a study; decorate it with @study{nearest(name, studies)}")


def _sole(module: ModuleType, file: str) -> Study:
    studies = _studies(module)
    if len({id(study) for study in studies.values()}) == 1:
        return next(iter(studies.values()))
    if not studies:
        raise Invalid(f"there is no study in {file}")
    raise Invalid(f"there are several studies in {file}: write {' or '.join(f'{file}:{n}' for n in studies)}")


def _studies(module: ModuleType) -> dict[str, Study]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Study)}


def _from_document(path: Path) -> Study:
    document = read_document(path)
    if not isinstance(document, Mapping):
        raise Invalid(f"{path.name} must hold the parts of a study (name, cases, agent, ...)")
    return Study.assemble({"name": path.stem, **document}, [path.resolve().parent])


def dump(study: Study, base: Path | None = None) -> dict[str, Any]:
    """The study as plain JSON: functions as file.py:name, cases from a file as that file.

    Files are named relative to `base`, or else absolutely. A function that has no name in a file is written
    {"missing": its name}: `restore` makes a placeholder of it.
    """
    return StudyWriter(base).study(study)


def save(study: Study, path: str | Path) -> None:
    """Write a .toml, .yaml or .json file that `load` reads back as the same study."""
    path = Path(path)
    writer = StudyWriter(path.resolve().parent)
    document = writer.study(study)
    if writer.unnamed:
        raise Invalid(writer.unnamed)
    write_document(path, document)


def snapshot(study: Study, base: Path | None = None, *, cases: bool = True) -> dict[str, Any]:
    """What a run keeps of a study: `dump`, with its cases in place of the names of their files.

    With `cases=False` they are left out, for a run that keeps them elsewhere.
    """
    return StudyWriter(base).study(study, files=False, cases=cases)


def restore(snapshot: Mapping[str, Any], base: Path | None = None) -> Study:
    """The study of a snapshot, also when the user's files have changed or gone.

    A placeholder stands for code that cannot be had any more; using it raises Invalid with the reason.
    """
    return Study.assemble(snapshot, [base or Path()], lenient=True)


def check(study: Study | Mapping[str, Any] | str | Path, base: Path | None = None) -> list[str]:
    """The problems of a study, of what would become one, or of a file; relative files lie under `base`."""
    if isinstance(study, Study):
        return list(broken_rules(study))
    try:
        if isinstance(study, Mapping):
            Study.assemble(study, [base or Path()])
        else:
            load(study, base)
    except Invalid as error:
        return list(error.problems)
    return []
