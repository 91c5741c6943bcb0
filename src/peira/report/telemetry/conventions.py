"""Span names and attributes of attempts and calls, by OpenTelemetry's GenAI semantic conventions.

The content of requests and replies is included only if requested, in the form of the conventions: messages
made of parts, encoded as JSON, since span attributes cannot be nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from peira.core.contracts import Attempt
from peira.core.ids import Json
from peira.core.models import Reply, Request
from peira.core.verdicts import KEY, REASON, VALUE
from peira.engine.stages import EvaluateWork, GenerateWork

Attributes = dict[str, Any]
SHORT = 80
"""Levels of factors that are longer texts are probably prompts, and count as content."""

PROVIDERS = {"azure": "azure.ai.openai", "gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Providers whose name in the conventions differs from ours."""

NUMBERS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
"""Request parameters that are numbers."""
COUNTS = {"max_tokens": "max_tokens", "seed": "seed", "n": "choice.count"}
"""Request parameters that are integers, with their names in the conventions."""
USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cache_read.input_tokens",
    "written": "cache_creation.input_tokens",
    "reasoning": "reasoning.output_tokens",
}
"""Fields of token usage, with their names in the conventions."""


def of_attempt(attempt: Attempt, content: bool) -> tuple[str, Attributes]:
    """The span name and attributes of an attempt.

    A trial invokes an agent, a score evaluates an output.
    """
    work = attempt.work
    if isinstance(work, GenerateWork):
        return f"invoke_agent {work.agent.label}", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": work.agent.label,
            "peira.case.id": work.case.id,
            "peira.repeat": work.repeat,
            **_levels(work.condition, content),
        }
    if isinstance(work, EvaluateWork):
        return f"evaluate {work.evaluator.name}", {
            "gen_ai.evaluation.name": work.evaluator.name,
            "peira.trial.id": work.trial,
        }
    return attempt.spec.kind, {}


def of_call(
    model: str, request: Request | None, content: bool, vendor: str = "", address: str = ""
) -> tuple[str, Attributes]:
    """The span name and attributes of a call when it starts; `model` is provider:name.

    `vendor` is who serves it, if that is not the provider, and `address` its host and port.

    Request parameters are included if the request is known, its messages only if `content` is true.
    """
    provider, colon, model_name = model.partition(":")
    known: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model_name or model}
    if colon:
        known["gen_ai.provider.name"] = PROVIDERS.get(vendor or provider, vendor or provider)
    host, _, port = address.rpartition(":")
    if host:
        known |= {"server.address": host, "server.port": int(port)}
    if request is not None:
        known |= _parameters(request)
    if request is not None and content:
        known |= _content(request)
    return f"chat {known['gen_ai.request.model']}", known


def of_reply(reply: Reply, content: bool) -> Attributes:
    """The attributes that a reply adds to the span of its call."""
    found: Attributes = {
        "gen_ai.response.id": reply.id or None,
        "gen_ai.response.model": reply.model or None,
        "gen_ai.response.finish_reasons": [reply.finish] if reply.finish else None,
        "gen_ai.response.time_to_first_chunk": reply.first_token,
        "gen_ai.output.messages": _json(_answers(reply)) if content else None,
        "peira.cost": reply.cost,
        **{f"gen_ai.usage.{name}": getattr(reply.usage, field) for field, name in USAGE.items()},
    }
    return {name: value for name, value in found.items() if value is not None}


def of_score(score: Json, content: bool) -> Attributes:
    """The attributes of a score: its value if it is a number, its label if it is a text.

    Its reason, which may quote what was said, is included only if `content` is true.
    """
    parts = score if isinstance(score, dict) else {VALUE: score}
    value, reason = parts.get(VALUE), parts.get(REASON) or parts.get(KEY)
    found: Attributes = {
        "gen_ai.evaluation.explanation": reason if content and isinstance(reason, str) else None
    }
    if isinstance(value, bool | int | float):
        found["gen_ai.evaluation.score.value"] = float(value)
    elif isinstance(value, str):
        found["gen_ai.evaluation.score.label"] = value
    numbers = {name: float(part) for name, part in parts.items() if isinstance(part, bool | int | float)}
    found |= {f"peira.score.{name}": number for name, number in numbers.items() if name != VALUE}
    return {name: part for name, part in found.items() if part is not None}


def of_tool(name: str, call: str) -> tuple[str, Attributes]:
    """The span name and attributes of the execution of a tool that a model called."""
    return f"execute_tool {name}", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call,
    }


def _parameters(request: Request) -> Attributes:
    """The request parameters."""
    given = request.parameters
    known: Attributes = {f"gen_ai.request.{name}": _number(given.get(name)) for name in NUMBERS}
    known |= {f"gen_ai.request.{name}": _count(given.get(ours)) for ours, name in COUNTS.items()}
    if stop := given.get("stop"):
        known["gen_ai.request.stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if request.schema is not None:
        known["gen_ai.output.type"] = "json"
    return {name: value for name, value in known.items() if value is not None}


def _number(value: Json) -> float | None:
    """A parameter as a float; None if it is not a number."""
    return float(value) if isinstance(value, (int, float)) else None


def _count(value: Json) -> int | None:
    """A parameter as an integer; None if it is not one."""
    return value if isinstance(value, int) else None


def _levels(condition: Mapping[str, Json], content: bool) -> Attributes:
    """The level of each factor, encoded as JSON if it is not plain; long texts only with content."""
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


def _content(request: Request) -> Attributes:
    """The content of a request."""
    content: Attributes = {"gen_ai.input.messages": _json([_message(m) for m in request.messages])}
    if request.system is not None:
        content["gen_ai.system_instructions"] = _json([_text(request.system)])
    if request.tools:
        content["gen_ai.tool.definitions"] = _json([{"type": "function", **tool} for tool in request.tools])
    return content


def _message(message: Mapping[str, Json]) -> dict[str, Json]:
    """A message in the form of the conventions."""
    return {"role": message["role"], "parts": list(_parts(message))}


def _parts(message: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """The parts of a message."""
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
    """A text or image part."""
    if part["type"] != "image":
        return _text(part.get("text", ""))
    image = {"modality": "image", "mime_type": part.get("media")}
    if "url" in part:
        return {"type": "uri", **image, "uri": part["url"]}
    return {"type": "blob", **image, "content": part["data"]}


def _answers(reply: Reply) -> list[dict[str, Json]]:
    """One message per answer; reasoning and tool calls belong to the first."""
    beside: list[dict[str, Json]] = []
    if reply.reasoning:
        beside.append({"type": "reasoning", "content": reply.reasoning})
    calls = [{"type": "tool_call", **msgspec.to_builtins(call)} for call in reply.tool_calls]
    messages = [[_text(text)] if text else [] for text in reply.texts or (reply.text,)]
    messages[0] = [*beside, *messages[0], *calls]
    return [{"role": "assistant", "parts": parts, "finish_reason": reply.finish} for parts in messages]


def _text(text: str) -> dict[str, Json]:
    """A text part."""
    return {"type": "text", "content": text}


def _json(value: object) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()
