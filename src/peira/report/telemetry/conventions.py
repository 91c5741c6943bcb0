"""Attempts and calls in the words of OpenTelemetry's GenAI conventions: names and attributes, nothing else.

What was said to a model and what it answered is among them only if content is asked for, in the
conventions' form: messages of parts, as JSON, because an attribute cannot be a structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from peira.core.contracts import Attempt
from peira.core.ids import Json
from peira.core.models import Reply, Request
from peira.engine.work import Evaluate, Generate

Attributes = dict[str, Any]
SHORT = 80
"""A factor's level that is a longer text is most likely a prompt, and counts as content."""

PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Providers that the conventions know by another name than ours."""

NUMBERS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
COUNTS = {"max_tokens": "max_tokens", "seed": "seed", "n": "choice.count"}
USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cache_read.input_tokens",
    "written": "cache_creation.input_tokens",
    "reasoning": "reasoning.output_tokens",
}


def of_attempt(attempt: Attempt, content: bool) -> tuple[str, Attributes]:
    """The name and attributes of a span about an attempt: a trial is an agent invoked, a score an output
    evaluated."""
    work = attempt.work
    if isinstance(work, Generate):
        return f"invoke_agent {work.agent.label}", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": work.agent.label,
            "peira.case.id": work.case.id,
            "peira.repeat": work.repeat,
            **_levels(work.condition, content),
        }
    if isinstance(work, Evaluate):
        return f"evaluate {work.evaluator.name}", {
            "gen_ai.evaluation.name": work.evaluator.name,
            "peira.trial.id": work.trial,
        }
    return attempt.spec.kind, {}


def of_call(model: str, request: Request | None, content: bool) -> tuple[str, Attributes]:
    """The name and attributes of a span about a call, as it begins. `model` is provider:name."""
    provider, colon, asked = model.partition(":")
    known: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": asked or model}
    if colon:
        known["gen_ai.provider.name"] = PROVIDERS.get(provider, provider)
    if request is not None:
        known |= _asked(request)
    if request is not None and content:
        known |= _said(request)
    return f"chat {known['gen_ai.request.model']}", known


def of_reply(reply: Reply, content: bool) -> Attributes:
    """What a reply adds to the span of its call."""
    found: Attributes = {
        "gen_ai.response.model": reply.model or None,
        "gen_ai.response.finish_reasons": [reply.finish] if reply.finish else None,
        "gen_ai.response.time_to_first_chunk": reply.first_token,
        "gen_ai.output.messages": _json(_answers(reply)) if content else None,
        "peira.cost": reply.cost,
        **{f"gen_ai.usage.{name}": getattr(reply.usage, field) for field, name in USAGE.items()},
    }
    return {name: value for name, value in found.items() if value is not None}


def _asked(request: Request) -> Attributes:
    given = request.parameters
    known: Attributes = {f"gen_ai.request.{name}": _number(given.get(name)) for name in NUMBERS}
    known |= {f"gen_ai.request.{name}": _count(given.get(ours)) for ours, name in COUNTS.items()}
    if stop := given.get("stop"):
        known["gen_ai.request.stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if request.schema is not None:
        known["gen_ai.output.type"] = "json"
    return {name: value for name, value in known.items() if value is not None}


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) else None


def _levels(condition: Mapping[str, Json], content: bool) -> Attributes:
    """Each factor's level, as it is or as JSON."""
    plain = {
        name: level if isinstance(level, (str, int, float)) else _json(level)
        for name, level in condition.items()
    }
    return {
        f"peira.factor.{name}": level
        for name, level in plain.items()
        if content or not isinstance(level, str) or len(level) <= SHORT
    }


# Content


def _said(request: Request) -> Attributes:
    said: Attributes = {"gen_ai.input.messages": _json([_message(m) for m in request.messages])}
    if request.system is not None:
        said["gen_ai.system_instructions"] = _json([_text(request.system)])
    if request.tools:
        said["gen_ai.tool.definitions"] = _json([{"type": "function", **tool} for tool in request.tools])
    return said


def _message(message: Mapping[str, Json]) -> dict[str, Json]:
    return {"role": message["role"], "parts": list(_parts(message))}


def _parts(message: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    content: Json = message.get("content")
    if message["role"] == "tool":
        yield {"type": "tool_call_response", "id": message.get("id"), "response": content}
    elif isinstance(content, str):
        yield _text(content)
    else:
        yield from map(_part, content or ())
    for call in message.get("tool_calls") or ():
        yield {"type": "tool_call", **call}


def _part(part: Mapping[str, Json]) -> dict[str, Json]:
    if part["type"] != "image":
        return _text(part.get("text", ""))
    image = {"modality": "image", "mime_type": part.get("media")}
    if "url" in part:
        return {"type": "uri", **image, "uri": part["url"]}
    return {"type": "blob", **image, "content": part["data"]}


def _answers(reply: Reply) -> list[dict[str, Json]]:
    """One message for each answer; what came beside the text belongs to the first."""
    beside: list[dict[str, Json]] = []
    if reply.reasoning:
        beside.append({"type": "reasoning", "content": reply.reasoning})
    calls = [{"type": "tool_call", **msgspec.to_builtins(call)} for call in reply.tool_calls]
    messages = [[_text(text)] if text else [] for text in reply.texts or (reply.text,)]
    messages[0] = [*beside, *messages[0], *calls]
    return [{"role": "assistant", "parts": parts, "finish_reason": reply.finish} for parts in messages]


def _text(text: str) -> dict[str, Json]:
    return {"type": "text", "content": text}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
