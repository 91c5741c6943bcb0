"""A model behind an HTTP endpoint, and the protocol of request and answer formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Protocol

import msgspec

from peira.core.chat.dialects import native_body
from peira.core.ids import Json
from peira.core.models import Answer, Batches, Reply, Request
from peira.errors import CallFailed
from peira.models.batches import AnthropicBatches, OpenAIBatches
from peira.models.content_filter import STATUS, filtered_reply
from peira.models.http.encoding import ENCODED
from peira.models.http.endpoint import Endpoint, HeaderCache
from peira.models.http.failures import provider_message, unreadable
from peira.models.http.request import EventCollector, HttpRequest, RequestHeaders
from peira.models.http.send import release, send

OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The names of the limit on output tokens, of which a request has one."""


class WireFormat(Protocol):
    """The format of a provider's requests and answers. Pure functions."""

    def path(self, model: str) -> str:
        """The path below the endpoint's base URL."""
        ...

    def write(self, model: str, request: Request, *, stream: bool) -> dict[str, Json]:
        """The body of a request; CallFailed (permanent) if this format cannot express it."""
        ...

    def read(self, body: dict[str, Json]) -> Reply:
        """The reply in a body; KeyError, TypeError, IndexError or ValueError if it has another shape."""
        ...

    def gather(self) -> EventCollector:
        """A new collector for the events of one stream."""
        ...


