"""Anthropic's messages, as programs write and read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peira.core.chat.dialects.parts import (
    Body,
    UntranslatableRequest,
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

NAME = "messages"
TURNS = "messages"
THOUGHTS = ("thinking", "redacted_thinking")
STOP = {"length": "max_tokens", "tool_calls": "tool_use", "refusal": "refusal", "stop": "end_turn"}
KINDS = {
    400: "invalid_request_error",
    404: "not_found_error",
    410: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def translated(request: Request, target: str) -> Request:
    """The request in peira's own form."""
    given = request.parameters
    form = (given.get("output_config") or {}).get("format") or given.get("output_format")
    renamed = {**given, "stop": given.get("stop_sequences")}
    system = given.get("system")
    blocks = system if isinstance(system, list) else [{"text": system or ""}]
    return Request(
        messages=tuple(told for one in request.messages for told in _messages(one)),
        system=joined(text_of([block]) for block in blocks),
        tools=tuple(_tool(one) for one in request.tools if one.get("type") in (None, "custom")),
        schema=form.get("schema") if isinstance(form, dict) else None,
        parameters=parameters_for(target, renamed, _choice(given.get("tool_choice"))),
    )


def _choice(given: Json) -> str | None:
    if not isinstance(given, dict):
        return None
    return {"auto": "auto", "none": "none", "any": "required"}.get(given["type"]) or f"={given['name']}"


def _messages(given: Body) -> Iterator[Body]:
    """The messages that a turn stands for: each result of a tool is one of its own."""
    content = given["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    results = [block for block in blocks if block["type"] == "tool_result"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    others = [b for b in blocks if b["type"] not in ("tool_result", "tool_use", *THOUGHTS)]
    for block in results:
        told = block.get("content")
        parts = told if isinstance(told, str) else plain([_part(part) for part in told or ()])
        yield {"role": "tool", "id": block["tool_use_id"], "content": parts}
    if calls or others or not results:
        message: Body = {"role": given["role"], "content": plain([_part(block) for block in others])}
        if calls:
            message["tool_calls"] = [
                {"id": call["id"], "name": call["name"], "arguments": call["input"]} for call in calls
            ]
        yield message


def _part(block: Body) -> Body:
    kind = block["type"]
    if kind == "text":
        return {"type": "text", "text": block["text"]}
    if kind == "image":
        source = block["source"]
        if source["type"] == "url":
            return image(source["url"])
        return {"type": "image", "data": source["data"], "media": source["media_type"]}
    if kind == "document" and block["source"].get("type") == "text":
        return {"type": "text", "text": block["source"]["data"]}
    raise UntranslatableRequest(f"a block of the type {kind!r} cannot be given to this model")


def _tool(given: Body) -> Body:
    return tool(given["name"], given.get("description"), given.get("input_schema"))


def written(reply: Reply, model: str) -> Body:
    """A message."""
    blocks: list[Body] = [dict(block) for block in reply.thinking]
    if reply.text or not reply.tool_calls:
        blocks.append({"type": "text", "text": reply.text})
    for n, call in enumerate(reply.tool_calls):
        given = call.arguments if isinstance(call.arguments, dict) else {"arguments": call.arguments}
        block = {"type": "tool_use", "id": call.id or f"toolu_{reply.call[:20]}{n}", "name": call.name}
        blocks.append({**block, "input": given})
    read, wrote, cached, _ = usage_numbers(reply.usage)
    written_to_cache = reply.usage.written or 0
    return {
        "id": reply.id or f"msg_{reply.call[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if reply.tool_calls else STOP.get(reply.finish, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": max(0, read - cached - written_to_cache),
            "output_tokens": wrote,
            "cache_creation_input_tokens": written_to_cache,
            "cache_read_input_tokens": cached,
        },
    }


def events(body: Body, request: Mapping[str, object]) -> Iterator[tuple[str, Body | str]]:
    """The events of a stream."""
    usage = body.get("usage") or {}
    start = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**usage, "output_tokens": 0}
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(body["content"]):
        first, deltas = _grown(block)
        yield (
            "content_block_start",
            {"type": "content_block_start", "index": index, "content_block": first},
        )
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    end = {name: body.get(name) for name in ("stop_reason", "stop_sequence")}
    last = {name: value for name, value in usage.items() if name != "service_tier"}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": last}
    yield "message_stop", {"type": "message_stop"}


def _grown(block: Body) -> tuple[Body, list[Body]]:
    """A block as it begins in a stream, and what is added to it."""
    kind = block["type"]
    if kind == "text":
        text = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        return {**block, "text": ""}, text
    if kind == "thinking":
        deltas: list[Body] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])
        ]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use"):
        said = as_json(block["input"]) if block["input"] else ""
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": piece} for piece in pieces(said)
        ]
    return block, []


def error(status: int, kind: str, message: str) -> Body:
    """The body of an error."""
    return {"type": "error", "error": {"type": KINDS.get(status, "api_error"), "message": message}}
