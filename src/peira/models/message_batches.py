"""Anthropic's batches: one body of requests, one list of results.

They carry no labels, so a batch whose name was never heard of cannot be found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from peira.core.ids import Json
from peira.core.models import Answer, BatchState, CallFailed, Request
from peira.models.batches import CANCELLED, BatchLine, Identified, Write, lines_of, read_as
from peira.models.endpoint import Endpoint
from peira.models.failures import senseless

ERRORS: Mapping[str, int] = MappingProxyType(
    {
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }
)
"""The statuses that Anthropic's types of errors have elsewhere."""


class _Tally(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def done(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired


class _MessageBatch(Identified):
    processing_status: str
    request_counts: _Tally = msgspec.field(default_factory=_Tally)


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Json] | None = None


class _ResultLine(msgspec.Struct):
    custom_id: str
    result: _Result


class AnthropicBatches:
    _path = "/v1/messages/batches"

    def __init__(self, endpoint: Endpoint, write: Write, holder: object) -> None:
        self._line = BatchLine(endpoint, write, holder)

    def check(self, request: Request) -> None:
        self._line.write(request)

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        written = [{"custom_id": key, "params": self._line.write(one)} for key, one in requests.items()]
        return await self._line.hand_in(self._path, {"requests": written})

    async def find(self, label: str) -> str:
        raise senseless(self._path, "batches carry no labels here")

    async def look(self, batch: str) -> BatchState:
        path = f"{self._path}/{batch}"
        said = read_as(await self._line.get(path), _MessageBatch, path)
        counts, status = said.request_counts, said.processing_status
        return BatchState(status == "ended", counts.done, counts.done + counts.processing, status)

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        path = f"{self._path}/{batch}/results"
        lines = lines_of(await self._line.get(path), _ResultLine, path)
        outcomes = ((line.custom_id, self._outcome(line.result)) for line in lines)
        return {key: outcome for key, outcome in outcomes if outcome is not None}

    def _outcome(self, result: _Result) -> Answer | CallFailed | None:
        if result.type == "succeeded":
            return Answer(200, bytes(result.message), 0.0)
        if result.type == "canceled":
            return CallFailed(f"{self._path}: {CANCELLED}")
        if result.type == "expired":
            return None
        error = result.error or {}
        inner = error.get("error") or error
        kind = inner.get("type", "") if isinstance(inner, dict) else ""
        return self._line.failed("/v1/messages", ERRORS.get(kind, 400), msgspec.json.encode(error))
