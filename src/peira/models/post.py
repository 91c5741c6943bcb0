"""What is sent to an endpoint, as values: where to, with which body, beside which headers, for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from peira.core.models import CallFailed
from peira.models.stream import Gather

MAX_BODY = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect`: until there is a connection (nothing was sent yet). `first_byte`: the longest
    silence, before the first byte or after any. `total`: from the start to the last byte."""

    connect: float = 10.0
    first_byte: float = 600.0
    total: float = 900.0


DEFAULT = Timeouts()


class Sent:
    """The headers of one send, and what of them, and of the URL, may be shown nowhere."""

    __slots__ = ("headers", "lines", "secrets")

    def __init__(self, headers: dict[str, str], secrets: tuple[str, ...]) -> None:
        self.headers, self.secrets = headers, tuple(filter(None, secrets))
        self.lines = "".join(_line(name, value) for name, value in headers.items()).encode()


def _line(name: str, value: str) -> str:
    if any(mark in name + value for mark in "\r\n\0"):
        raise CallFailed(f"not sent: the header {name!r} has more than one line")
    return f"{name}: {value}\r\n"


class Post(msgspec.Struct, frozen=True):
    """What is to be sent: a GET without a body, else a POST. `sent` is asked for at the last moment. `gather`
    makes one body of a stream's events; None if the answer comes in one piece, of `most` bytes."""

    url: str
    body: bytes
    sent: Callable[[], Sent]
    timeouts: Timeouts = DEFAULT
    gather: Gather | None = None
    most: int = MAX_BODY

    def __repr__(self) -> str:
        return f"<post to {self.path}>"

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    @property
    def method(self) -> str:
        return "POST" if self.body else "GET"
