"""Messages of models: peira's own form, and the forms of OpenAI and Anthropic that people bring along.

`read_messages` accepts any of them and gives peira's form, which `peira.core.models.Request` describes;
`openai_messages` and `anthropic_messages` write it in the vendors' forms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from peira.core.ids import Json

Message = dict[str, Json]
SDK_KEYS = ("role", "content", "tool_calls", "tool_call_id", "refusal")
"""What counts of a message object of a vendor's SDK."""
THINKING = ("thinking", "redacted_thinking")
"""Content blocks with a model's reasoning, which Anthropic wants back with the results of tools."""


def read_messages(given: Iterable[Any]) -> list[Message]:
    """The messages in peira's form.

    Accepted are peira's form, replies, OpenAI's messages ("tool_calls" with "function", "tool_call_id",
    "image_url" parts) and items of its Responses API, Anthropic's content blocks ("tool_use",
    "tool_result", "thinking", images with a "source"), and the message objects of both vendors' SDKs.
    """
    return [message for one in given for message in _read(one)]


def _read(given: Any) -> Iterator[Message]:
    """One message of any form; one of Anthropic's with several tool results becomes several."""
    told = None if isinstance(given, Mapping) else getattr(given, "message", None)
    if told is not None:  # a reply, or a choice of OpenAI's
        yield from _read(told)
        return
    message = _plain(given)
    kind = message.get("type")
    if kind == "function_call":
        call = {"id": message.get("call_id", ""), "name": message.get("name", "")}
        arguments = parsed_arguments(message.get("arguments"))
        yield {"role": "assistant", "content": "", "tool_calls": [{**call, "arguments": arguments}]}
        return
    if kind == "function_call_output":
        yield {"role": "tool", "id": message.get("call_id", ""), "content": message.get("output")}
        return
    if kind == "message":
        del message["type"]
    if message.get("role") == "tool" and "tool_call_id" in message:
        message.setdefault("id", message.pop("tool_call_id"))
    if message.get("tool_calls"):
        message["tool_calls"] = [_tool_call(call) for call in message["tool_calls"]]
    content: Any = message.get("content")
    if _has_blocks(content):
        yield from _from_blocks(message, content)
    else:
        yield message


def _plain(given: Any) -> dict[str, Any]:
    """A message as a dict; of an object of a vendor's SDK, the keys that count."""
    if hasattr(given, "model_dump"):
        found: dict[str, Any] = given.model_dump(mode="json", exclude_none=True)
        return {key: found[key] for key in SDK_KEYS if key in found} if "role" in found else found
    return dict(given)


def _tool_call(given: Any) -> Any:
    """A tool call in peira's form."""
    given = given.model_dump(exclude_none=True) if hasattr(given, "model_dump") else given
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping):
        return given
    arguments = parsed_arguments(function.get("arguments"))
    return {"id": given.get("id", ""), "name": function.get("name", ""), "arguments": arguments}


def parsed_arguments(said: Any) -> Any:
    """The arguments of a tool call as JSON; the text itself if it is not JSON."""
    if not isinstance(said, str):
        return said
    try:
        return json.loads(said) if said else {}
    except (ValueError, RecursionError):
        return said


# Anthropic's content blocks, and the parts of OpenAI's messages

FOREIGN = {"tool_use", "tool_result", "image_url", "input_text", "output_text", "input_image", *THINKING}
"""Types of content parts that peira's own form does not have."""


def _has_blocks(content: Any) -> bool:
    """Whether a content has parts that only another form has."""
    if not isinstance(content, list | tuple):
        return False
    parts = [part if isinstance(part, Mapping) else _dumped(part) for part in content]
    return any(part.get("type") in FOREIGN or "source" in part for part in parts)


def _dumped(part: Any) -> dict[str, Any]:
    """A content part that is an object of a vendor's SDK, as a dict; empty if it is none."""
    return part.model_dump(mode="json", exclude_none=True) if hasattr(part, "model_dump") else {}


