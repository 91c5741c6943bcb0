"""A model behind an HTTP endpoint: a form that turns requests into bodies and bodies into replies, and the
endpoint it is sent to. The providers hold only their differences, which are the forms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

import msgspec

from peira.core.ids import Json
from peira.core.models import Answer, Batches, CallFailed, Reply, Request
from peira.models.batches import OpenAIBatches
from peira.models.endpoint import Endpoint, Lately
from peira.models.failures import provider_message, senseless
from peira.models.http import release, send
from peira.models.message_batches import AnthropicBatches
from peira.models.post import Post
from peira.models.stream import Gather


class Form(Protocol):
    """The shape of a provider's requests and answers. Pure."""

    def path(self, model: str) -> str:
        """Below the endpoint's base URL."""
        ...

    def write(self, model: str, request: Request, *, stream: bool) -> dict[str, Json]:
        """The body for a request; CallFailed (permanent) if this form cannot say it."""
        ...

    def read(self, body: dict[str, Json]) -> Reply:
        """The reply in a body. KeyError, TypeError, IndexError or ValueError if it is not of this shape."""
        ...

    def gather(self) -> Gather:
        """What puts the events of one stream together."""
        ...


class ServedModel:
    """A `Model`. `defaults` are parameters under those of each request; `stream` asks for the answer as it
    comes, so that the time to the first token is known: it does not change what is asked."""

    def __init__(
        self,
        provider: str,
        model: str,
        form: Form,
        endpoint: Endpoint,
        *,
        defaults: Mapping[str, Json] | None = None,
        stream: bool = False,
        identity: Mapping[str, Json] | None = None,
    ) -> None:
        self.name = f"{provider}:{model}"
        self._model, self._form, self._endpoint, self._stream = model, form, endpoint, stream
        self._sent = Lately(endpoint)
        self._defaults, self._url = dict(defaults or {}), endpoint.url(form.path(model))
        self.identity: Json = {"provider": provider, "model": model, **(identity or {})}
        if self._defaults:
            self.identity["defaults"] = self._defaults

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def check(self) -> None:
        """Invalid, naming the environment variable, if the key is missing. Sends nothing."""
        self._endpoint.key.check(self.name)

    async def send(self, request: Request) -> Answer:
        body = self._written(self._with_defaults(request), self._stream)
        post = Post(
            self._url,
            msgspec.json.encode(body),
            self._sent,
            self._endpoint.timeouts,
            self._form.gather() if self._stream else None,
        )
        return await send(post, self)

    def _with_defaults(self, request: Request) -> Request:
        if not self._defaults:
            return request
        return msgspec.structs.replace(request, parameters={**self._defaults, **request.parameters})

    def _written(self, request: Request, stream: bool) -> dict[str, Json]:
        try:
            return self._form.write(self._model, request, stream=stream)
        except KeyError as missing:
            raise CallFailed(f"{self.name}: not sent: a message or part without {missing}") from None

    def read(self, answer: Answer) -> Reply:
        return read_body(self._form, self._form.path(self._model), answer)

    @cached_property
    def batches(self) -> Batches:
        """Its provider's batch endpoint."""

        def write(request: Request) -> dict[str, Json]:
            return self._written(self._with_defaults(request), stream=False)

        path = self._form.path(self._model)
        if path.endswith("/messages"):
            return AnthropicBatches(self._endpoint, write, self)
        return OpenAIBatches(self._endpoint, write, path, self)

    async def close(self) -> None:
        await release(self)


def read_body(form: Form, path: str, answer: Answer) -> Reply:
    """The reply in an answer of this form; CallFailed (permanent) if there is none."""
    body = _body(answer, path)
    try:
        reply = form.read(body)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        raise senseless(path, f"an answer of an unknown shape: {_beginning(answer)}") from None
    return msgspec.structs.replace(reply, latency=answer.latency, first_token=answer.first_token)


def _body(answer: Answer, path: str) -> dict[str, Json]:
    try:
        body = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise senseless(path, f"an answer that is no JSON: {_beginning(answer)}") from None
    if not isinstance(body, dict):
        raise senseless(path, f"an answer of an unknown shape: {_beginning(answer)}")
    if body.get("error"):
        raise senseless(path, f"an error instead of an answer: {provider_message(answer.body)}")
    return body


def _beginning(answer: Answer) -> str:
    return answer.body[:100].decode(errors="replace") or "nothing"


def arguments(text: Json) -> Json:
    """A tool call's arguments as a value; the text itself if it is no JSON."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        return text


def unsupported(provider: str, names: object) -> CallFailed:
    return CallFailed(f"{provider} has no parameter {names!r}; leave it out for this model")
