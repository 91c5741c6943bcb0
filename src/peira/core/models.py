"""Requests to models and their replies, independent of the provider, and the protocols of models.

A `Request` is provider-independent and canonical: it identifies a call. A `Model` turns it into bytes for its
provider, sends them once, and parses the raw answer later, possibly in another run: sending and parsing are
separate so that the raw answer can be recorded before it is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from peira.core.chat.messages import anthropic_messages, openai_messages
from peira.core.ids import MAX_INT, Json
from peira.errors import CallFailed


class Request(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One request to a model.

    `messages` are {"role", "content"} with content text or a list of parts ({"type": "text", "text"} or
    {"type": "image", "data" (base64) or "url", "media", "detail"}), tool results are {"role": "tool", "id",
    "content"}, also with parts, and an assistant's message may carry "tool_calls" of {"id", "name",
    "arguments"} and "thinking", as `Reply.message` writes them. A tool result with "error" is that of a tool
    that failed. `ask` also takes replies, and the forms of OpenAI and Anthropic (see `core.chat.messages`).

    A request that a program made through the recording endpoint is *native*: `form` names the dialect
    (`core.chat.dialects`) in whose own JSON its messages, tools and parameters are, `headers` are those that
    change what the provider does, and `beside` is said about it and is no part of its identity.
    """

    messages: tuple[dict[str, Json], ...]
    system: str | None = None
    tools: tuple[dict[str, Json], ...] = ()
    schema: dict[str, Json] | None = None
    parameters: dict[str, Json] = {}
    form: str = ""
    headers: dict[str, str] = {}
    beside: dict[str, Json] = {}


def token_count(said: object) -> int | None:
    """A number of tokens as a provider says it; None if it is no whole number from 0 to 2^53."""
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    return said if type(said) is int and 0 <= said <= MAX_INT else None


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens as the provider counted them; None where it did not report them.

    Of `input`, `cached` were read from the provider's cache and `written` were written to it, `written_long`
    of these to be kept for long (an hour at Anthropic); of `output`, `reasoning` were reasoning tokens.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    written: int | None = None
    written_long: int | None = None

    @property
    def total(self) -> int:
        """Input plus output tokens, which count against token limits."""
        return (self.input or 0) + (self.output or 0)


class ToolCall(dict[str, Json]):
    """A tool call that a model requests, as a JSON object: `id`, the tool's `name` and its `arguments`."""

    def __init__(self, id: str, name: str, arguments: Json) -> None:
        super().__init__(id=id, name=name, arguments=arguments)

    @property
    def id(self) -> str:
        """The provider's id of this tool call, which its result refers to."""
        return str(self["id"])

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self["name"])

    @property
    def arguments(self) -> Json:
        """The arguments as a JSON value; their text if that is not JSON."""
        return self["arguments"]

    def __json__(self) -> dict[str, Json]:
        """As a plain dict."""
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolCall:
        return ToolCall(self.id, self.name, deepcopy(self.arguments, memo))

    def __reduce__(self) -> tuple[type[ToolCall], tuple[str, str, Json]]:
        return ToolCall, (self.id, self.name, self.arguments)


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A model's reply; returned by an agent, it counts as its text.

    `model` is the model that the provider reports, `served` the model that was asked in the end (a fallback,
    if the named model had to be replaced). `finish` is why it ended ("stop", "length", "tool_calls",
    "refusal", ...); `refusal` is what a model that refused said, which is also its text, or "refused" if it
    said nothing. `parsed` is the value that matches the request's schema, `texts` all alternatives if several
    were requested. `thinking` are the provider's blocks of reasoning, which it wants back with the results of
    tools; `id` is the provider's id of the answer. `cost` is in US dollars, None if unknown; `latency` and
    `first_token` are in seconds. `replayed` says that the reply was recorded before and cost nothing now;
    `call` is its key in the ledger. `native` is the answer as its provider wrote it, if the request was so.
    """

    text: str
    model: str = ""
    served: str = ""
    finish: str = ""
    usage: Usage = Usage()
    if TYPE_CHECKING:
        tool_calls: tuple[ToolCall, ...] = ()
    else:
        tool_calls: tuple[dict[str, Json], ...] = ()  # as they are decoded; see __post_init__
    parsed: Json = None
    reasoning: str = ""
    logprobs: Json = None
    texts: tuple[str, ...] = ()
    cost: float | None = None
    latency: float = 0.0
    first_token: float | None = None
    replayed: bool = False
    call: str = ""
    refusal: str = ""
    thinking: tuple[dict[str, Json], ...] = ()
    id: str = ""
    native: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        if self.tool_calls and any(type(call) is not ToolCall for call in self.tool_calls):
            msgspec.structs.force_setattr(self, "tool_calls", tuple(ToolCall(**c) for c in self.tool_calls))

    @property
    def message(self) -> dict[str, Json]:
        """The reply as a message, to be appended to the messages of the next request.

        It has the tool calls, and the reasoning that the provider wants back with their results.
        """
        said: dict[str, Json] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            said["tool_calls"] = [dict(call) for call in self.tool_calls]
        if self.thinking:
            said["thinking"] = [dict(block) for block in self.thinking]
        return said

    def to_openai(self) -> dict[str, Json]:
        """The reply as a message in the form of OpenAI's chat completions, which `ask` takes as well."""
        return openai_messages([self.message])[0]

    def to_anthropic(self) -> dict[str, Json]:
        """The reply as a message in Anthropic's form, which `ask` takes as well."""
        return anthropic_messages([self.message])[0]

    def __str__(self) -> str:
        return self.text


