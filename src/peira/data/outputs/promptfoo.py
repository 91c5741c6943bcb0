"""Results of promptfoo: the JSON document of `promptfoo eval -o results.json`.

A test is a case, whose input is its variables. Provider and prompt are facts; every assertion is a score,
beside the score of the whole test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peira.core.ids import Json, canonical, digest_bytes, normalise
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

ERROR = 2
"""The `failureReason` of a test whose provider failed; 1 is a failed assertion, which is a score."""
ID_DIGITS = 16


def is_results(document: Any) -> bool:
    """Whether a JSON document is one of promptfoo's."""
    results = document.get("results") if isinstance(document, Mapping) else None
    return isinstance(results, Mapping) and isinstance(results.get("results"), list)


def outputs(path: Path, document: Any, problems: Problems) -> Iterator[RecordedOutput]:
    """The outputs of a document of results; invalid ones are reported to `problems`."""
    for number, row in enumerate(document["results"]["results"], 1):
        try:
            if not isinstance(row, Mapping):
                raise Invalid(f"must be a result, not {row!r}")
            yield _recorded(path.name, number, row)
        except Invalid as error:
            for problem in error.problems:
                problems.add(path.name, number, problem)


def _recorded(file: str, number: int, row: Mapping[str, Any]) -> RecordedOutput:
    """The output of one test under one prompt and provider."""
    test, response, prompt = (row.get(name) or {} for name in ("testCase", "response", "prompt"))
    variables = plain(row.get("vars") or test.get("vars") or {})
    failed = row.get("failureReason") == ERROR or response.get("error")
    error = str(row.get("error") or response.get("error") or "failed") if failed else ""
    provider = row.get("provider") or {}
    named = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
    scores = dict(_scores(row))
    identity = plain([variables, test.get("description"), test.get("assert")])
    model = str(named or "")
    about = {"served": model, "finish": str(response.get("finishReason") or ""), "promptfoo": _link(row)}
    return RecordedOutput(
        file=file,
        number=number,
        output=ABSENT if failed else normalise(plain(response.get("output")), "output"),
        error=error,
        case=str(test.get("description") or digest_bytes(canonical(identity))[:ID_DIGITS]),
        input=normalise(variables, "vars"),
        expected=_expected(test),
        metadata=normalise(plain(test.get("metadata") or {}), "metadata"),
        facts={"provider": model, "prompt": str(prompt.get("label") or prompt.get("raw") or "")},
        took=seconds_of((row.get("latencyMs") or 0) / 1000),
        metrics=metrics_of(numbers_of(scores), _tokens(row.get("tokenUsage") or {}), row.get("cost")),
        scores=scores,
        about={name: text for name, text in about.items() if text},
        attached={"promptfoo.json": attachment(dict(row))},
    )


def _link(row: Mapping[str, Any]) -> str:
    """The id of the result at promptfoo."""
    return str(row.get("id") or "")


def _expected(test: Mapping[str, Any]) -> Json:
    """The value of the only assertion that compares with one; None if there are several, or none."""
    values = [one.get("value") for one in test.get("assert") or () if isinstance(one, Mapping)]
    known = [value for value in values if isinstance(value, str | int | float)]
    return normalise(plain(known[0]), "value") if len(known) == 1 else None


def _tokens(usage: Mapping[str, Any]) -> dict[str, Json]:
    """The tokens of a test."""
    details = usage.get("completionDetails") or {}
    found = {
        "input_tokens": usage.get("prompt"),
        "output_tokens": usage.get("completion"),
        "cached_tokens": details.get("cacheReadInputTokens") or usage.get("cached"),
        "written_tokens": details.get("cacheCreationInputTokens"),
        "reasoning_tokens": details.get("reasoning"),
    }
    return {name: n for name, n in found.items() if n}


def _scores(row: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """Whether the test passed, its score, its named scores, and each of its assertions."""
    grading = row.get("gradingResult") or {}
    yield "promptfoo.pass", score_of(row.get("success"), grading.get("reason") or "")
    yield "promptfoo.score", score_of(row.get("score"))
    met: Counter[str] = Counter()
    for name, value in (row.get("namedScores") or {}).items():
        met[str(name)] += 1
        yield f"promptfoo.{name}", score_of(value)
    for part in grading.get("componentResults") or ():
        assertion = part.get("assertion") or {}
        if assertion.get("metric"):
            continue  # among the named scores
        kind = str(assertion.get("type") or "assertion")
        met[kind] += 1
        name = kind if met[kind] == 1 else f"{kind}-{met[kind]}"
        yield f"promptfoo.{name}", score_of(part.get("score"), part.get("reason") or "")
