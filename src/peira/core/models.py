"""What is said to a model and what comes back, whoever serves it.

A `Request` is provider-independent and canonical: it is what a call is known by. A `Model` turns it
into bytes for its provider, sends them once, and reads the raw answer later, possibly in another run:
sending and reading are apart so that the raw answer can be recorded before anything looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """Tokens as the provider counted them; None where it did not say. Of `input`, `cached` were read from
    the provider's cache and `written` put into it; of `output`, `reasoning` were thought."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    written: int | None = None

    @property
    def total(self) -> int:
        """What counts against limits of tokens."""
        return (self.input or 0) + (self.output or 0)


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    id: str
    name: str
    arguments: Json


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A model's answer. As a return value of an agent it counts as its text.

    `model` is what the provider says it served, `served` the model that was asked in the end (another than
    the one named, if that had to be replaced by a fallback). `cost` is in US dollars, None if unknown;
    `replayed` says that it was recorded before, and cost nothing now; `call` is its key in the ledger."""

    text: str
    model: str = ""
    served: str = ""
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
    replayed: bool = False
    call: str = ""

    def __str__(self) -> str:
        return self.text


def output_of(outcome: object) -> object:
    """What an agent returned, as an output: a reply counts as its text."""
    return outcome.text if isinstance(outcome, Reply) else outcome


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was received, before anybody looks at it. `headers` are only those about limits and ids;
    `wait` is how long the provider asks not to be asked again."""

    status: int
    body: bytes
    latency: float
    first_token: float | None = None
    headers: dict[str, str] = {}
    wait: float | None = None


class CallFailed(PeiraError):
    """A send that brought no answer. `doubt`: it may have been billed. `free`: it was not, and may be
    tried again (after `retry_after` seconds, if the provider said). Neither: trying again will not help.
    `busy`: the provider has too much to do; asking it less at once will help."""

    def __init__(
        self,
        message: str,
        *,
        free: bool = False,
        doubt: bool = False,
        retry_after: float | None = None,
        status: int = 0,
        busy: bool = False,
    ) -> None:
        super().__init__(message)
        self.free, self.doubt, self.retry_after, self.status = free, doubt, retry_after, status
        self.busy = busy


class Unfit(CallFailed):
    """A model answered, and none of its answers fits the schema that was asked for."""


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


class BatchState(msgspec.Struct, frozen=True):
    """How far a provider is with a batch; `said` is its own word for it. `failure` is why what is left of it
    will not be worked on (later perhaps, if it is `busy`), or why it cannot be looked at."""

    over: bool
    done: int = 0
    total: int = 0
    said: str = ""
    failure: str = ""
    busy: bool = False


class Batches(Protocol):
    """Many requests handed in at once, answered within a day, for less. Each is known by its key."""

    def check(self, request: Request) -> None:
        """CallFailed (permanent) if this request cannot be said to the provider. Sends nothing."""
        ...

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        """Hand them in, once; the provider's name for the batch. CallFailed as for a send."""
        ...

    async def find(self, label: str) -> str:
        """The provider's name for the batch handed in under this label; "" if it knows of none. CallFailed
        (permanent) if it cannot say."""
        ...

    async def look(self, batch: str) -> BatchState: ...

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        """What came of each request of a batch that is over; a failed one was not billed, and those left out
        were not worked on."""
        ...


class Price(Protocol):
    """What a model's tokens cost."""

    @property
    def source(self) -> str:
        """Where it is from, and of when."""
        ...

    @property
    def batch(self) -> float:
        """The share of it that is paid for what is handed in as a batch."""
        ...

    def cost(self, usage: Usage) -> float | None:
        """US dollars for one call that used these tokens; None if that cannot be said."""
        ...


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """How fast a model may be asked: sends and tokens a minute, and calls at the same time."""

    requests: float | None = None
    tokens: float | None = None
    concurrency: int | None = None


class Named(msgspec.Struct, frozen=True):
    """A model as a project knows it: with its limits, its price if it is known, the names of those that are
    asked in its place if it cannot answer, and the most tokens of output where a request does not say."""

    name: str
    model: Model
    limits: Limits = Limits()
    price: Price | None = None
    fallbacks: tuple[str, ...] = ()
    output: int | None = None
