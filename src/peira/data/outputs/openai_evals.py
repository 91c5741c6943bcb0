"""Logs of OpenAI evals: JSONL with a `spec`, the events of samples, and a `final_report`.

The events of a sample are one output: what was sampled, and what its `match` and `metrics` events say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peira.core.files import check_source
from peira.core.ids import Json, normalise
from peira.data.outputs.record import (
    ABSENT,
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

Event = Mapping[str, Any]


def is_log(first_line: bytes) -> bool:
    """Whether a JSONL file that begins with this line is a log."""
    try:
        first = read_json(first_line)
    except Invalid:
        return False
    return isinstance(first, Mapping) and isinstance(first.get("spec"), Mapping)


def outputs(path: Path, problems: Problems) -> Iterator[RecordedOutput]:
    """The samples of a log, in the order in which they ended; lines that cannot be read are reported."""
    spec: Mapping[str, Any] = {}
    samples: dict[str, list[tuple[int, Event]]] = {}
    check_source(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    event = read_json(line) if not line.isspace() else {}
                except Invalid as error:
                    problems.add(path.name, number, str(error))
                    continue
                spec = event.get("spec", spec)
                if event.get("sample_id") is not None:
                    samples.setdefault(str(event["sample_id"]), []).append((number, event))
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None
    facts = _facts(spec)
    for sample, events in samples.items():
        try:
            yield _recorded(path.name, sample, events, facts)
        except Invalid as error:
            for problem in error.problems:
                problems.add(path.name, events[0][0], problem)


def _facts(spec: Mapping[str, Any]) -> dict[str, Json]:
    """The eval as the task, and what was asked as the model."""
    asked = ", ".join(str(one) for one in spec.get("completion_fns") or ())
    return {"task": str(spec.get("base_eval") or spec.get("eval_name") or ""), "model": asked}


def _recorded(
    file: str, sample: str, events: list[tuple[int, Event]], facts: dict[str, Json]
) -> RecordedOutput:
    """The output of one sample."""
    of: dict[str, list[Mapping[str, Any]]] = {}
    for _, event in events:
        data = event.get("data")
        of.setdefault(str(event.get("type")), []).append(data if isinstance(data, Mapping) else {})
    sampling, matches = of.get("sampling", []), of.get("match", [])
    errors = of.get("error", [])
    sampled = sampling[-1].get("sampled") if sampling else None
    if sampled is None and matches:
        sampled = matches[-1].get("sampled", matches[-1].get("picked"))
    output = sampled[0] if isinstance(sampled, list) and len(sampled) == 1 else sampled
    failed = output is None
    expected = next((one["expected"] for one in matches if one.get("expected") is not None), None)
    scores = dict(_scores(matches, of.get("metrics", [])))
    usages = [one["usage"] for one in sampling if isinstance(one.get("usage"), Mapping)]
    return RecordedOutput(
        file=file,
        number=events[0][0],
        output=ABSENT if failed else normalise(plain(output), "sampled"),
        error=_error(errors) if failed else "",
        case=sample,
        input=normalise(plain(sampling[-1].get("prompt")), "prompt") if sampling else sample,
        expected=normalise(plain(expected), "expected"),
        slice=str(facts["task"]) or None,
        facts=facts,
        metrics=metrics_of(numbers_of(scores), _tokens(usages)),
        scores=scores,
        about={"served": str(facts["model"])} if facts["model"] else {},
        attached={"openai_evals.json": attachment([dict(event) for _, event in events])},
    )


def _error(errors: list[Mapping[str, Any]]) -> str:
    """What the log says of a sample that was not answered."""
    said = [str(one.get("message") or one.get("error") or one.get("type") or "failed") for one in errors]
    return said[-1] if said else "nothing was sampled"


def _tokens(usages: list[Mapping[str, Any]]) -> dict[str, Json]:
    """The tokens of all calls of a sample."""
    ours = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    return {name: sum(int(one.get(theirs) or 0) for one in usages) for name, theirs in ours.items() if usages}


def _scores(matches: list[Mapping[str, Any]], metrics: list[Mapping[str, Any]]) -> Iterator[tuple[str, Json]]:
    """`openai_evals.match`, and every value that a metrics event has."""
    for one in matches:
        yield "openai_evals.match", score_of(one.get("correct"))
    for one in metrics:
        for name, value in one.items():
            yield f"openai_evals.{name}", score_of(value)
