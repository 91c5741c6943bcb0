"""Results of DeepEval: a test run as it is saved (`.deepeval/.latest_test_run.json`, or elsewhere)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peira.core.ids import Json, normalise
from peira.core.verdicts import NoVerdict, to_json
from peira.data.outputs.record import (
    ABSENT,
    RecordedOutput,
    attachment,
    metrics_of,
    numbers_of,
    plain,
    score_of,
    seconds_of,
)
from peira.errors import Invalid
from peira.spec.data_files import Problems

WRAPPED = "testRunData"


def is_results(document: Any) -> bool:
    """Whether a JSON document is a test run."""
    run = document.get(WRAPPED, document) if isinstance(document, Mapping) else None
    return isinstance(run, Mapping) and isinstance(run.get("testCases"), list)


def outputs(path: Path, document: Any, problems: Problems) -> Iterator[RecordedOutput]:
    """The outputs of a test run; invalid ones, and conversations, are reported to `problems`."""
    run = document.get(WRAPPED, document)
    given = run.get("hyperparameters") or {}
    facts = normalise(plain({name: value for name, value in given.items() if value is not None}), "facts")
    for number, case in enumerate(run["testCases"], 1):
        try:
            if not isinstance(case, Mapping) or "input" not in case:
                raise Invalid("is no test case: it has no input")
            yield _recorded(path.name, number, case, facts)
        except Invalid as error:
            for problem in error.problems:
                problems.add(path.name, number, problem)
    for number, _ in enumerate(run.get("conversationalTestCases") or (), 1):
        problems.add(path.name, number, "is a conversation: only test cases with one output can be imported")


def _recorded(file: str, number: int, case: Mapping[str, Any], facts: dict[str, Json]) -> RecordedOutput:
    """The output of one test case."""
    output = case.get("actualOutput")
    scores = dict(_scores(case))
    kept = {
        "context": case.get("context"),
        "retrieval_context": case.get("retrievalContext"),
        "expected_tools": case.get("expectedTools"),
        "tags": case.get("tags"),
    }
    metadata = {**{name: value for name, value in kept.items() if value}, **(case.get("metadata") or {})}
    usage = {"input_tokens": case.get("inputTokenCount"), "output_tokens": case.get("outputTokenCount")}
    model = facts.get("model")
    return RecordedOutput(
        file=file,
        number=number,
        output=ABSENT if output is None else normalise(plain(output), "actualOutput"),
        error="there is no actual output" if output is None else "",
        case=str(case.get("name") or number),
        input=normalise(plain(case["input"]), "input"),
        expected=normalise(plain(case.get("expectedOutput")), "expectedOutput"),
        metadata=normalise(plain(metadata), "metadata"),
        facts=facts,
        took=seconds_of(case.get("completionTime")),
        metrics=metrics_of(
            {**numbers_of(scores), **_tools(case)},
            {name: n for name, n in usage.items() if n is not None},
            case.get("tokenCost"),
        ),
        scores=scores,
        about={"served": str(model)} if model else {},
        attached={"deepeval.json": attachment(dict(case))},
    )


def _tools(case: Mapping[str, Any]) -> dict[str, float]:
    """How often each tool was called."""
    called = [str(one.get("name", "")) for one in case.get("toolsCalled") or () if isinstance(one, Mapping)]
    counts = {f"tool_calls.{name}": float(called.count(name)) for name in dict.fromkeys(called)}
    return {"tool_calls": float(len(called)), **counts} if called else {}


def _scores(case: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """The metrics of a case: score, whether it passed its threshold, and reason."""
    for metric in case.get("metricsData") or ():
        name = f"deepeval.{metric.get('name')}"
        if metric.get("error"):
            yield name, to_json(NoVerdict(str(metric["error"])))
            continue
        parts = {"value": metric.get("score"), "passed": metric.get("success")}
        yield name, score_of(parts, metric.get("reason"))
