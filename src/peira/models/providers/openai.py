"""`openai:NAME` by chat completions or the Responses API, and compatible providers (`gemini:`, ...).

Answers are not stored at the provider (`store` is false).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote, urlsplit

from peira.core.ids import Json
from peira.core.models import Reply, Request, ToolCall, Usage, token_count
from peira.core.registry import nearest
from peira.errors import Invalid, StreamBroken
from peira.models.content_filter import refusal_by_filter
from peira.models.http.endpoint import Endpoint
from peira.models.http.model import (
    ServedModel,
    WireFormat,
    arguments,
    needed_text,
    table_in,
    text_in,
    unsupported,
)
from peira.models.http.pool import LOOPBACK
from peira.models.http.request import DEFAULT, EventCollector, Timeouts
from peira.models.providers.chat import (
    Body,
    Chat,
    as_text,
    cache_writes,
    has_parts,
    image_url,
    named_schema,
    parameters_named,
    whole_output,
)
from peira.models.secrets import Key

ABSENT = ("n", "seed", "stop")
"""Parameters that the Responses API does not have."""
FUNCTION: Body = {"type": "function", "parameters": None, "strict": False}
"""A tool that is a function; not strict unless it says so, as in chat completions."""
ENDS = ("response.completed", "response.incomplete")
FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Responses:
    """The format of the Responses API."""

    dialect: ClassVar[str] = "responses"

    where: str = "/responses"

    def path(self, model: str) -> str:
        """The path of the API."""
        return self.where

    def write(self, model: str, request: Request, *, stream: bool) -> Body:
        """The body of a request; CallFailed if a parameter is not supported."""
        items = [item for message in request.messages for item in _items(message)]
        body: Body = {"model": model, "input": items, "store": False}
        if request.system is not None:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **named_schema(request.schema)}}
        if stream:
            body["stream"] = True
        return body | _parameters(request.parameters)

    def read(self, body: Body) -> Reply:
        """The reply in a body."""
        items = body["output"]
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        calls = tuple(_called(item) for item in items if item["type"] == "function_call")
        logprobs = [token for part in parts for token in part.get("logprobs") or ()]
        text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
        finish = _finish(body, bool(calls))
        refusal = "".join(text_in(part.get("refusal")) for part in parts) or refusal_by_filter(finish, text)
        return Reply(
            text=text or refusal,
            id=text_in(body.get("id")),
            refusal=refusal,
            model=text_in(body.get("model")),
            finish="refusal" if refusal else finish,
            usage=_usage(table_in(body.get("usage"))),
            tool_calls=calls,
            reasoning="\n".join(_thoughts(items)),
            logprobs=logprobs or None,
        )

    def gather(self) -> EventCollector:
        """A collector for one stream."""
        return _Events()


def _tool(tool: Body) -> Body:
    """A tool in the API's format; one in the format of chat completions is translated."""
    if isinstance(function := tool.get("function"), dict):
        tool = function
    return tool if "type" in tool else {**FUNCTION, **parameters_named(tool)}


def _parameters(given: Body) -> Body:
    """The parameters in the API's names."""
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
    """The input items of a message."""
    if message["role"] == "tool":
        told = message["content"]
        output = [_part(part, "user") for part in told] if has_parts(told) else as_text(told)
        yield {"type": "function_call_output", "call_id": message["id"], "output": output}
        return
    content = message.get("content")
    if content:
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        yield {"role": message["role"], "content": [_part(part, message["role"]) for part in parts]}
    for call in message.get("tool_calls") or ():
        detail = {"call_id": call["id"], "name": call["name"], "arguments": as_text(call["arguments"])}
        yield {"type": "function_call", **detail}


def _part(part: Body, role: str) -> Body:
    """A part of a message in the API's format."""
    if part["type"] == "image":
        return {"type": "input_image", "image_url": image_url(part), "detail": part.get("detail", "auto")}
    if part["type"] == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part["text"]}
    return part


def _called(item: Body) -> ToolCall:
    return ToolCall(text_in(item.get("call_id")), needed_text(item["name"]), arguments(item.get("arguments")))


def _thoughts(items: list[Body]) -> Iterator[str]:
    """The texts of reasoning items."""
    for item in items:
        if item["type"] == "reasoning":
            yield from (part["text"] for part in [*item.get("summary", ()), *(item.get("content") or ())])


def _finish(body: Body, called: bool) -> str:
    """Why the model stopped, in the names of chat completions."""
    if body.get("status") == "incomplete":
        why = text_in(table_in(body.get("incomplete_details")).get("reason"))
        return FINISH.get(why, why or "incomplete")
    return "tool_calls" if called else "stop"


