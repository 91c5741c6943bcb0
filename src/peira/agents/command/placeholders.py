"""Placeholders in the words of a command: {input}, {id}, {metadata.field}, and {name} for any factor."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from peira.core.context import Trial
from peira.core.ids import Json
from peira.errors import Invalid

CASE = ("input", "id", "slice", "cluster", "metadata", "seed", "repeat")
"""What is known of the case and the trial; any other name is a factor."""
_MARK = re.compile(r"\{\{(?P<literal>[\w.]+)\}\}|\{(?P<name>[A-Za-z_]\w*)(?P<path>(?:\.\w+)*)\}")


def names_in(texts: Iterable[str]) -> frozenset[str]:
    """The names that the placeholders of these texts refer to."""
    return frozenset(found["name"] for text in texts for found in _MARK.finditer(text) if found["name"])


def values_of(trial: Trial) -> dict[str, Json]:
    """What placeholders stand for in a trial."""
    case = trial.case
    return {
        **trial.condition,
        "input": case.input,
        "id": case.id,
        "slice": case.slice,
        "cluster": case.cluster,
        "metadata": case.metadata,
        "seed": trial.seed,
        "repeat": trial.repeat,
    }


def filled(text: str, values: Mapping[str, Json]) -> str:
    """The text with its placeholders replaced: text as it is, other values as JSON, null as nothing.

    {{name}} stands for {name} itself. Raises Invalid if there is no such value.
    """

    def replace(found: re.Match[str]) -> str:
        if found["literal"]:
            return "{" + found["literal"] + "}"
        name = found["name"]
        if name not in values:
            raise Invalid(f"{found[0]}: this trial has no {name!r}")
        return _text(_inner(values[name], found["path"].split(".")[1:], found[0]))

    return _MARK.sub(replace, text)


def _inner(value: Json, path: list[str], shown: str) -> Json:
    """The value at a path inside a value."""
    for step in path:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise Invalid(f"{shown}: there is no {step!r}")
    return value


def _text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
