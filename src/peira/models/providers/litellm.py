"""`litellm:VENDOR/NAME`: a bridge to vendors with an API of their own."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from peira.core.ids import Json
from peira.core.models import Answer, Reply, Request
from peira.errors import CallFailed, Invalid
from peira.models.content_filter import STATUS
from peira.models.http.failures import lost, refused
from peira.models.http.model import read_body
from peira.models.http.request import DEFAULT, Timeouts
from peira.models.providers.chat import Chat

NEVER_AGAIN = {"num_retries": 0, "max_retries": 0}
"""Options that disable litellm's own retries: the engine counts every send."""
FILTERED = "ContentPolicyViolationError"
"""litellm's exception for a request that a content filter refuses."""
_FORM = Chat()
TRANSPORT = (
    "httpx",
    "httpcore",
    "aiohttp",
    "urllib3",
    "requests",
    "botocore",
    "grpc",
    "ssl",
    "socket",
    "openai",
)
"""Packages whose errors may come after something was sent."""
NOT_SENT = 400
"""The status that stands for an error of litellm itself: wrong use, nothing was sent."""


class LitellmModel:
    """A model through litellm: the name is vendor/model.

    `base_url` is for gateways; vendor settings are parameters.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        parameters: Mapping[str, Json] | None = None,
        timeouts: Timeouts = DEFAULT,
    ) -> None:
        self.name = f"litellm:{model}"
        self._model, self._base, self._timeouts = model, base_url, timeouts
        self._parameters = dict(parameters or {})
        self.identity: Json = {"provider": "litellm", "model": model}
        if self._parameters:
            self.identity["defaults"] = self._parameters

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def check(self) -> None:
        """Raise Invalid if litellm is missing. Sends and imports nothing."""
        if find_spec("litellm") is None:
            raise Invalid(f"{self.name}: litellm is missing; `pip install litellm`")

    async def send(self, request: Request) -> Answer:
        """Send a request once; the raw answer, or CallFailed."""
        self.check()
        litellm = await asyncio.to_thread(import_module, "litellm")
        merged = msgspec.structs.replace(request, parameters={**self._parameters, **request.parameters})
        outcome = await self._outcome(litellm, _FORM.write(self._model, merged, stream=False))
        if isinstance(outcome, CallFailed):
            raise outcome
        return outcome

    async def _outcome(self, litellm: Any, body: dict[str, Json]) -> Answer | CallFailed:
        """Call litellm; its exceptions become failures."""
        began = time.perf_counter()
        try:
            completion = await litellm.acompletion(
                **body, **NEVER_AGAIN, timeout=self._timeouts.total, base_url=self._base
            )
        except import_module("openai").OpenAIError as problem:  # the base class of litellm's exceptions
            if type(problem).__name__ == FILTERED:
                error = {"error": {"code": FILTERED, "message": str(problem)}}
                return Answer(STATUS, msgspec.json.encode(error), time.perf_counter() - began)
            return _failure(self.name, problem)
        return Answer(
            200, msgspec.json.encode(completion.model_dump(mode="json")), time.perf_counter() - began
        )

    def read(self, answer: Answer) -> Reply:
        """The reply in a raw answer."""
        return read_body(_FORM, self.name, answer)

    async def close(self) -> None:
        """Does nothing: litellm manages its connections itself."""


def _failure(name: str, problem: Any) -> CallFailed:
    """The meaning of an exception of litellm: by its type first, since timeouts have a made-up status."""
    kinds = {kind.__name__ for kind in type(problem).__mro__}
    secrets = tuple(
        value for key, value in os.environ.items() if key.endswith(("_KEY", "_TOKEN", "_SECRET")) and value
    )
    if "Timeout" in kinds or "APITimeoutError" in kinds:
        return lost(name, "timed out", secrets)
    if "APIConnectionError" in kinds:
        if not _sent(problem):
            return refused(name, NOT_SENT, {}, str(problem).encode(), secrets)
        # It does not say whether the request was sent, so it is in doubt.
        return lost(name, str(problem), secrets)
    headers = getattr(problem, "litellm_response_headers", None) or {}
    lower = {key.lower(): value for key, value in headers.items()}
    return refused(name, int(problem.status_code), lower, str(problem).encode(), secrets)


def _sent(problem: BaseException) -> bool:
    """Whether the request may have been sent: some error behind this one comes from a connection.

    litellm reports errors of its own code (a missing setting, a message it cannot translate) as connection
    errors too; behind those there are only errors of Python.
    """
    behind: list[BaseException] = []
    cause = problem.__cause__ or problem.__context__
    while cause is not None and cause not in behind:
        behind.append(cause)
        cause = cause.__cause__ or cause.__context__
    if not behind:
        return True
    return any(
        isinstance(one, OSError | EOFError) or type(one).__module__.partition(".")[0] in TRANSPORT
        for one in behind
    )
