"""The chat-completions format of OpenAI, which most other providers use as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from peira.core.ids import Json
from peira.core.models import Reply, Request, ToolCall, Usage, token_count
from peira.errors import StreamBroken
from peira.models.content_filter import refusal_by_filter
from peira.models.http.model import arguments, needed_text, table_in, text_in
from peira.models.http.request import EventCollector

Body = dict[str, Json]
MOST_SKIPPED = 100
"""How far the number of a tool call in a stream may be ahead of those that came."""


@dataclass(frozen=True, slots=True)
class Chat:
    """The chat-completions format."""

    dialect: ClassVar[str] = "chat"

    limit: str = "max_tokens"
    """The endpoint's name for the limit on output tokens."""
    where: str = "/chat/completions"

    def path(self, model: str) -> str:
        """The path of the API."""
        return self.where

    def write(self, model: str, request: Request, *, stream: bool) -> Body:
        """The body of a request."""
        messages = [told for given in request.messages for told in written_messages(given)]
        body: Body = {"model": model, "messages": messages}
        if request.system is not None:
            body["messages"].insert(0, {"role": "system", "content": request.system})
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if request.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": named_schema(request.schema)}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | self._parameters(request.parameters)

    def _parameters(self, given: Body) -> Body:
        """The parameters in the API's names."""
        body = dict(given)
        if "max_tokens" in body:
            body[self.limit] = body.pop("max_tokens")
        if "reasoning" in body:
            body["reasoning_effort"] = body.pop("reasoning")
        if type(body.get("logprobs")) is int:
            body |= {"logprobs": True, "top_logprobs": body["logprobs"]}
        return body

    def read(self, body: Body) -> Reply:
        """The reply in a body."""
        first = body["choices"][0]
        message = first["message"]
        texts = tuple(_text(choice["message"]) for choice in body["choices"])
        finish = text_in(first.get("finish_reason"))
        refusal = text_in(message.get("refusal")) or refusal_by_filter(finish, texts[0])
        return Reply(
            text=texts[0] or refusal,
            id=text_in(body.get("id")),
            refusal=refusal,
            model=text_in(body.get("model")),
            finish="refusal" if refusal else finish,
            usage=_usage(table_in(body.get("usage"))),
            tool_calls=tuple(_called(call) for call in message.get("tool_calls") or ()),
            reasoning=text_in(message.get("reasoning_content") or message.get("reasoning")),
            logprobs=table_in(first.get("logprobs")).get("content"),
            texts=texts if len(texts) > 1 else (),
        )

    def gather(self) -> EventCollector:
        """A collector for one stream."""
        return _Chunks()


def written_messages(given: Body) -> list[Body]:
    """A message in the API's format. Images in a tool's result follow it as a message of the user."""
    content = given.get("content")
    if given["role"] == "tool":
        parts = list(content or ()) if has_parts(content) else []
        images = [part for part in parts if part["type"] == "image"]
        texts = [part for part in parts if part["type"] != "image"] if parts else as_text(given["content"])
        told: Body = {"role": "tool", "tool_call_id": given["id"], "content": texts or "(an image)"}
        shown: Body = {"role": "user", "content": [_part(image) for image in images]}
        return [told, shown] if images else [told]
    msg: Body = {"role": given["role"], "content": content}
    if isinstance(content, list):
        msg["content"] = [_part(part) for part in content]
    if given.get("tool_calls"):
        msg["tool_calls"] = [_call(call) for call in given["tool_calls"]]
    return [msg]


def has_parts(content: Json) -> bool:
    """Whether a content is a list of parts, as opposed to a text or any other value."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, dict) and part.get("type") in ("text", "image") for part in content)
    )


def _part(part: Body) -> Body:
    if part["type"] != "image":
        return part
    detail = {"detail": part["detail"]} if "detail" in part else {}
    return {"type": "image_url", "image_url": {"url": image_url(part), **detail}}


def image_url(part: Body) -> str:
    """The URL of an image part, or a data URL with its content."""
    return part.get("url") or f"data:{part.get('media', 'image/png')};base64,{part['data']}"


def _tool(tool: Body) -> Body:
    """A tool in the API's format; one in Anthropic's has its parameters as `input_schema`."""
    if "type" in tool:
        return tool
    return {"type": "function", "function": parameters_named(tool)}


def parameters_named(tool: Body) -> Body:
    """The tool, its JSON schema under `parameters`."""
    return {("parameters" if name == "input_schema" else name): value for name, value in tool.items()}


def _call(call: Body) -> Body:
    function = {"name": call["name"], "arguments": as_text(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def as_text(value: Json) -> str:
    """A string as it is, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def named_schema(schema: Body) -> Body:
    """The schema with a name; strict (enforced by the endpoint) if it can be."""
    strict = _strict(schema)
    name = schema.get("title") or "answer"
    safe = "".join(char if char.isalnum() or char in "_-" else "_" for char in name)[:64]
    return {"name": safe, "schema": schema if strict is None else strict, "strict": strict is not None}


