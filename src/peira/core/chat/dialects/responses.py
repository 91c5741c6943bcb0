"""OpenAI's Responses, as programs write and read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

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

NAME = "responses"
TURNS = "input"
SYSTEM = ("system", "developer")
LEFT_OUT = ("reasoning", "item_reference")
"""Items that only the model that wrote them understands."""


def translated(request: Request, target: str) -> Request:
    """The request in peira's own form."""
    given = request.parameters
    if given.get("previous_response_id"):
        raise UntranslatableRequest("previous_response_id: this model keeps no answers; send the whole input")
    form = (given.get("text") or {}).get("format") or {}
    effort = (given.get("reasoning") or {}).get("effort")
    renamed = {**given, "max_tokens": given.get("max_output_tokens"), "reasoning": effort}
    system = [text_of(one.get("content")) for one in request.messages if one.get("role") in SYSTEM]
    return Request(
        messages=tuple(_messages([one for one in request.messages if one.get("role") not in SYSTEM])),
        system=joined([str(given.get("instructions") or ""), *system]),
        tools=tuple(_tool(one) for one in request.tools if one.get("type") == "function"),
        schema=form.get("schema") if form.get("type") == "json_schema" else None,
        parameters=parameters_for(target, renamed, _choice(given.get("tool_choice"))),
    )


def _choice(given: Json) -> str | None:
    if isinstance(given, dict):
        return f"={given['name']}" if given.get("type") == "function" else None
    return given if given in ("auto", "none", "required") else None


def _messages(items: list[Body]) -> Iterator[Body]:
    """The messages of a list of items: calls of tools belong to the message before them."""
    pending: Body | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind in LEFT_OUT:
            continue
        if kind == "function_call":
            pending = pending or {"role": "assistant", "content": ""}
            call = {"id": item["call_id"], "name": item["name"], "arguments": arguments_of(item["arguments"])}
            pending.setdefault("tool_calls", []).append(call)
            continue
        if pending is not None:
            yield pending
            pending = None
        if kind == "function_call_output":
            yield {"role": "tool", "id": item["call_id"], "content": _content(item["output"])}
        elif kind != "message":
            raise UntranslatableRequest(f"an item of the type {kind!r} cannot be given to this model")
        elif item["role"] == "assistant":
            pending = {"role": "assistant", "content": _content(item["content"])}
        else:
            yield {"role": item["role"], "content": _content(item["content"])}
    if pending is not None:
        yield pending


def _content(given: Json) -> Json:
    return given if isinstance(given, str) else plain([_part(part) for part in given])


def _part(part: Body) -> Body:
    kind = part["type"]
    if kind in ("input_text", "output_text", "text", "refusal"):
        return {"type": "text", "text": part.get("text") or part.get("refusal") or ""}
    if kind == "input_image" and part.get("image_url"):
        return image(part["image_url"], part.get("detail"))
    raise UntranslatableRequest(f"a part of the type {kind!r} cannot be given to this model")


def _tool(given: Body) -> Body:
    return tool(given["name"], given.get("description"), given.get("parameters"))


def written(reply: Reply, model: str) -> Body:
    """A response."""
    key = reply.call[:24]
    output: list[Body] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        output.append({"type": "reasoning", "id": f"rs_{key}", "summary": summary})
    if reply.text or not reply.tool_calls:
        part: Body = (
            {"type": "refusal", "refusal": reply.text or reply.refusal}
            if reply.refusal
            else {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        )
        message = {"type": "message", "id": f"msg_{key}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [part]})
    for n, call in enumerate(reply.tool_calls):
        said = {"call_id": call.id or f"call_{key}{n}", "name": call.name}
        call_item = {"type": "function_call", "id": f"fc_{key}{n}", **said, "status": "completed"}
        output.append({**call_item, "arguments": as_json(call.arguments)})
    cut = reply.finish in ("length", "max_tokens")
    read, wrote, cached, reasoning = usage_numbers(reply.usage)
    return {
        "id": reply.id or f"resp_{key}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": read + wrote,
        },
    }


def events(body: Body, request: Mapping[str, object]) -> Iterator[tuple[str, Body | str]]:
    """The events of a stream, numbered."""
    numbers = count()
    for kind, data in _events(body):
        yield kind, {"type": kind, "sequence_number": next(numbers), **data}


def _events(body: Body) -> Iterator[tuple[str, Body]]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(body["output"]):
        yield "response.output_item.added", {"output_index": index, "item": _empty(item)}
        place = {"item_id": item.get("id", ""), "output_index": index}
        if item["type"] == "message":
            for nth, part in enumerate(item["content"]):
                yield from _part_events(part, {**place, "content_index": nth})
        elif item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**place, "delta": piece}
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", {**place, **told}
        yield "response.output_item.done", {"output_index": index, "item": item}
    whole = body.get("status") != "incomplete"
    yield "response.completed" if whole else "response.incomplete", {"response": body}


def _empty(item: Body) -> Body:
    """An item as it begins in a stream."""
    if item["type"] == "message":
        return {**item, "content": [], "status": "in_progress"}
    if item["type"] == "function_call":
        return {**item, "arguments": "", "status": "in_progress"}
    return item


def _part_events(part: Body, place: Body) -> Iterator[tuple[str, Body]]:
    """The events of one part of a message."""
    name = "refusal" if part["type"] == "refusal" else "text"
    kind = "refusal" if name == "refusal" else "output_text"
    logs: Body = {} if name == "refusal" else {"logprobs": []}
    yield "response.content_part.added", {**place, "part": {**part, name: ""}}
    for piece in pieces(part.get(name) or ""):
        yield f"response.{kind}.delta", {**place, "delta": piece, **logs}
    yield f"response.{kind}.done", {**place, name: part.get(name) or "", **logs}
    yield "response.content_part.done", {**place, "part": part}


def error(status: int, kind: str, message: str) -> Body:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": str(status)}}
