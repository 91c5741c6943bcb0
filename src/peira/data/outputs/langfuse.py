"""Traces and observations exported from Langfuse as JSON: a list, or the `data` of a page of its API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peira.core.ids import Json, normalise
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

OWN = ({"sessionId"}, {"traceId", "startTime"}, {"projectId"}, {"htmlPath"})
"""Keys, in whole groups, by which an item of Langfuse is told from any row with an input and an output."""


def items_of(document: Any) -> list[Any] | None:
    """The items of an export; None if the document is none."""
    items = document.get("data") if isinstance(document, Mapping) else document
    if not isinstance(items, list) or not items or not isinstance(items[0], Mapping):
        return None
    first = items[0]
    return items if {"id", "input", "output"} <= {*first} and any(o <= {*first} for o in OWN) else None


def outputs(path: Path, items: list[Any], problems: Problems) -> Iterator[RecordedOutput]:
    """The outputs of an export; invalid items are reported to `problems`."""
    for number, item in enumerate(items, 1):
        try:
            if not isinstance(item, Mapping) or "input" not in item:
                raise Invalid("is no trace or observation: it has no input")
            yield _recorded(path.name, number, item)
        except Invalid as error:
            for problem in error.problems:
                problems.add(path.name, number, problem)


def _recorded(file: str, number: int, item: Mapping[str, Any]) -> RecordedOutput:
    """The output of one trace or observation."""
    output, failed = item.get("output"), item.get("level") == "ERROR"
    scores = dict(_scores(item))
    usage: Mapping[str, Any] = item.get("usageDetails") or item.get("usage") or {}
    tokens = {"input_tokens": usage.get("input"), "output_tokens": usage.get("output")}
    kept = {
        key: item.get(key) for key in ("tags", "userId", "sessionId", "version", "release") if item.get(key)
    }
    given = item.get("metadata")
    metadata = {**kept, **(given if isinstance(given, Mapping) else {"metadata": given} if given else {})}
    facts = {key: item[key] for key in ("name", "model") if item.get(key)}
    cost = item.get("totalCost", item.get("calculatedTotalCost"))
    missing = output is None or failed
    return RecordedOutput(
        file=file,
        number=number,
        output=ABSENT if missing else normalise(plain(output), "output"),
        error=str(item.get("statusMessage") or "there is no output") if missing else "",
        case=str(item["id"]),
        input=normalise(plain(item["input"]), "input"),
        metadata=normalise(plain(metadata), "metadata"),
        facts=normalise(plain(facts), "facts"),
        took=seconds_of(item.get("latency")),
        metrics=metrics_of(
            numbers_of(scores), {name: n for name, n in tokens.items() if n is not None}, cost
        ),
        scores=scores,
        about={"served": str(item["model"])} if item.get("model") else {},
        attached={"langfuse.json": attachment(dict(item))},
    )


def _scores(item: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """The scores of an item: numbers, booleans or categories, with their comments."""
    for score in item.get("scores") or ():
        if isinstance(score, Mapping) and score.get("name"):
            kind, value = score.get("dataType"), score.get("value")
            shown = (
                score.get("stringValue")
                if kind == "CATEGORICAL"
                else bool(value)
                if kind == "BOOLEAN"
                else value
            )
            yield f"langfuse.{score['name']}", score_of(shown, score.get("comment"))
