"""Sample files of the LM evaluation harness: `samples_TASK_DATE.jsonl`, as its --log_samples writes them.

What the model said is the output. For a choice among given texts that is the place of the likeliest one, as
text: the harness keeps its targets so. A document that several filters were applied to stands there once for
each, with the same output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from peira.core.ids import Json, normalise
from peira.data.recorded.value import Recorded, metrics_of
from peira.errors import Invalid
from peira.spec.rows import Problems, Row, read_rows

NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
OWN = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")


def is_samples(path: Path) -> bool:
    """Whether the file is named as the harness names them."""
    return NAME.fullmatch(path.name) is not None


def outputs(path: Path, problems: Problems) -> Iterator[Recorded]:
    found = NAME.fullmatch(path.name)
    task, date = (found["task"], found["date"]) if found else (path.stem, "")
    facts: dict[str, Json] = {"task": task, **_model(path, date)}
    for row in read_rows(path, problems):
        try:
            yield from _recorded(row, task, facts)
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, problem)


def _model(path: Path, date: str) -> dict[str, Json]:
    """The model, as the results beside the samples name it."""
    results = path.with_name(f"results_{date}.json")
    try:
        said = msgspec.json.decode(results.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    name = said.get("model_name") if isinstance(said, Mapping) else None
    return {"model": name} if isinstance(name, str) and name else {}


def _recorded(row: Row, task: str, facts: dict[str, Json]) -> Iterator[Recorded]:
    sample = row.value
    if not isinstance(sample, Mapping) or not {"doc_id", "resps"} <= sample.keys():
        raise Invalid("is no sample of the harness: it has no doc_id and resps")
    named = sample.get("metrics")
    said = {name: sample.get(name) for name in (named if isinstance(named, list) else ())}
    numbers = {f"lm_eval.{name}": v for name, v in said.items() if isinstance(v, bool | int | float)}
    for repeat, output in enumerate(_said(sample["resps"])):
        yield Recorded(
            file=row.file,
            number=row.number,
            output=normalise(output, "resps"),
            case=str(sample["doc_id"]),
            input=normalise(_asked(sample), "arguments"),
            expected=normalise(sample.get("target"), "target"),
            slice=task,
            facts=facts,
            repeat=repeat,
            metrics=metrics_of(numbers, None),
        )


def _said(resps: Any) -> Iterable[Json]:
    """The repeats of what was said; or, where texts were weighed, the place of the likeliest."""
    if not isinstance(resps, list) or not resps or not all(isinstance(one, list) and one for one in resps):
        raise Invalid("resps: must be a list of lists")
    first = resps[0][0]
    if isinstance(first, list) and first:
        try:
            weights = [float(one[0][0]) for one in resps]
        except (TypeError, ValueError, IndexError):
            raise Invalid(f"resps: {first!r} is neither a text nor a likelihood") from None
        return [str(weights.index(max(weights)))]
    return list(resps[0])


def _asked(sample: Mapping[str, Any]) -> Json:
    """The prompt: the first argument of the first request."""
    given = sample.get("arguments")
    if isinstance(given, Mapping):
        given = [list(one.values()) if isinstance(one, Mapping) else one for one in given.values()]
    try:
        return given[0][0]  # type: ignore[index]
    except (TypeError, IndexError, KeyError):
        return sample.get("doc")