def _strict(schema: Json) -> Json:
    """The schema as strict endpoints want it: objects allow no further properties and require all of theirs.

    None if that would change what it asks for: a property is optional, or others are allowed.
    """
    if isinstance(schema, list):
        parts = [_strict(part) for part in schema]
        return (
            None
            if any(part is None and whole is not None for part, whole in zip(parts, schema, strict=True))
            else parts
        )
    if not isinstance(schema, dict):
        return schema
    found: Body = {}
    for name, part in schema.items():
        # what stands under these is data, and no schema
        found[name] = part if name in ("default", "const", "enum", "examples", "required") else _strict(part)
        if found[name] is None and part is not None:
            return None
    if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
        properties = schema.get("properties", {})
        if schema.get("additionalProperties", False) is not False:
            return None
        if not isinstance(properties, dict) or set(schema.get("required", ())) != set(properties):
            return None
        found["additionalProperties"] = False
    return found


def _text(msg: Body) -> str:
    """The text of a message, or its refusal."""
    content = msg.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return needed_text(content or msg.get("refusal") or "")


def _called(call: Body) -> ToolCall:
    function = call["function"]
    name = needed_text(function["name"])
    return ToolCall(text_in(call.get("id")), name, arguments(function.get("arguments")))


def _usage(usage: Body) -> Usage:
    """The usage, with cached and reasoning tokens."""
    details = table_in(usage.get("prompt_tokens_details"))
    read, written = (token_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion"))
    return Usage(
        input=read,
        output=whole_output(read, written, token_count(usage.get("total_tokens"))),
        cached=token_count(details.get("cached_tokens")),
        written=cache_writes(details, usage),
        reasoning=token_count(table_in(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def whole_output(read: int | None, written: int | None, total: int | None) -> int | None:
    """The output tokens that are billed: some endpoints count reasoning in the total only."""
    if read is None or written is None or total is None:
        return written
    return max(written, total - read)


def cache_writes(details: Body, usage: Body) -> int | None:
    """The tokens written to the provider's cache, as OpenAI, compatible endpoints and litellm name them."""
    for said in (
        details.get("cache_write_tokens"),
        details.get("cache_creation_tokens"),
        usage.get("cache_creation_input_tokens"),
    ):
        if said is not None:
            return token_count(said)
    return None


class _Chunks:
    """Collects the chunks of a stream, choice by choice."""

    def __init__(self) -> None:
        self._body: Body = {}
        self._choices: dict[int, Body] = {}

    def add(self, event: Body) -> bool:
        """Add a chunk; returns whether it has output of the model."""
        if event.get("error"):
            raise StreamBroken(f"the provider says: {as_text(event['error'])}")
        self._body |= {k: v for k, v in event.items() if k not in ("choices", "object") and v is not None}
        has_output = [self._grow(choice) for choice in event.get("choices") or ()]
        return any(has_output)

    def _grow(self, part: Body) -> bool:
        """Add a part of one choice; returns whether it has output of the model."""
        index = part.get("index", 0)
        choice = self._choices.setdefault(index, {"index": index, "message": {"role": "assistant"}})
        delta, msg = part.get("delta") or {}, choice["message"]
        if part.get("finish_reason"):
            choice["finish_reason"] = part["finish_reason"]
        for token in (part.get("logprobs") or {}).get("content") or ():
            choice.setdefault("logprobs", {}).setdefault("content", []).append(token)
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if delta.get(name):
                msg[name] = msg.get(name, "") + delta[name]
        for call in delta.get("tool_calls") or ():
            _grow_call(msg.setdefault("tool_calls", []), call)
        return bool(delta.keys() - {"role"} and any(delta[name] for name in delta if name != "role"))

    def body(self) -> Body:
        """The collected body; StreamBroken if a choice has no end."""
        if not self._choices or not all("finish_reason" in c for c in self._choices.values()):
            raise StreamBroken("the stream ended before the answer did")
        return self._body | {"choices": [self._choices[i] for i in sorted(self._choices)]}


def _grow_call(calls: list[Body], part: Body) -> None:
    """Add a part of a tool call to the collected calls."""
    index = part.get("index", len(calls))
    if not 0 <= index <= len(calls) + MOST_SKIPPED:
        raise ValueError("a call far from the others")
    while len(calls) <= index:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call, function = calls[index], part.get("function") or {}
    call["id"] = part.get("id") or call["id"]
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""
