"""OpenAI's chat completions, as programs write and read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peira.core.chat.dialects.parts import (
    Body,
    UntranslatableRequest,
    arguments_of,
    as_json,
    image,
    joined,
    parameters_for,
    pieces,
    plain,
    text_of,
    tool,
    usage_numbers,
)
from peira.core.ids import Json
from peira.core.models import Reply, Request

NAME = "chat"
TURNS = "messages"
SYSTEM = ("system", "developer")
FINISH = {"tool_use": "tool_calls", "refusal": "stop", "end_turn": "stop", "max_tokens": "length"}


def translated(request: Request, target: str) -> Request:
    """The request in peira's own form."""
    given = request.parameters
    form = given.get("response_format")
    strict = isinstance(form, dict) and form.get("type") == "json_schema"
    schema = form["json_schema"].get("schema") if isinstance(form, dict) and strict else None
    renamed = {
        **given,
        "max_tokens": given.get("max_completion_tokens") or given.get("max_tokens"),
        "reasoning": given.get("reasoning_effort"),
    }
    return Request(
        messages=tuple(_message(one) for one in request.messages if one["role"] not in SYSTEM),
        system=joined(text_of(one.get("content")) for one in request.messages if one["role"] in SYSTEM),
        tools=tuple(_tool(one) for one in request.tools if one.get("type", "function") == "function"),
        schema=schema,
        parameters=parameters_for(target, renamed, _choice(given.get("tool_choice"))),
    )


def _choice(given: Json) -> str | None:
    if isinstance(given, dict):
        return f"={given['function']['name']}"
    return given if given in ("auto", "none", "required") else None


def _message(given: Body) -> Body:
    content = given.get("content")
    if given["role"] == "tool":
        return {"role": "tool", "id": given["tool_call_id"], "content": _content(content)}
    message: Body = {"role": given["role"], "content": _content(content)}
    if given.get("tool_calls"):
        message["tool_calls"] = [
            {
                "id": call["id"],
                "name": call["function"]["name"],
                "arguments": arguments_of(call["function"].get("arguments")),
            }
            for call in given["tool_calls"]
        ]
    return message


def _content(given: Json) -> Json:
    if given is None or isinstance(given, str):
        return given or ""
    return plain([_part(part) for part in given])


def _part(part: Body) -> Body:
    kind = part["type"]
    if kind in ("text", "refusal"):
        return {"type": "text", "text": part.get("text") or part.get("refusal") or ""}
    if kind == "image_url":
        url = part["image_url"]
        return image(url["url"], url.get("detail")) if isinstance(url, dict) else image(url)
    raise UntranslatableRequest(f"a part of the type {kind!r} cannot be given to this model")


def _tool(given: Body) -> Body:
    function = given.get("function", given)
    return tool(function["name"], function.get("description"), function.get("parameters"))


def written(reply: Reply, model: str) -> Body:
    """A chat completion."""
    message: Body = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal or None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{n}",
                "type": "function",
                "function": {"name": call.name, "arguments": as_json(call.arguments)},
            }
            for n, call in enumerate(reply.tool_calls)
        ]
    elif not reply.text:
        message["content"] = ""
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    finish = "tool_calls" if reply.tool_calls else FINISH.get(reply.finish, reply.finish) or "stop"
    read, wrote, cached, reasoning = usage_numbers(reply.usage)
    return {
        "id": reply.id or f"chatcmpl-{reply.call[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": wrote,
            "total_tokens": read + wrote,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        },
    }


def events(body: Body, request: Mapping[str, object]) -> Iterator[tuple[str, Body | str]]:
    """The chunks of a stream."""
    same = {name: body.get(name) for name in ("id", "created", "model")}
    head = {**same, "object": "chat.completion.chunk"}
    for choice in body["choices"]:
        index, message = choice.get("index", 0), choice["message"]
        for delta in _deltas(message):
            yield "", {**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]}
        end = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
        logs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
        yield "", {**head, "choices": [{**end, **logs}]}
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield "", {**head, "choices": [], "usage": body.get("usage")}
    yield "", "[DONE]"


def _deltas(message: Body) -> Iterator[Body]:
    yield {"role": "assistant", "content": ""}
    for name in ("reasoning_content", "reasoning", "content", "refusal"):
        text = message.get(name)
        for piece in pieces(text if isinstance(text, str) else ""):
            yield {name: piece}
    for n, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        first = {"name": function["name"], "arguments": ""}
        yield {"tool_calls": [{"index": n, "id": call["id"], "type": "function", "function": first}]}
        for piece in pieces(function.get("arguments") or ""):
            yield {"tool_calls": [{"index": n, "function": {"arguments": piece}}]}


def error(status: int, kind: str, message: str) -> Body:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": str(status)}}
