"""Sample files of the LM evaluation harness: `samples_TASK_DATE.jsonl`, written by --log_samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from peira.core.ids import Json, normalise
from peira.data.outputs.record import RecordedOutput, metrics_of
from peira.errors import Invalid
from peira.spec.data_files import DataRow, Problems, read_rows

NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
OWN = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")


def is_samples(path: Path) -> bool:
    """Whether the file name is that of a sample file."""
    return NAME.fullmatch(path.name) is not None


def outputs(path: Path, problems: Problems) -> Iterator[RecordedOutput]:
    """The outputs of a sample file; invalid rows are reported to `problems`."""
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
    """The model name from the results file next to the samples."""
    results = path.with_name(f"results_{date}.json")
    try:
        contents = msgspec.json.decode(results.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
    name = contents.get("model_name") if isinstance(contents, Mapping) else None
    return {"model": name} if isinstance(name, str) and name else {}


def _recorded(row: DataRow, task: str, facts: dict[str, Json]) -> Iterator[RecordedOutput]:
    """The outputs of one sample, one for each repeat."""
    sample = row.value
    if not isinstance(sample, Mapping) or not {"doc_id", "resps"} <= sample.keys():
        raise Invalid("is no sample of the harness: it has no doc_id and resps")
    named = sample.get("metrics")
    values = {name: sample.get(name) for name in (named if isinstance(named, list) else ())}
    numbers = {f"lm_eval.{name}": v for name, v in values.items() if isinstance(v, bool | int | float)}
    for repeat, output in enumerate(_responses(sample["resps"])):
        yield RecordedOutput(
            file=row.file,
            number=row.number,
            output=normalise(output, "resps"),
            case=str(sample["doc_id"]),
            input=normalise(_prompt(sample), "arguments"),
            expected=normalise(sample.get("target"), "target"),
            slice=task,
            facts=facts,
            repeat=repeat,
            metrics=metrics_of(numbers, None),
        )


def _responses(resps: Any) -> Iterable[Json]:
    """The responses of all repeats; for log-likelihoods, the index of the most likely choice."""
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


def _prompt(sample: Mapping[str, Any]) -> Json:
    """The prompt: the first argument of the first request."""
    given = sample.get("arguments")
    if isinstance(given, Mapping):
        given = [list(one.values()) if isinstance(one, Mapping) else one for one in given.values()]
    try:
        return given[0][0]  # type: ignore[index]
    except (TypeError, IndexError, KeyError):
        return sample.get("doc")
