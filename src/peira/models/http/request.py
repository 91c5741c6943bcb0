"""An HTTP request to a model as a value, and collecting server-sent events into one body."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from peira.core.ids import Json
from peira.core.models import text_listener
from peira.core.text.secrets import kept_secret
from peira.errors import CallFailed


class EventCollector(Protocol):
    """Collects the events of one stream into a body."""

    def add(self, event: dict[str, Json]) -> bool:
        """Add an event; returns whether it has output of the model. StreamBroken if it is an error."""
        ...

    def body(self) -> Json:
        """The body as it would have been without streaming. StreamBroken if the end is missing."""
        ...


ODD = (msgspec.MsgspecError, KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError)
"""What comes of an event that is no JSON, or of a shape that nobody knows."""


class ResponseBody(Protocol):
    """The body of an answer, part by part."""

    def iter_any(self) -> AsyncIterable[bytes]:
        """The parts, as they come."""
        ...


async def gathered(content: ResponseBody, gather: EventCollector, limit: int) -> tuple[bytes, float | None]:
    """The body, and when the model first spoke. Beyond the limit, what came until then; all as it came if it
    is a stream of events that nobody knows: it was paid for, and is recorded."""
    raw, spoke = bytearray(), None
    buffer, odd = b"", False
    async for part in content.iter_any():
        raw += part
        if len(raw) > limit:
            return bytes(raw), spoke
        *lines, buffer = (buffer + part).split(b"\n")
        for line in lines:
            try:
                if _add_line(line, gather) and spoke is None:
                    spoke = time.perf_counter()
            except ODD:
                odd = True
    try:
        _add_line(buffer, gather)
        if not odd:
            return msgspec.json.encode(gather.body()), spoke
    except ODD:
        pass
    return bytes(raw), spoke


def _add_line(line: bytes, gather: EventCollector) -> bool:
    """Add one line of a stream; returns whether it has output of the model."""
    line = line.strip()
    if not line.startswith(b"data:") or line == b"data: [DONE]":
        return False
    event = msgspec.json.decode(line[5:], type=dict[str, Json])
    if (listener := text_listener.get()) is not None and (text := _said(event)):
        listener(text)
    return gather.add(event)


def _said(event: Any) -> str:
    """The text that an event of any of the known forms adds to an answer; "" if it adds none."""
    delta = event.get("delta")
    if isinstance(event.get("choices"), list) and event["choices"]:
        first = event["choices"][0]
        delta = first.get("delta", {}).get("content") if isinstance(first, dict) else None
    elif isinstance(delta, dict):
        delta = delta.get("text")
    elif not str(event.get("type", "")).endswith("output_text.delta"):
        delta = None
    return delta if isinstance(delta, str) else ""


MAX_BODY = 64 * 2**20
KEEP_ALIVE = 4.0
"""Seconds for which idle connections are kept.

Less than the 5 after which common servers close them, since a request sent at that moment is in doubt.
"""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds.

    `connect`: until there is a connection (nothing was sent yet). `first_byte`: the longest silence, before
    the first byte or after any; an answer that is not streamed is silent until it is complete, so this is
    also how long a model may think. `total`: from the start to the last byte.
    """

    connect: float = 10.0
    first_byte: float = 300.0
    total: float = 900.0


DEFAULT = Timeouts()


class RequestHeaders:
    """The headers of one request, and the secrets in them and in the URL, which are never shown."""

    __slots__ = ("headers", "lines", "secrets")

    def __init__(self, headers: dict[str, str], secrets: tuple[str, ...]) -> None:
        self.headers, self.secrets = headers, tuple(filter(kept_secret, secrets))
        self.lines = "".join(_line(name, value) for name, value in headers.items()).encode()


def _line(name: str, value: str) -> str:
    if any(mark in name + value for mark in "\r\n\0"):
        raise CallFailed(f"not sent: the header {name!r} has more than one line")
    return f"{name}: {value}\r\n"


class HttpRequest(msgspec.Struct, frozen=True):
    """A request: a GET without a body, otherwise a POST.

    `sent` is called at the last moment, for the headers. `gather` collects a stream; None if the answer is
    one body, of at most `most` bytes.
    """

    url: str
    body: bytes
    sent: Callable[[], RequestHeaders]
    timeouts: Timeouts = DEFAULT
    gather: EventCollector | None = None
    most: int = MAX_BODY

    def __repr__(self) -> str:
        return f"<post to {self.path}>"

    @property
    def path(self) -> str:
        """The path of the URL, for messages."""
        return urlsplit(self.url).path

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "POST" if self.body else "GET"
