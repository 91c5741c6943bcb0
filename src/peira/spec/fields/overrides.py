"""Other values for fields of a study, by dotted keys: `seed`, `policy.retries`, `factors.style`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from peira.core.ids import Json
from peira.errors import Invalid
from peira.spec.factors import Block, Design, Factor
from peira.spec.stopping import Stop
from peira.spec.study import Study
from peira.spec.values import Value


def read_overrides(texts: Iterable[str]) -> dict[str, Json]:
    """The overrides of KEY=VALUE texts; a value is JSON if it can be read as such, else a text.

    Raises Invalid with every text that has no key.
    """
    found: dict[str, Json] = {}
    problems = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            problems.append(f"write KEY=VALUE, like seed=3 or policy.retries=2, not {text!r}")
        else:
            found[key.strip()] = _read(value.strip())
    if problems:
        raise Invalid(problems)
    return found


def _read(text: str) -> Json:
    """A value: JSON, or the text itself."""
    try:
        return json.loads(text, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return text


def overridden(study: Study, changes: Mapping[str, Json]) -> Study:
    """The study with these fields instead of its own, checked as a whole; Invalid holds every problem.

    A dotted key changes a part of a field: of a table (`budget`, `policy`, `storage`, `design`, `stop`), or
    the levels of one factor or block. Files are looked for in the working folder.
    """
    if not changes:
        return study
    raw = _written(study)
    for key, value in changes.items():
        raw = _changed(raw, key.split("."), value)
    made = Study.assemble(raw, [Path()], study.__module__)
    kept = {label: source for label, source in study.sources.items() if "cases" not in changes}
    object.__setattr__(made, "_sources", {**kept, **made.sources})
    return made


def _written(study: Study) -> dict[str, Any]:
    """The fields of a study that were given, under the keys that a study is written with."""
    raw: dict[str, Any] = {
        name: getattr(study, name)
        for name in study.model_fields_set - {"case_sets", "agents", "labelled"}
        if getattr(study, name) is not None
    }
    sets, sole = study.case_sets, next(iter(study.agents.values()), None)
    raw["cases"] = sets[""] if set(sets) == {""} else dict(sets)
    return raw | ({"agents": dict(study.agents)} if study.labelled else {"agent": sole})


def _changed(raw: dict[str, Any], path: list[str], value: Json) -> dict[str, Any]:
    """The written fields with the value at a path."""
    field, *rest = path
    if not rest:
        others = {"agent": "agents", "agents": "agent"}
        return {key: kept for key, kept in raw.items() if key != others.get(field)} | {field: value}
    return {**raw, field: _nested(raw.get(field), rest, value)}


def _nested(now: Any, path: list[str], value: Json) -> dict[str, Any]:
    """A table with the value at a path within it."""
    table, (name, *rest) = _table(now), path
    return {**table, name: _nested(table.get(name), rest, value) if rest else value}


def _table(now: Any) -> dict[str, Any]:
    """A field as the table that it is written as."""
    if isinstance(now, Design):
        return {"name": now.name, **now.parameters}
    if isinstance(now, Stop):
        return {"rule": now.rule, **now.options}
    if isinstance(now, (list, tuple)) and all(isinstance(one, Factor | Block) for one in now):
        return {one.name: one for one in now}
    if isinstance(now, Factor | Block):
        return {key: getattr(now, key) for key in now.model_fields_set - {"name"}}
    if isinstance(now, Value):
        return {key: getattr(now, key) for key in now.model_fields_set}
    return dict(now) if isinstance(now, Mapping) else {}
