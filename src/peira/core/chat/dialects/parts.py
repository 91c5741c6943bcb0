"""What the dialects have in common: texts, images, tools, parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from peira.core.ids import Json
from peira.errors import UntranslatableRequest as UntranslatableRequest

Body = dict[str, Any]

BESIDE = (
    *("stream", "stream_options", "metadata", "user", "safety_identifier", "prompt_cache_key"),
    *("prompt_cache_retention", "service_tier", "client_metadata"),
)
"""What is said about a request and not in it: it travels beside it, and is no part of its identity."""
PIECE = 4096
"""The most characters in one piece of a stream."""
_DATA = re.compile(r"data:(?P<media>[\w.+/-]+);base64,(?P<data>.*)", re.DOTALL)


def text_of(content: Json) -> str:
    """The text of a content: a string, or a list of parts of which those without text are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return "" if content is None else json.dumps(content, ensure_ascii=False)


def image(url: str, detail: Json = None) -> Body:
    """An image part in peira's form."""
    found = _DATA.fullmatch(url)
    part: Body = {"type": "image", "url": url}
    if found:
        part = {"type": "image", "data": found["data"], "media": found["media"]}
    return {**part, "detail": detail} if isinstance(detail, str) and detail != "auto" else part


def plain(parts: list[Body]) -> str | list[Body]:
    """Parts as a text if they are nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def arguments_of(text: Json) -> Json:
    """The arguments of a tool call as a value; the text if it is no JSON."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text


def as_json(value: Json) -> str:
    """A string as it is, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tool(name: Json, description: Json, schema: Json) -> Body:
    """A tool in peira's form."""
    described = {"description": description} if description else {}
    return {"name": name, **described, "parameters": schema or {"type": "object", "properties": {}}}


SAMPLING = ("temperature", "top_p")


def parameters_for(target: str, given: Mapping[str, Json], choice: str | None) -> Body:
    """Parameters in peira's names for a model of the target dialect; others are left out.

    `choice` is which tool is to be called: auto, none, required, or =NAME.
    """
    names = (*SAMPLING, "max_tokens", "stop", "reasoning", *(("seed",) if target in ("", "chat") else ()))
    known = {name: given[name] for name in names if given.get(name) is not None}
    if choice is not None and target:
        known["tool_choice"] = _choice(target, choice)
    return known


def _choice(target: str, choice: str) -> Json:
    """Which tool is to be called, in the words of a dialect."""
    name = choice.removeprefix("=")
    if target == "messages":
        kinds = {"auto": "auto", "none": "none", "required": "any"}
        return {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": name}
    if not choice.startswith("="):
        return choice
    return (
        {"type": "function", "name": name}
        if target == "responses"
        else {"type": "function", "function": {"name": name}}
    )


def pieces(text: str) -> Iterator[str]:
    """A text in pieces, as a stream gives it."""
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def joined(texts: Iterable[str]) -> str | None:
    """Texts of the system, one after another; None if there are none."""
    found = [text for text in texts if text]
    return "\n\n".join(found) if found else None


def usage_numbers(usage: Any) -> tuple[int, int, int, int]:
    """Input, output, cached and reasoning tokens of a reply's usage; 0 where they are not known."""
    return usage.input or 0, usage.output or 0, usage.cached or 0, usage.reasoning or 0