def _from_blocks(message: dict[str, Any], content: Sequence[Any]) -> Iterator[Message]:
    """The message of these content blocks: first the results of tools in it, then the rest."""
    blocks = [dict(part) if isinstance(part, Mapping) else _dumped(part) for part in content]
    for block in blocks:
        if block.get("type") == "tool_result":
            error = {"error": True} if block.get("is_error") else {}
            told = _content([_part(part) for part in _listed(block.get("content"))])
            yield {"role": "tool", "id": block.get("tool_use_id", ""), "content": told, **error}
    parts = [
        _part(block) for block in blocks if block.get("type") not in ("tool_result", "tool_use", *THINKING)
    ]
    calls = [
        {"id": block.get("id", ""), "name": block.get("name", ""), "arguments": block.get("input", {})}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    thoughts = [block for block in blocks if block.get("type") in THINKING]
    if parts or calls or thoughts:
        rest = {key: value for key, value in message.items() if key != "content"}
        rest |= {"tool_calls": calls} if calls else {}
        yield {**rest, "content": _content(parts), **({"thinking": thoughts} if thoughts else {})}


def _listed(content: Any) -> list[dict[str, Any]]:
    """The content of a tool's result as a list of blocks."""
    if isinstance(content, list | tuple):
        return [dict(part) for part in content]
    return (
        [{"type": "text", "text": content if isinstance(content, str) else _text(content)}] if content else []
    )


def _content(parts: list[dict[str, Any]]) -> Any:
    """Parts as a content: their text, if they are nothing else."""
    if all(part.keys() == {"type", "text"} for part in parts):
        return "".join(str(part.get("text", "")) for part in parts)
    return parts


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a content in peira's form: a text or an image."""
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": part.get("text", "")}
    if kind == "image" and isinstance(part.get("source"), Mapping):
        source = part["source"]
        if source.get("type") == "url":
            return {"type": "image", "url": source.get("url", "")}
        return {
            "type": "image",
            "data": source.get("data", ""),
            "media": source.get("media_type", "image/png"),
        }
    if kind in ("image_url", "input_image"):
        given = part.get("image_url", "")
        url = given.get("url", "") if isinstance(given, Mapping) else given
        detail = (given if isinstance(given, Mapping) else part).get("detail")
        return {**_image(str(url)), **({"detail": detail} if detail else {})}
    return part


def _image(url: str) -> dict[str, Any]:
    """An image part of a URL, whose data are in it if it is a data URL."""
    if not url.startswith("data:") or ";base64," not in url:
        return {"type": "image", "url": url}
    media, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "data": data, "media": media}


# The vendors' forms of peira's messages


def openai_messages(messages: Iterable[Mapping[str, Json]], system: str | None = None) -> list[Message]:
    """The messages as OpenAI's chat completions have them."""
    first: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    return [*first, *(_to_openai(message) for message in messages)]


def _to_openai(message: Mapping[str, Json]) -> Message:
    content = message.get("content")
    if message.get("role") == "tool":
        return {"role": "tool", "tool_call_id": message.get("id", ""), "content": _text(content)}
    shown = [_openai_part(part) for part in content] if isinstance(content, list) else content
    said: Message = {"role": message.get("role", "user"), "content": shown}
    if message.get("tool_calls"):
        said["tool_calls"] = [
            {
                "id": call.get("id", ""),
                "type": "function",
                "function": {"name": call.get("name", ""), "arguments": _text(call.get("arguments"))},
            }
            for call in message["tool_calls"]
        ]
    return said


def _openai_part(part: Any) -> Any:
    if not isinstance(part, Mapping) or part.get("type") != "image":
        return part
    url = part.get("url") or f"data:{part.get('media', 'image/png')};base64,{part.get('data', '')}"
    detail = {"detail": part["detail"]} if "detail" in part else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def anthropic_messages(messages: Iterable[Mapping[str, Json]]) -> list[Message]:
    """The messages as Anthropic's API has them; results of tools that follow each other are one message."""
    found: list[Message] = []
    for message in messages:
        if message.get("role") == "tool":
            failed = {"is_error": True} if message.get("error") else {}
            told: Any = message.get("content")
            content = [_block(part) for part in told] if _are_parts(told) else _text(told)
            block = {
                "type": "tool_result",
                "tool_use_id": message.get("id", ""),
                "content": content,
                **failed,
            }
            if found and found[-1]["role"] == "user" and _has_results(found[-1]["content"]):
                found[-1]["content"].append(block)
            else:
                found.append({"role": "user", "content": [block]})
        else:
            found.append({"role": message.get("role", "user"), "content": _blocks(message)})
    return found


def _are_parts(content: Json) -> bool:
    """Whether a content is a list of parts, as opposed to any other value."""
    return isinstance(content, list) and all(isinstance(p, Mapping) and "type" in p for p in content)


def _has_results(content: Json) -> bool:
    return isinstance(content, list) and all(part.get("type") == "tool_result" for part in content)


def _blocks(message: Mapping[str, Json]) -> Json:
    """The content blocks of a message, or its text if that is all there is."""
    content, calls = message.get("content"), message.get("tool_calls") or ()
    thoughts = message.get("thinking") or ()
    if not calls and not thoughts and not isinstance(content, list):
        return content
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    used = [
        {"type": "tool_use", "id": c.get("id", ""), "name": c.get("name", ""), "input": c.get("arguments")}
        for c in calls
    ]
    return [*thoughts, *map(_block, parts), *used]


def _block(part: Any) -> Any:
    if not isinstance(part, Mapping) or part.get("type") != "image":
        return part
    if part.get("url"):
        return {"type": "image", "source": {"type": "url", "url": part["url"]}}
    media = part.get("media", "image/png")
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": part.get("data", "")}}


def _text(value: Json) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def message_text(content: Json) -> str:
    """The text of a content: of its text parts, with a word for each image; any other value as JSON."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if _are_parts(content):
        return "".join(part.get("text") or f"[{part.get('type')}]" for part in content)
    return _text(content)
