"""The transcript of a trial: what its models said, which tools they called, and what the tools gave back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from peira.core.ids import Json
from peira.results.background import CallSummary


def transcript(calls: Iterable[CallSummary]) -> list[dict[str, Json]]:
    """The calls in order: key, model, the reply's text, and its tool calls with arguments and results.

    A tool's result is what a later request of the trial gives for it; null if none does.
    """
    made = list(calls)
    results = _results(made)
    return [
        {
            "call": one.key,
            "model": one.model,
            "text": one.said,
            "tool_calls": [{**call, "result": results.get(str(call.get("id")))} for call in one.tool_calls],
        }
        for one in made
    ]


def _results(calls: Iterable[CallSummary]) -> dict[str, Json]:
    """What tools gave back, by the id of the tool call."""
    messages = (message for one in calls for message in _messages(one.asked))
    return {str(m.get("id")): m.get("content") for m in messages if m.get("role") == "tool"}


def _messages(request: Json) -> Sequence[Mapping[str, Any]]:
    found = request.get("messages", ()) if isinstance(request, Mapping) else ()
    return [message for message in found if isinstance(message, Mapping)]


def tool_line(call: Mapping[str, Json]) -> str:
    """A tool call as one line: name(arguments), and its result if there is one."""
    result = call.get("result")
    arguments = call.get("arguments")
    line = f"{call.get('name')}({'' if arguments in (None, {}) else _text(arguments)})"
    return line if result is None else f"{line} -> {_text(result)}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
