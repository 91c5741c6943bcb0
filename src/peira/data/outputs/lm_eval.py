"""Sample files of the LM evaluation harness: `samples_TASK_DATE.jsonl`, written by --log_samples.

The harness writes a row for each document and filter. The rows of a document are one output, and each metric
under each filter is a score of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from peira.core.files import check_source
from peira.core.ids import Json, normalise
from peira.core.verdicts import NoVerdict, to_json
from peira.data.outputs.record import (
    RecordedOutput,
    attachment,
    metrics_of,
    numbers_of,
    plain,
    read_json,
    score_of,
)
from peira.errors import Invalid
from peira.spec.data_files import Problems

NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
NO_FILTER = "none"
WEIGHTED = ("word_perplexity", "byte_perplexity", "bits_per_byte")
"""Metrics of which a sample has [log-likelihood, units]."""


def is_samples(path: Path) -> bool:
    """Whether the file name is that of a sample file."""
    return NAME.fullmatch(path.name) is not None


def outputs(path: Path, problems: Problems) -> Iterator[RecordedOutput]:
    """The outputs of a sample file, with all filters; invalid rows are reported to `problems`."""
    found = NAME.fullmatch(path.name)
    task, date = (found["task"], found["date"]) if found else (path.stem, "")
    facts: dict[str, Json] = {"task": task, **_model(path, date)}
    check_source(path)
    try:
        with path.open("rb") as file:
            for rows in _documents(path.name, file, problems).values():
                samples = [(number, _sample(file, place)) for number, place in rows]
                try:
                    yield from _recorded(path.name, samples, task, facts)
                except Invalid as error:
                    for problem in error.problems:
                        problems.add(path.name, samples[0][0], problem)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None


def _documents(name: str, file: Any, problems: Problems) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Line numbers and places of the rows of each document; a filter that comes again begins another one."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    met: dict[tuple[str, str], int] = {}
    place = 0
    for number, line in enumerate(file, 1):
        if not line.isspace():
            try:
                sample = read_json(line)
                if not isinstance(sample, Mapping) or not {"doc_id", "resps"} <= sample.keys():
                    raise Invalid("is no sample of the harness: it has no doc_id and resps")
                document, by = str(sample["doc_id"]), str(sample.get("filter", NO_FILTER))
                nth = met[document, by] = met.get((document, by), -1) + 1
                found.setdefault((document, nth), []).append((number, place))
            except Invalid as error:
                problems.add(name, number, str(error))
        place += len(line)
    return found


def _sample(file: Any, place: int) -> Mapping[str, Any]:
    """The sample at a place of the file."""
    file.seek(place)
    sample: Mapping[str, Any] = read_json(file.readline())
    return sample


def _model(path: Path, date: str) -> dict[str, Json]:
    """The model name from the results file next to the samples: `results_DATE.json`, or NAME_DATE.json."""
    beside = sorted(path.parent.glob(f"*_{date}.json")) if date else []
    for results in [path.with_name(f"results_{date}.json"), *beside]:
        try:
            contents = read_json(results.read_bytes())
        except (OSError, Invalid):
            continue
        name = contents.get("model_name") if isinstance(contents, Mapping) else None
        if isinstance(name, str) and name:
            return {"model": name}
    return {}


def _recorded(
    file: str, rows: list[tuple[int, Mapping[str, Any]]], task: str, facts: dict[str, Json]
) -> Iterator[RecordedOutput]:
    """The outputs of one document, one for each repeat."""
    number, sample = rows[0]
    responses = list(_responses(sample["resps"]))
    scores = {name: score for _, row in rows for name, score in _scores(row)}
    later = to_json(NoVerdict("the responses to a document are scored together, with the first"))
    doc = plain(sample.get("doc"))
    model = facts.get("model")
    for repeat, output in enumerate(responses):
        own = scores if repeat == 0 else dict.fromkeys(scores, later)
        yield RecordedOutput(
            file=file,
            number=number,
            output=normalise(output, "resps"),
            case=str(sample["doc_id"]),
            input=normalise(_prompt(sample), "arguments"),
            expected=normalise(plain(sample.get("target")), "target"),
            slice=task,
            metadata=normalise(doc, "doc") if isinstance(doc, dict) else {},
            facts=facts,
            repeat=repeat,
            metrics=metrics_of({**_likelihoods(sample), **numbers_of(own)}, None),
            scores=own,
            about={"served": str(model)} if model else {},
            attached={"lm_eval.json": attachment([row for _, row in rows])} if repeat == 0 else {},
        )


def _scores(sample: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """The metrics of a row: `lm_eval.METRIC`, or `lm_eval.METRIC.FILTER` if the task names its filters."""
    by = str(sample.get("filter", NO_FILTER))
    named = sample.get("metrics")
    for name in named if isinstance(named, list) else ():
        if name in sample:
            whole = f"lm_eval.{name}" if by == NO_FILTER else f"lm_eval.{name}.{by}"
            yield whole, _weighted(name, sample[name])


def _weighted(name: str, value: Any) -> Json:
    """A metric of one sample; of those that are weighted when they are put together, that of this sample."""
    if name in WEIGHTED and isinstance(value, list) and len(value) == 2:
        try:
            likelihood, units = float(value[0]), float(value[1])
            mean = likelihood / units
            own = -mean / math.log(2) if name == "bits_per_byte" else math.exp(-mean)
            return own
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            pass
    return score_of(value)


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
    return [plain(one) for one in resps[0]]


def _likelihoods(sample: Mapping[str, Any]) -> dict[str, float]:
    """The log-likelihood of each choice, by its position, and the parts of weighted metrics."""
    found: dict[str, Any] = {}
    resps = sample["resps"]
    if isinstance(resps[0][0], list):
        found = {f"loglikelihood.{position}": one[0][0] for position, one in enumerate(resps)}
    for name in WEIGHTED:
        if isinstance(value := sample.get(name), list) and len(value) == 2:
            found |= {f"lm_eval.{name}.loglikelihood": value[0], f"lm_eval.{name}.units": value[1]}
    return {name: float(value) for name, value in found.items() if math.isfinite(float(value))}


def _prompt(sample: Mapping[str, Any]) -> Json:
    """The prompt: the first argument of the first request, or the document if there is no prompt."""
    given = sample.get("arguments")
    if isinstance(given, Mapping):
        given = [list(one.values()) if isinstance(one, Mapping) else one for one in given.values()]
    try:
        return given[0][0]  # type: ignore[index]
    except (TypeError, IndexError, KeyError):
        return plain(sample.get("doc"))
