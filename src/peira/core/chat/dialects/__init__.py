"""The dialects of model APIs: requests in a provider's own JSON, as programs write them, and their answers.

A request that came through the recording endpoint stays as its program wrote it. It is translated only for a
model of another dialect; an answer is given back as the provider wrote it, or written from the reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from peira.core.chat.dialects import chat, messages, responses
from peira.core.chat.dialects.parts import BESIDE, Body, UntranslatableRequest
from peira.core.models import Model, Reply, Request
from peira.errors import CallFailed

COUNTED_HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that change what a provider does, and so are part of a request."""


class Dialect(Protocol):
    """One API: how its requests are translated, and how its answers and streams are written."""

    NAME: str
    TURNS: str
    """The key of the messages in the body of a request."""

    def translated(self, request: Request, target: str) -> Request:
        """The same request in peira's own form, for a model whose API has the `target` dialect ("": none)."""
        ...

    def written(self, reply: Reply, model: str) -> Body:
        """An answer of this API that says what the reply says; `model` is the name that was asked for."""
        ...

    def events(self, body: Body, request: Mapping[str, object]) -> Iterator[tuple[str, Body | str]]:
        """The events (name and data) of a stream that gives this answer."""
        ...

    def error(self, status: int, kind: str, message: str) -> Body:
        """The body of an error."""
        ...


DIALECTS: Mapping[str, Dialect] = {one.NAME: one for one in (chat, messages, responses)}
"""The dialects by name."""


def native_request(dialect: Dialect, body: Body, headers: Mapping[str, str]) -> Request:
    """The request of a program as it wrote it; Invalid if it has no messages.

    What is said about the request rather than in it (stream, metadata, user, ...) travels beside it.
    """
    turns = body.get(dialect.TURNS)
    if isinstance(turns, str) and dialect.NAME == responses.NAME:
        turns = [{"role": "user", "content": turns}]
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise UntranslatableRequest(f"{dialect.TURNS}: must be a list of messages")
    tools = body.get("tools", [])
    tools = [] if tools is None else tools
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise UntranslatableRequest("tools: must be a list of tools")
    named = {name.lower(): value for name, value in headers.items()}
    apart = {"model", "tools", dialect.TURNS, *BESIDE}
    return Request(
        messages=tuple(turns),
        tools=tuple(tools),
        parameters={name: value for name, value in body.items() if name not in apart},
        form=dialect.NAME,
        headers={name: named[name] for name in COUNTED_HEADERS if named.get(name)},
        beside={n: body[n] for n in BESIDE if n in body and n not in ("stream", "stream_options")},
    )


def native_body(request: Request) -> Body:
    """The body of a native request, but for the model's name."""
    body = {**request.beside, **request.parameters, DIALECTS[request.form].TURNS: list(request.messages)}
    return {**body, "tools": list(request.tools)} if request.tools else body


def spoken(request: Request, model: Model) -> Request:
    """The request as the model understands it: translated, if it is native to another dialect than its own.

    Raises CallFailed (permanent) if it cannot be translated.
    """
    target: str = getattr(model, "dialect", "")
    if not request.form or request.form == target:
        return request
    try:
        return DIALECTS[request.form].translated(request, target)
    except UntranslatableRequest as problem:
        raise CallFailed(f"{model.name}: not sent: {problem}", status=400) from None
    except (KeyError, TypeError, AttributeError, IndexError) as problem:
        raise CallFailed(
            f"{model.name}: not sent: the request has an unknown shape ({problem})", status=400
        ) from None


def with_native(reply: Reply, request: Request, model: Model, raw: bytes) -> Reply:
    """The reply with the answer as its provider wrote it, if the request was in the model's own dialect."""
    if not request.form or request.form != getattr(model, "dialect", ""):
        return reply
    try:
        return msgspec.structs.replace(reply, native=msgspec.json.decode(raw, type=dict))
    except msgspec.DecodeError:
        return reply


def readable(request: Request) -> Request:
    """The request in peira's own form as far as it can be translated: for display only."""
    if not request.form:
        return request
    try:
        return DIALECTS[request.form].translated(request, "")
    except (UntranslatableRequest, KeyError, TypeError, AttributeError, IndexError):
        return request
