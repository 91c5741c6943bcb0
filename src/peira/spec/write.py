"""A study as plain JSON, in the shapes that people write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peira.core.ids import Json, normalise
from peira.spec.case import Case
from peira.spec.constraints import Constraint
from peira.spec.evaluators import name_of, write_evaluator
from peira.spec.factors import Block, Factor, Level
from peira.spec.modules import reference
from peira.spec.query import Query
from peira.spec.transforms import write_transform
from peira.spec.values import Value

if TYPE_CHECKING:
    from peira.spec.study import Study

PLAIN = (
    *("name", "title", "description", "authors", "rationale", "tags", "notes", "version"),
    *("repeats", "seed", "order", "anchors", "data"),
)
LISTS = ("outcomes", "hypotheses", "analysis_plans")
TABLES = ("budget", "policy", "storage")


class Writer:
    """Writes one study. `unnamed` collects what no file can name."""

    def __init__(self, base: Path | None) -> None:
        self.base = base
        self.unnamed: list[str] = []

    def study(self, study: Study, *, files: bool = True, cases: bool = True) -> dict[str, Any]:
        """Only what the study says: what was left at its default is left out."""
        said = study.model_fields_set
        document: dict[str, Any] = {key: getattr(study, key) for key in PLAIN if key in said or key == "name"}
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
        document |= {key: [_said(v) for v in getattr(study, key)] for key in LISTS if getattr(study, key)}
        document |= {key: getattr(study, key).model_dump(exclude_unset=True) for key in TABLES if key in said}
        return dict(normalise(document))

    def _agents(self, study: Study) -> dict[str, Any]:
        if study.function is not None:
            return {"agent": self._code(study.function, "agent")}
        return {"agents": {label: self._code(fn, f"agents.{label}") for label, fn in study.agents.items()}}

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

    def _source(self, source: Path | Query) -> Json:
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