REFUSED = "refused"
"""The refusal of a model that gave no words for it."""


class Output(msgspec.Struct, frozen=True):
    """What an agent may return in the place of its bare output: with metrics and events beside it.

    `metrics` are numbers, as `current_trial().report` takes them (`cost` or `cost_usd` counts as cost);
    `events` are {"name": ..., ...} or (name, data), as `current_trial().log` takes them; `about` are facts
    for `describe`.
    """

    output: Any
    metrics: Mapping[str, float] = {}
    events: Sequence[Any] = ()
    about: Mapping[str, str] = {}


def output_of(outcome: object) -> object:
    """The output of an agent: a reply counts as its text, any other value as itself."""
    return outcome.text if isinstance(outcome, Reply) else outcome


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was received, before anybody looks at it. `headers` are only those about limits and ids;
    `wait` is how long the provider asks not to be asked again; `cut` says that there was more of the body
    than is kept. `exposed` are the places in the body, from byte to byte, of secrets that were sent: the
    answer is as it came, and is not shown with them."""

    status: int
    body: bytes
    latency: float
    first_token: float | None = None
    headers: dict[str, str] = {}
    wait: float | None = None
    cut: bool = False
    exposed: tuple[tuple[int, int], ...] = ()


class Model(Protocol):
    """A model behind some endpoint."""

    @property
    def name(self) -> str:
        """The name that studies use: "openai:gpt-5-mini"."""
        ...

    @property
    def identity(self) -> Json:
        """What enters the identity of a call: provider, model, defaults; never a key or secret."""
        ...

    def check(self) -> None:
        """Raise Invalid if it cannot be used as configured: a key is not set, a file is missing."""
        ...

    async def send(self, request: Request) -> Answer:
        """Send the request once, without retries; the flags of CallFailed say whether it may be billed."""
        ...

    def read(self, answer: Answer) -> Reply:
        """Parse an answer into a reply; CallFailed (permanent) if it cannot be parsed. A pure function."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class SlottedModel(Protocol):
    """A model whose server answers so many calls at a time and lets others wait.

    No more are sent at once, unless the project's limits say otherwise.
    """

    @property
    def slots(self) -> int:
        """The number of calls that its server answers at a time."""
        ...


class BatchState(msgspec.Struct, frozen=True):
    """The progress of a batch at the provider; `said` is the provider's own word for its state.

    `failure` is why the rest of it will not be processed (`busy`: it may be later), or why the state cannot
    be read.
    """

    over: bool
    done: int = 0
    total: int = 0
    said: str = ""
    failure: str = ""
    busy: bool = False


class Batches(Protocol):
    """The batch interface of a provider: many requests submitted at once, identified by keys.

    Batches are answered within about a day, at a lower price.
    """

    def check(self, request: Request) -> None:
        """Raise CallFailed (permanent) if the provider cannot take this request; sends nothing."""
        ...

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        """Submit the requests, once; returns the provider's id of the batch. CallFailed as for a send."""
        ...

    async def find(self, label: str) -> str:
        """The provider's id of the batch submitted under this label; "" if there is none.

        Raises CallFailed (permanent) if the provider cannot look it up.
        """
        ...

    async def look(self, batch: str) -> BatchState:
        """The current state of a batch."""
        ...

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        """What came of each request of a batch that is over; a failed one was not billed (unless it is in
        doubt), and those left out were not worked on. What is found under "" holds for all that were left
        out: somebody's answer is there, and does not say whose it is."""
        ...


class Price(Protocol):
    """The price of a model's tokens."""

    @property
    def source(self) -> str:
        """Where the price is from, and its date."""
        ...

    @property
    def batch(self) -> float:
        """The factor on the price for requests submitted as a batch."""
        ...

    def cost(self, usage: Usage) -> float | None:
        """The cost in US dollars of one call with this usage; None if it cannot be computed."""
        ...


class ModelLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits of a model: requests and tokens per minute, concurrent calls; tokens of one call.

    `input` and `output` are declared by the user for single calls; nothing is sent of them.
    """

    requests: float | None = None
    tokens: float | None = None
    concurrency: int | None = None
    input: int | None = None
    output: int | None = None


text_listener: ContextVar[Callable[[str], None] | None] = ContextVar("peira_text", default=None)
"""Who hears the text of an answer while it is streamed, in the context of its send; it must not block."""


class NamedModel(msgspec.Struct, frozen=True):
    """A model as configured in a project: with limits, price, fallbacks and a default output limit.

    `fallbacks` are the names of the models that are asked in its place if it cannot answer; `output` is the
    maximum of output tokens of a request that sets none. `defaults` are the parameters that each request
    has if it does not set them itself (0 for those that are not whole numbers); `window` is the model's
    context window in tokens, if that is known.
    """

    name: str
    model: Model
    limits: ModelLimits = ModelLimits()
    price: Price | None = None
    fallbacks: tuple[str, ...] = ()
    output: int | None = None
    defaults: tuple[tuple[str, int], ...] = ()
    window: int | None = None