def _usage(usage: Body) -> Usage:
    """The usage, with cached and reasoning tokens."""
    details = table_in(usage.get("input_tokens_details"))
    read, written = (token_count(usage.get(f"{name}_tokens")) for name in ("input", "output"))
    return Usage(
        input=read,
        output=whole_output(read, written, token_count(usage.get("total_tokens"))),
        cached=token_count(details.get("cached_tokens")),
        written=cache_writes(details, usage),
        reasoning=token_count(table_in(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


class _Events:
    """Collects a stream; its last event has the whole response."""

    def __init__(self) -> None:
        self._body: Body | None = None

    def add(self, event: Body) -> bool:
        """Add an event; returns whether it has output of the model."""
        kind = str(event.get("type"))
        if kind in ("error", "response.failed"):
            detail = event.get("message") or (event.get("response") or {}).get("error")
            raise StreamBroken(f"the provider says: {as_text(detail)}")
        if kind in ENDS:
            self._body = event["response"]
        return kind.endswith(".delta")

    def body(self) -> Body:
        """The whole response; StreamBroken if it did not arrive."""
        if self._body is None:
            raise StreamBroken("the stream ended before the answer did")
        return self._body


OPENAI = "https://api.openai.com/v1"
AZURE = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
"""Hosts of Azure, also without an `api_version`."""
PRESETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        "ollama": ("http://localhost:11434/v1", "OLLAMA_API_KEY"),
        "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    }
)
"""Compatible providers: base URL, and the environment variable of the key."""
NAMED_HEADERS = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
"""Headers that are read from environment variables."""


def openai(
    model: str,
    *,
    base_url: str | None = None,
    key: str | None = None,
    form: str = "chat",
    api_version: str | None = None,
    headers: Mapping[str, str] | None = None,
    parameters: Mapping[str, Json] | None = None,
    stream: bool = False,
    timeouts: Timeouts = DEFAULT,
) -> ServedModel:
    """A model of OpenAI, or of a compatible endpoint at `base_url`.

    `key` is the name of an environment variable. `form` is "chat" or "responses". With `api_version` it is
    Azure: the key is sent as `api-key`, and the model is a deployment (unless the base URL is Azure's newer
    one, which ends in /v1).
    """
    base = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    azure, own = api_version is not None, urlsplit(base).hostname == urlsplit(OPENAI).hostname
    named = {header: f"${variable}" for header, variable in NAMED_HEADERS.items() if not azure}
    endpoint = Endpoint(
        base,
        Key(key or ("AZURE_OPENAI_API_KEY" if azure else "OPENAI_API_KEY"), own or azure or key is not None),
        key_header="api-key" if azure else "authorization",
        headers={**named, **(headers or {})},
        query={"api-version": api_version} if api_version else {},
        timeouts=timeouts,
    )
    deployment = f"/openai/deployments/{quote(model, safe='')}" if azure and not _versioned(base) else ""
    request_form = _form(form, "max_completion_tokens" if own or azure else "max_tokens", deployment)
    known: dict[str, Json] = {} if own else {"endpoint": endpoint.place}
    if form != "chat":
        known["form"] = form
    return ServedModel(
        "openai",
        model,
        request_form,
        endpoint,
        defaults=parameters,
        stream=stream,
        identity=known,
        vendor="azure" if azure or (urlsplit(base).hostname or "").endswith(AZURE) else "",
    )


def preset(
    provider: str,
    model: str,
    *,
    base_url: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    parameters: Mapping[str, Json] | None = None,
    stream: bool = False,
    timeouts: Timeouts = DEFAULT,
) -> ServedModel:
    """A model of a provider (one of the `PRESETS`) with an interface like OpenAI's."""
    default_base, variable = PRESETS[provider]
    base = base_url or default_base
    needed = key is not None or urlsplit(base).hostname not in LOOPBACK
    endpoint = Endpoint(base, Key(key or variable, needed), headers=headers or {}, timeouts=timeouts)
    known = {} if base == default_base else {"endpoint": endpoint.place}
    return ServedModel(provider, model, Chat(), endpoint, defaults=parameters, stream=stream, identity=known)


def providers() -> dict[str, Callable[..., ServedModel]]:
    """The factories of OpenAI and of all presets, by provider."""
    return {"openai": openai, **{name: partial(preset, name) for name in PRESETS}}


def _form(form: str, limit: str, prefix: str) -> WireFormat:
    """The format by its name; Invalid if there is no such format."""
    if form == "chat":
        return Chat(limit, f"{prefix}/chat/completions")
    if form == "responses":
        return Responses(f"{prefix}/responses")
    raise Invalid(f"no form {form!r}{nearest(form, ('chat', 'responses'))}")


def _versioned(base: str) -> bool:
    """Whether a base URL ends in /v1."""
    return urlsplit(base).path.rstrip("/").endswith("/v1")
