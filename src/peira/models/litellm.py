"""`litellm:VENDOR/NAME`: a bridge to the vendors that speak a language of their own.

litellm is imported on the first send (it takes seconds), finds its keys in the environment variables it
documents, and is told never to send again by itself. What it gives back has the shape of a chat completion,
and is read as one. Its exceptions know headers and keys: what is said of them is scrubbed.
"""

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
from peira.core.models import Answer, CallFailed, Reply, Request
from peira.errors import Invalid
from peira.models.chat import Chat
from peira.models.failures import lost, refused
from peira.models.post import DEFAULT, Timeouts
from peira.models.served import read_body

NEVER_AGAIN = {"num_retries": 0, "max_retries": 0}
_FORM = Chat()


class LitellmModel:
    """A `Model`. `base_url` is for gateways; other settings of a vendor are parameters."""

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
        """Invalid if litellm is missing. Sends and imports nothing."""
        if find_spec("litellm") is None:
            raise Invalid(f"{self.name}: litellm is missing; `pip install litellm`")

    async def send(self, request: Request) -> Answer:
        self.check()
        litellm = await asyncio.to_thread(import_module, "litellm")
        merged = msgspec.structs.replace(request, parameters={**self._parameters, **request.parameters})
        outcome = await self._outcome(litellm, _FORM.write(self._model, merged, stream=False))
        if isinstance(outcome, CallFailed):
            raise outcome
        return outcome

    async def _outcome(self, litellm: Any, body: dict[str, Json]) -> Answer | CallFailed:
        began = time.perf_counter()
        try:
            said = await litellm.acompletion(
                **body, **NEVER_AGAIN, timeout=self._timeouts.total, base_url=self._base
            )
        except import_module("openai").OpenAIError as problem:  # of which all of litellm's are
            return _failure(self.name, problem)
        return Answer(200, msgspec.json.encode(said.model_dump(mode="json")), time.perf_counter() - began)

    def read(self, answer: Answer) -> Reply:
        return read_body(_FORM, self.name, answer)

    async def close(self) -> None:
        """litellm keeps its connections to itself."""


def _failure(name: str, problem: Any) -> CallFailed:
    """What an exception of litellm's means, by its kind first: it gives timeouts a status of its own."""
    kinds = {kind.__name__ for kind in type(problem).__mro__}
    secrets = tuple(
        value for key, value in os.environ.items() if key.endswith(("_KEY", "_TOKEN", "_SECRET")) and value
    )
    if "Timeout" in kinds or "APITimeoutError" in kinds:
        return lost(name, "timed out", secrets)
    if "APIConnectionError" in kinds:
        # It does not say whether the request had left: the bill is in doubt.
        return lost(name, str(problem), secrets)
    headers = getattr(problem, "litellm_response_headers", None) or {}
    lower = {key.lower(): value for key, value in headers.items()}
    return refused(name, int(problem.status_code), lower, str(problem).encode(), secrets)
