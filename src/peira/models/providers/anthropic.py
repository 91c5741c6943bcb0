"""`anthropic:NAME`: the messages API of Anthropic."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from peira.core.ids import Json
from peira.core.models import REFUSED, Reply, Request, ToolCall, Usage, token_count
from peira.errors import CallFailed, StreamBroken
from peira.models.http.endpoint import Endpoint
from peira.models.http.model import (
    ServedModel,
    arguments,
    needed_text,
    table_in,
    text_in,
    unsupported,
)
from peira.models.http.request import DEFAULT, EventCollector, Timeouts
from peira.models.providers.chat import Body, as_text, has_parts
from peira.models.secrets import Key

ANTHROPIC = "https://api.anthropic.com"
VERSION = "2023-06-01"
MAX_TOKENS = 4096
"""The default limit on output tokens, which the API requires."""
ABSENT = ("seed", "n", "logprobs")
"""Parameters that the API does not have."""
FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
SYSTEM = ("system", "developer")
"""Roles of messages that belong to the system prompt here."""
THOUGHTS = ("thinking", "redacted_thinking")
"""Blocks of reasoning, which the API wants back, unchanged, with the results of tools."""


def anthropic(
    model: str,
    *,
    base_url: str | None = None,
    key: str = "ANTHROPIC_API_KEY",
    headers: Mapping[str, str] | None = None,
    parameters: Mapping[str, Json] | None = None,
    stream: bool = False,
    timeouts: Timeouts = DEFAULT,
) -> ServedModel:
    """A model of Anthropic's messages API.

    `key` is the name of an environment variable; `base_url` defaults to ANTHROPIC_BASE_URL, then to
    Anthropic's own.
    """
    base = base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC
    sent = {"anthropic-version": VERSION, **(headers or {})}
    endpoint = Endpoint(base, Key(key), key_header="x-api-key", headers=sent, timeouts=timeouts)
    known = {} if base.rstrip("/") == ANTHROPIC else {"endpoint": endpoint.place}
    return ServedModel(
        "anthropic", model, Messages(), endpoint, defaults=parameters, stream=stream, identity=known
    )


@dataclass(frozen=True, slots=True)
class Messages:
    """The format of the messages API."""

    dialect: ClassVar[str] = "messages"

    default_output: ClassVar[int] = MAX_TOKENS

    def path(self, model: str) -> str:
        """The path of the API."""
        return "/v1/messages"

    def write(self, model: str, request: Request, *, stream: bool) -> Body:
        """The body of a request; CallFailed if a parameter is not supported."""
        body: Body = {"model": model, "messages": list(_turns(request)), "max_tokens": MAX_TOKENS}
        told = [as_text(message.get("content")) for message in request.messages if message["role"] in SYSTEM]
        if request.system is not None or told:
            body["system"] = "\n\n".join([*([] if request.system is None else [request.system]), *told])
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if stream:
            body["stream"] = True
        body |= _parameters(request.parameters)
        if request.schema is not None:
            form = {"type": "json_schema", "schema": closed(request.schema)}
            body["output_config"] = {**body.get("output_config", {}), "format": form}
        return body

    def read(self, body: Body) -> Reply:
        """The reply in a body."""
        parts = body["content"]
        stop = text_in(body.get("stop_reason"))
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        return Reply(
            text=text,
            id=text_in(body.get("id")),
            refusal=_refusal(body, text) if stop == "refusal" else "",
            thinking=tuple(dict(part) for part in parts if part["type"] in THOUGHTS),
            model=text_in(body.get("model")),
            finish=FINISH.get(stop, stop),
            usage=_usage(table_in(body.get("usage"))),
            tool_calls=tuple(
                ToolCall(text_in(p["id"]), needed_text(p["name"]), p["input"])
                for p in parts
                if p["type"] == "tool_use"
            ),
            reasoning="".join(part["thinking"] for part in parts if part["type"] == "thinking"),
        )

    def gather(self) -> EventCollector:
        """A collector for one stream."""
        return _Blocks()


def _refusal(body: Body, text: str) -> str:
    """What a model that refused said, or else what the API says about it."""
    return text or text_in(table_in(body.get("stop_details")).get("explanation")) or REFUSED


def closed(schema: Json) -> Json:
    """The schema with objects that allow no further properties, unless they say so, as the API wants it."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    whole = schema.get("type") == "object" or isinstance(schema.get("properties"), dict)
    return {"additionalProperties": False, **parts} if whole else parts


