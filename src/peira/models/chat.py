"""The chat-completions form, spoken by OpenAI and by almost everybody else.

Parameters of a request are passed on by name, except: `max_tokens` takes the name the endpoint knows,
`reasoning` is the effort ("low", "medium", "high"), and `logprobs` may be the number of alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from peira.core.ids import Json
from peira.core.models import Reply, Request, ToolCall, Usage
from peira.models.served import arguments
from peira.models.stream import Gather, StreamBroken

Body = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Chat:
    limit: str = "max_tokens"
    """What the endpoint calls the limit on output tokens."""
    where: str = "/chat/completions"

    def path(self, model: str) -> str:
        return self.where

    def write(self, model: str, request: Request, *, stream: bool) -> Body:
        body: Body = {"model": model, "messages": [message(m) for m in request.messages]}
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
        body = dict(given)
        if "max_tokens" in body:
            body[self.limit] = body.pop("max_tokens")
        if "reasoning" in body:
            body["reasoning_effort"] = body.pop("reasoning")
        if type(body.get("logprobs")) is int:
            body |= {"logprobs": True, "top_logprobs": body["logprobs"]}
        return body

    def read(self, body: Body) -> Reply:
        first = body["choices"][0]
        said = first["message"]
        texts = tuple(_text(choice["message"]) for choice in body["choices"])
        return Reply(
            text=texts[0],
            model=body.get("model") or "",
            finish=first.get("finish_reason") or "",
            usage=_usage(body.get("usage") or {}),
            tool_calls=tuple(_called(call) for call in said.get("tool_calls") or ()),
            reasoning=said.get("reasoning_content") or said.get("reasoning") or "",
            logprobs=(first.get("logprobs") or {}).get("content"),
            texts=texts if len(texts) > 1 else (),
        )

    def gather(self) -> Gather:
        return _Chunks()


def message(given: Body) -> Body:
    """A message as the endpoint knows it."""
    if given["role"] == "tool":
        return {"role": "tool", "tool_call_id": given["id"], "content": given["content"]}
    content = given.get("content")
    said: Body = {"role": given["role"], "content": content}
    if isinstance(content, list):
        said["content"] = [_part(part) for part in content]
    if given.get("tool_calls"):
        said["tool_calls"] = [_call(call) for call in given["tool_calls"]]
    return said


def _part(part: Body) -> Body:
    return {"type": "image_url", "image_url": {"url": image_url(part)}} if part["type"] == "image" else part


def image_url(part: Body) -> str:
    return part.get("url") or f"data:{part.get('media', 'image/png')};base64,{part['data']}"


def _tool(tool: Body) -> Body:
    return tool if "type" in tool else {"type": "function", "function": tool}


def _call(call: Body) -> Body:
    function = {"name": call["name"], "arguments": as_text(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def named_schema(schema: Body) -> Body:
    """Enforced by the endpoint where the schema is one that it can enforce."""
    return {"name": schema.get("title") or "answer", "schema": schema, "strict": _closed(schema)}


def _closed(schema: Json) -> bool:
    """Whether every object in it names all its properties, requires them, and allows no others."""
    if isinstance(schema, list):
        return all(map(_closed, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(
            properties
        ):
            return False
    return all(map(_closed, schema.values()))


def _text(said: Body) -> str:
    content = said.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or said.get("refusal") or ""


def _called(call: Body) -> ToolCall:
    function = call["function"]
    return ToolCall(call.get("id") or "", function["name"], arguments(function.get("arguments")))


def _usage(usage: Body) -> Usage:
    return Usage(
        input=usage.get("prompt_tokens"),
        output=usage.get("completion_tokens"),
        cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        reasoning=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
    )


class _Chunks:
    """Chunks of a stream, put together choice by choice."""

    def __init__(self) -> None:
        self._body: Body = {}
        self._choices: dict[int, Body] = {}

    def add(self, event: Body) -> bool:
        if event.get("error"):
            raise StreamBroken(f"the provider says: {as_text(event['error'])}")
        self._body |= {k: v for k, v in event.items() if k not in ("choices", "object") and v is not None}
        spoken = [self._grow(choice) for choice in event.get("choices") or ()]
        return any(spoken)

    def _grow(self, part: Body) -> bool:
        index = part.get("index", 0)
        choice = self._choices.setdefault(index, {"index": index, "message": {"role": "assistant"}})
        delta, said = part.get("delta") or {}, choice["message"]
        if part.get("finish_reason"):
            choice["finish_reason"] = part["finish_reason"]
        for token in (part.get("logprobs") or {}).get("content") or ():
            choice.setdefault("logprobs", {}).setdefault("content", []).append(token)
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if delta.get(name):
                said[name] = said.get(name, "") + delta[name]
        for call in delta.get("tool_calls") or ():
            _grow_call(said.setdefault("tool_calls", []), call)
        return bool(delta.keys() - {"role"} and any(delta[name] for name in delta if name != "role"))

    def body(self) -> Body:
        if not self._choices or not all("finish_reason" in c for c in self._choices.values()):
            raise StreamBroken("the stream ended before the answer did")
        return self._body | {"choices": [self._choices[i] for i in sorted(self._choices)]}


def _grow_call(calls: list[Body], part: Body) -> None:
    index = part.get("index", len(calls))
    while len(calls) <= index:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call, function = calls[index], part.get("function") or {}
    call["id"] = part.get("id") or call["id"]
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""
