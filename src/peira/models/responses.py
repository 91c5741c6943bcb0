"""The Responses form of OpenAI. Answers are not left with the provider (`store` is false), so a conversation
is always sent whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from peira.core.ids import Json
from peira.core.models import Reply, Request, ToolCall, Usage
from peira.models.chat import Body, as_text, image_url, named_schema
from peira.models.served import arguments, unsupported
from peira.models.stream import Gather, StreamBroken

ABSENT = ("n", "seed", "stop")
ENDS = ("response.completed", "response.incomplete")
FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Responses:
    where: str = "/responses"

    def path(self, model: str) -> str:
        return self.where

    def write(self, model: str, request: Request, *, stream: bool) -> Body:
        items = [item for message in request.messages for item in _items(message)]
        body: Body = {"model": model, "input": items, "store": False}
        if request.system is not None:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [
                tool if "type" in tool else {"type": "function", **tool} for tool in request.tools
            ]
        if request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **named_schema(request.schema)}}
        if stream:
            body["stream"] = True
        return body | _parameters(request.parameters)

    def read(self, body: Body) -> Reply:
        items = body["output"]
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        calls = tuple(_called(item) for item in items if item["type"] == "function_call")
        logprobs = [token for part in parts for token in part.get("logprobs") or ()]
        return Reply(
            text="".join(part.get("text") or part.get("refusal") or "" for part in parts),
            model=body.get("model") or "",
            finish=_finish(body, bool(calls)),
            usage=_usage(body.get("usage") or {}),
            tool_calls=calls,
            reasoning="\n".join(_thoughts(items)),
            logprobs=logprobs or None,
        )

    def gather(self) -> Gather:
        return _Events()


def _parameters(given: Body) -> Body:
    body = dict(given)
    if absent := [name for name in ABSENT if name in body]:
        raise unsupported("the Responses form", absent[0])
    if "max_tokens" in body:
        body["max_output_tokens"] = body.pop("max_tokens")
    if "reasoning" in body and isinstance(body["reasoning"], str):
        body["reasoning"] = {"effort": body["reasoning"]}
    if wanted := body.pop("logprobs", None):
        body["include"] = ["message.output_text.logprobs"]
        body["top_logprobs"] = 0 if wanted is True else wanted
    return body


def _items(message: Body) -> Iterator[Body]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["id"], "output": message["content"]}
        return
    content = message.get("content")
    if content:
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        yield {"role": message["role"], "content": [_part(part, message["role"]) for part in parts]}
    for call in message.get("tool_calls") or ():
        said = {"call_id": call["id"], "name": call["name"], "arguments": as_text(call["arguments"])}
        yield {"type": "function_call", **said}


def _part(part: Body, role: str) -> Body:
    if part["type"] == "image":
        return {"type": "input_image", "image_url": image_url(part)}
    if part["type"] == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part["text"]}
    return part


def _called(item: Body) -> ToolCall:
    return ToolCall(item.get("call_id") or "", item["name"], arguments(item.get("arguments")))


def _thoughts(items: list[Body]) -> Iterator[str]:
    for item in items:
        if item["type"] == "reasoning":
            yield from (part["text"] for part in [*item.get("summary", ()), *(item.get("content") or ())])


def _finish(body: Body, called: bool) -> str:
    if body.get("status") == "incomplete":
        why: Json = (body.get("incomplete_details") or {}).get("reason")
        return FINISH.get(why, why or "incomplete")
    return "tool_calls" if called else "stop"


def _usage(usage: Body) -> Usage:
    return Usage(
        input=usage.get("input_tokens"),
        output=usage.get("output_tokens"),
        cached=(usage.get("input_tokens_details") or {}).get("cached_tokens"),
        reasoning=(usage.get("output_tokens_details") or {}).get("reasoning_tokens"),
    )


class _Events:
    """The last event carries the whole response."""

    def __init__(self) -> None:
        self._body: Body | None = None

    def add(self, event: Body) -> bool:
        kind = str(event.get("type"))
        if kind in ("error", "response.failed"):
            said = event.get("message") or (event.get("response") or {}).get("error")
            raise StreamBroken(f"the provider says: {as_text(said)}")
        if kind in ENDS:
            self._body = event["response"]
        return kind.endswith(".delta")

    def body(self) -> Body:
        if self._body is None:
            raise StreamBroken("the stream ended before the answer did")
        return self._body