def _parameters(given: Body) -> Body:
    """The parameters in the API's names; CallFailed if it has none such, or if no answer could follow."""
    body = dict(given)
    if absent := [name for name in ABSENT if name in body]:
        raise unsupported("anthropic", absent[0])
    if "stop" in body:
        stop = body.pop("stop")
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    reasoning = body.pop("reasoning", None)
    if isinstance(reasoning, str):
        body["thinking"] = {"type": "adaptive"}
        body["output_config"] = {**body.get("output_config", {}), "effort": reasoning}
    elif reasoning is not None:
        body["thinking"] = {"type": "enabled", "budget_tokens": reasoning}
        limit = body.setdefault("max_tokens", reasoning + MAX_TOKENS)
        if limit <= reasoning:
            raise CallFailed(
                f"anthropic: max_tokens={limit} leaves no answer after reasoning={reasoning}: it must be more"
            )
    return body


def _turns(request: Request) -> Iterator[Body]:
    """Messages, with neighbours of the same role merged; tool results belong to the user's turn here."""
    said = [message for message in request.messages if message["role"] not in SYSTEM]
    turns = [("user" if m["role"] == "tool" else m["role"], _parts(m)) for m in said]
    for role, group in groupby(turns, key=lambda turn: turn[0]):
        parts = [part for _, some in group for part in some]
        alone = len(parts) == 1 and parts[0].keys() == {"type", "text"}
        yield {"role": role, "content": parts[0]["text"] if alone else parts}


def _parts(message: Body) -> list[Body]:
    """The content blocks of a message."""
    content = message.get("content")
    if message["role"] == "tool":
        told = [_part(part) for part in content or ()] if has_parts(content) else as_text(content)
        failed = {"is_error": True} if message.get("error") else {}
        return [{"type": "tool_result", "tool_use_id": message["id"], "content": told, **failed}]
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    called = message.get("tool_calls") or ()
    thoughts = message.get("thinking") or ()  # first, as they came
    return [*thoughts, *map(_part, parts), *map(_call, called)]


def _part(part: Body) -> Body:
    """A part of a message in the API's format."""
    if part["type"] != "image":
        return part
    if part.get("url"):
        return {"type": "image", "source": {"type": "url", "url": part["url"]}}
    media = part.get("media", "image/png")
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": part["data"]}}


def _call(call: Body) -> Body:
    """A tool call in the API's format."""
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]}


def _tool(tool: Body) -> Body:
    """A tool in the API's format; one in the format of chat completions is translated."""
    if tool.get("type") == "function":
        function = tool.get("function")
        given = function if isinstance(function, dict) else {k: v for k, v in tool.items() if k != "type"}
        tool = {name: value for name, value in given.items() if name != "strict"}
    if "type" in tool:
        return tool
    return {("input_schema" if name == "parameters" else name): value for name, value in tool.items()}


def _usage(usage: Body) -> Usage:
    """`input` counts everything that was read, as other providers do; the cached parts are beside it."""
    said = [usage.get(f"{name}input_tokens") for name in ("", "cache_creation_", "cache_read_")]
    fresh, written, cached = map(token_count, said)
    odd = any(token_count(n) is None for n in said if n is not None)  # then the sum is not known
    total = None if fresh is None or odd else token_count(fresh + (written or 0) + (cached or 0))
    by_time = table_in(usage.get("cache_creation"))
    details = table_in(usage.get("output_tokens_details"))
    return Usage(
        input=total,
        output=token_count(usage.get("output_tokens")),
        cached=cached,
        written=written,
        reasoning=token_count(details.get("thinking_tokens")),
        written_long=token_count(by_time.get("ephemeral_1h_input_tokens")) or None,
    )


class _Blocks:
    """Collects the events of a stream, content block by content block."""

    def __init__(self) -> None:
        self._body: Body = {}
        self._json: dict[int, str] = {}
        self._ended = False

    def add(self, event: Body) -> bool:
        """Add an event; returns whether it has output of the model."""
        kind: Json = event.get("type")
        if kind == "error":
            raise StreamBroken(f"the provider says: {as_text(event.get('error'))}")
        if kind == "message_start":
            self._body = {**event["message"], "content": []}
        elif kind == "content_block_start":
            self._body["content"].append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            self._grow(event["index"], event["delta"])
        elif kind == "message_delta":
            usage = {**self._body.get("usage", {}), **(event.get("usage") or {})}
            self._body |= {**event["delta"], "usage": usage}
        self._ended = self._ended or kind == "message_stop"
        return bool(kind == "content_block_delta")

    def _grow(self, index: int, delta: Body) -> None:
        """Add a delta to a content block."""
        block = self._body["content"][index]
        if delta["type"] == "input_json_delta":
            self._json[index] = self._json.get(index, "") + delta["partial_json"]
        for name in ("text", "thinking", "signature"):
            if name in delta:
                block[name] = block.get(name, "") + delta[name]

    def body(self) -> Body:
        """The collected message; StreamBroken if its end is missing."""
        if not self._ended:
            raise StreamBroken("the stream ended before the answer did")
        for index, text in self._json.items():
            self._body["content"][index]["input"] = arguments(text)
        return self._body