class ServedModel:
    """A `Model` behind an HTTP endpoint.

    `defaults` are parameters that each request can override. `stream` requests the answer as a stream, which
    measures the time to the first token; it does not change the model's identity. `vendor` is who serves it,
    for prices and telemetry, if that is not the provider.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        form: WireFormat,
        endpoint: Endpoint,
        *,
        defaults: Mapping[str, Json] | None = None,
        stream: bool = False,
        identity: Mapping[str, Json] | None = None,
        vendor: str = "",
    ) -> None:
        self.name = f"{provider}:{model}"
        self.vendor, self.address = vendor or provider, endpoint.address
        self._model, self._form, self._endpoint, self._stream = model, form, endpoint, stream
        self.default_output: int | None = getattr(form, "default_output", None)
        """The limit on output tokens of requests that state none, where the format needs one."""
        self.dialect: str = getattr(form, "dialect", "")
        """The dialect (`core.chat.dialects`) of requests that it takes as programs wrote them; "" if none."""
        self._sent = HeaderCache(endpoint)
        self._defaults, self._url = dict(defaults or {}), endpoint.url(form.path(model))
        self.identity: Json = {"provider": provider, "model": model, **(identity or {})}
        if self._defaults:
            self.identity["defaults"] = self._defaults

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @property
    def silence(self) -> float:
        """Seconds without a byte after which a request is given up (`timeouts.first_byte`)."""
        return self._endpoint.timeouts.first_byte

    @property
    def longest_send(self) -> float:
        """Seconds after which a request is given up, whatever comes (`timeouts.total`)."""
        return self._endpoint.timeouts.total

    def check(self) -> None:
        """Raise Invalid, with the environment variable, if the key is missing. Sends nothing."""
        self._endpoint.key.check(self.name)

    async def send(self, request: Request) -> Answer:
        """Send a request once; the raw answer, or CallFailed."""
        body = self._written(request, self._stream)
        post = HttpRequest(
            self._url,
            msgspec.json.encode(body),
            partial(_with_headers, self._sent, request.headers) if request.headers else self._sent,
            self._endpoint.timeouts,
            self._form.gather() if self._stream else None,
        )
        return await send(post, self)

    def _with_defaults(self, request: Request) -> Request:
        """The request with the default parameters under its own."""
        if not self._defaults:
            return request
        return msgspec.structs.replace(request, parameters={**self._defaults, **request.parameters})

    def _written(self, request: Request, stream: bool) -> dict[str, Json]:
        """The body of a request; CallFailed if a message lacks a part."""
        if request.form:
            return self._native(request, stream)
        try:
            return self._form.write(self._model, self._with_defaults(request), stream=stream)
        except KeyError as missing:
            raise CallFailed(f"{self.name}: not sent: a message or part without {missing}") from None

    def _native(self, request: Request, stream: bool) -> dict[str, Json]:
        """The body of a request as its program wrote it, for this model and with its defaults."""
        own = native_body(request)
        basic = self._form.write(self._model, Request((), parameters=self._defaults), stream=stream)
        if any(name in own for name in OUTPUT_LIMITS):
            basic = {name: value for name, value in basic.items() if name not in OUTPUT_LIMITS}
        return {**basic, **own}

    def read(self, answer: Answer) -> Reply:
        """The reply in a raw answer; CallFailed (permanent) if there is none."""
        return read_body(self._form, self._form.path(self._model), answer)

    @cached_property
    def batches(self) -> Batches:
        """The batch endpoint of its provider."""

        def write(request: Request) -> dict[str, Json]:
            return self._written(request, stream=False)

        path = self._form.path(self._model)
        if path.endswith("/messages"):
            return AnthropicBatches(self._endpoint, write, self)
        return OpenAIBatches(self._endpoint, write, path, self)

    async def close(self) -> None:
        """Release the connections on the running event loop."""
        await release(self)


def _with_headers(sent: Callable[[], RequestHeaders], more: Mapping[str, str]) -> RequestHeaders:
    """The headers of a request with those that it has of its own."""
    usual = sent()
    return RequestHeaders({**usual.headers, **more}, usual.secrets)


def read_body(form: WireFormat, path: str, answer: Answer) -> Reply:
    """The reply in an answer of this format; CallFailed (permanent) if there is none."""
    if answer.status == STATUS and (refusal := filtered_reply(answer.status, answer.body)) is not None:
        return msgspec.structs.replace(refusal, latency=answer.latency)
    body = _body(answer, path)
    try:
        reply = form.read(body)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, RecursionError):
        raise unreadable(path, f"an answer of an unknown shape: {_beginning(answer)}") from None
    return msgspec.structs.replace(reply, latency=answer.latency, first_token=answer.first_token)


def _body(answer: Answer, path: str) -> dict[str, Json]:
    if answer.cut:
        kept = f"of which the first {len(answer.body)} bytes are kept"
        raise unreadable(path, f"an answer that is too large, {kept}")
    try:
        body = msgspec.json.decode(answer.body)
    except RecursionError:
        raise unreadable(path, f"an answer that is nested too deeply: {_beginning(answer)}") from None
    except (msgspec.DecodeError, ValueError):
        if encoding := answer.headers.get(ENCODED):
            said = f"an answer whose content encoding ({encoding[:20]}) is broken, kept as it came"
            raise unreadable(path, said) from None
        raise unreadable(path, f"an answer that is no JSON: {_beginning(answer)}") from None
    if not isinstance(body, dict):
        raise unreadable(path, f"an answer of an unknown shape: {_beginning(answer)}")
    if body.get("error"):
        raise unreadable(path, f"an error instead of an answer: {provider_message(answer.body)}")
    return body


def _beginning(answer: Answer) -> str:
    """The beginning of an answer, for messages."""
    return answer.body[:100].decode(errors="replace") or "nothing"


def text_in(value: Json) -> str:
    """A text that an answer may do without: "" if it is something else."""
    return value if isinstance(value, str) else ""


def table_in(value: Json) -> dict[str, Json]:
    """A table that an answer may do without: an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def needed_text(value: Json) -> str:
    """A text that an answer makes no sense without; TypeError if it is something else."""
    if not isinstance(value, str):
        raise TypeError("expected a text")
    return value


def arguments(text: Json) -> Json:
    """The arguments of a tool call as a value; the text itself if it is not JSON."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text


def unsupported(provider: str, names: object) -> CallFailed:
    """The failure for a parameter that the provider does not have."""
    return CallFailed(f"{provider} has no parameter {names!r}; leave it out for this model")
