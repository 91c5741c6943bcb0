"""What is said to a model and what comes back, whoever serves it.

A `Request` is provider-independent and canonical: it is what a call is known by. A `Model` turns it
into bytes for its provider, sends them once, and reads the raw answer later, possibly in another run:
sending and reading are apart so that the raw answer can be recorded before anything looks at it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from peira.core.ids import Json
from peira.errors import PeiraError


class Request(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One question to a model. `messages` are {"role", "content"} with content text or a list of parts
    ({"type": "text", "text"} or {"type": "image", "data" (base64) or "url", "media"}), tool results are
    {"role": "tool", "id", "content"}, and an assistant's message may carry "tool_calls"."""

    messages: tuple[dict[str, Json], ...]
    system: str | None = None
    tools: tuple[dict[str, Json], ...] = ()
    schema: dict[str, Json] | None = None
    parameters: dict[str, Json] = {}


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens as the provider counted them; None where it did not say."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    id: str
    name: str
    arguments: Json


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A model's answer. As a return value of an agent it counts as its text."""

    text: str
    model: str = ""
    finish: str = ""
    usage: Usage = Usage()
    tool_calls: tuple[ToolCall, ...] = ()
    parsed: Json = None
    reasoning: str = ""
    logprobs: Json = None
    texts: tuple[str, ...] = ()
    cost: float | None = None
    latency: float = 0.0
    first_token: float | None = None

    def __str__(self) -> str:
        return self.text


def output_of(outcome: object) -> object:
    """What an agent returned, as an output: a reply counts as its text."""
    return outcome.text if isinstance(outcome, Reply) else outcome


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was received, before anybody looks at it. `headers` are only those about limits and ids."""

    status: int
    body: bytes
    latency: float
    first_token: float | None = None
    headers: dict[str, str] = {}


class CallFailed(PeiraError):
    """A send that brought no answer. `doubt`: it may have been billed. `free`: it was not, and may be
    tried again (after `retry_after` seconds, if the provider said). Neither: trying again will not help."""

    def __init__(
        self,
        message: str,
        *,
        free: bool = False,
        doubt: bool = False,
        retry_after: float | None = None,
        status: int = 0,
    ) -> None:
        super().__init__(message)
        self.free, self.doubt, self.retry_after, self.status = free, doubt, retry_after, status


class Model(Protocol):
    """A model behind some endpoint."""

    @property
    def name(self) -> str:
        """As it is asked for: "openai:gpt-5-mini"."""
        ...

    @property
    def identity(self) -> Json:
        """What a call's identity knows of it: provider, model, defaults; never a key or secret."""
        ...

    def check(self) -> None:
        """Invalid if it cannot be asked as things are: a key that is not set, a file that is not there."""
        ...

    async def send(self, request: Request) -> Answer:
        """Send once, never again by itself; CallFailed says what that means for the bill."""
        ...

    def read(self, answer: Answer) -> Reply:
        """The reply in an answer; CallFailed (permanent) if it makes no sense. Pure."""
        ...

    async def close(self) -> None: ...
