"""Providers' batch endpoints: many requests handed in at once, answered within a day, for half the price.

OpenAI's form is a file of requests and a batch that names it. Each request carries an id of ours, and answers
come as lines with that id, in any order. A request that was not answered is not billed, so it is never in
doubt: either it may be handed in again, or that would not help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import msgspec

from peira.core.ids import Json
from peira.core.models import Answer, BatchState, CallFailed, Request
from peira.models.endpoint import Endpoint
from peira.models.failures import refused, senseless
from peira.models.http import send
from peira.models.post import Post, Sent

Write = Callable[[Request], dict[str, Json]]
Shape = TypeVar("Shape")
BOUNDARY = "peira-batch-boundary-6f1c2a"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
OVER = ("completed", "failed", "expired", "cancelled")
EXPIRED, CANCELLED = "batch_expired", "it was cancelled at the provider"
TOO_MUCH = "token_limit_exceeded"
"""More tokens wait at the provider than it allows: it takes the batch once others are over."""
PAGE, PAGES = 100, 20
MOST_RESULTS = 2**30
DEPLOYMENTS = "/openai/deployments/"


class Identified(msgspec.Struct):
    id: str


@dataclass(frozen=True)
class BatchLine:
    """Where batches are handed in, and how a request is written there."""

    endpoint: Endpoint
    write: Write
    holder: object

    async def post(self, path: str, body: bytes, content: str = "application/json") -> bytes:
        return await self._send(self.endpoint.url(path), body, content)

    async def get(self, path: str, query: Mapping[str, str] = MappingProxyType({})) -> bytes:
        return await self._send(self.endpoint.url(path, query), b"", "application/json")

    async def _send(self, url: str, body: bytes, content: str) -> bytes:
        def sent() -> Sent:
            beside = self.endpoint.sent()
            return Sent({**beside.headers, "content-type": content}, beside.secrets)

        post = Post(url, body, sent, self.endpoint.timeouts, most=MOST_RESULTS)
        return (await send(post, self.holder)).body

    async def hand_in(self, path: str, body: Json) -> str:
        """The provider's name for what was handed in: without one it may still have been taken."""
        answer = await self.post(path, msgspec.json.encode(body))
        try:
            return read_as(answer, Identified, path).id
        except CallFailed as problem:
            raise CallFailed(str(problem), doubt=True) from None

    def failed(self, path: str, status: int, body: bytes) -> CallFailed:
        """What a request of a batch came to. Nobody pays for it: where there would be doubt, it is free."""
        problem = refused(path, status, {}, body, self.endpoint.sent().secrets)
        return CallFailed(str(problem), free=problem.free or problem.doubt, status=status)


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Errors(msgspec.Struct):
    data: list[_Error] | None = None


class _Counts(msgspec.Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Batch(Identified):
    status: str
    metadata: dict[str, str] | None = None
    request_counts: _Counts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None


class _Listed(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Outcome(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


class OpenAIBatches:
    def __init__(self, endpoint: Endpoint, write: Write, path: str, holder: object) -> None:
        """`path` is where single requests go; deployments share one place for batches."""
        self._line = BatchLine(endpoint, write, holder)
        deployed = path.startswith(DEPLOYMENTS)
        self._root = "/openai" if deployed else ""
        self._url = f"/{path.removeprefix(DEPLOYMENTS).partition('/')[2]}" if deployed else f"/v1{path}"

    def check(self, request: Request) -> None:
        self._line.write(request)

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        body = {
            "input_file_id": await self._uploaded(requests),
            "endpoint": self._url,
            "completion_window": "24h",
            "metadata": {"peira": label},
        }
        return await self._line.hand_in(f"{self._root}/batches", body)

    async def _uploaded(self, requests: Mapping[str, Request]) -> str:
        lines = [
            {"custom_id": key, "method": "POST", "url": self._url, "body": self._line.write(request)}
            for key, request in requests.items()
        ]
        data, path = _form(b"\n".join(map(msgspec.json.encode, lines))), f"{self._root}/files"
        try:
            return read_as(await self._line.post(path, data, MULTIPART), Identified, path).id
        except CallFailed as problem:  # a file costs nothing, whatever became of it
            free = problem.free or problem.doubt
            raise CallFailed(
                str(problem), free=free, retry_after=problem.retry_after, status=problem.status
            ) from None

    async def find(self, label: str) -> str:
        query = {"limit": str(PAGE)}
        for _ in range(PAGES):
            path = f"{self._root}/batches"
            listed = read_as(await self._line.get(path, query), _Listed, path)
            for one in listed.data:
                if (one.metadata or {}).get("peira") == label:
                    return one.id
            if not listed.has_more or not listed.data:
                break
            query["after"] = listed.data[-1].id
        return ""

    async def look(self, batch: str) -> BatchState:
        said = await self._about(batch)
        counts = said.request_counts or _Counts()
        failure, busy = _failure(said)
        done = counts.completed + counts.failed
        return BatchState(said.status in OVER, done, counts.total, said.status, failure, busy)

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        said = await self._about(batch)
        found: dict[str, Answer | CallFailed] = {}
        for file in filter(None, (said.output_file_id, said.error_file_id)):
            path = f"{self._root}/files/{file}/content"
            for line in lines_of(await self._line.get(path), _Outcome, path):
                if (outcome := self._outcome(line)) is not None:
                    found[line.custom_id] = outcome
        return found

    def _outcome(self, line: _Outcome) -> Answer | CallFailed | None:
        if line.response is not None:
            status, body = line.response.status_code, bytes(line.response.body)
            return Answer(status, body, 0.0) if status == 200 else self._line.failed(self._url, status, body)
        error = line.error or _Error()
        if error.code == EXPIRED:
            return None
        return self._line.failed(self._url, 400, msgspec.json.encode(error))

    async def _about(self, batch: str) -> _Batch:
        path = f"{self._root}/batches/{batch}"
        return read_as(await self._line.get(path), _Batch, path)


def _failure(batch: _Batch) -> tuple[str, bool]:
    if batch.status == "cancelled":
        return CANCELLED, False
    if batch.status != "failed":
        return "", False
    errors = (batch.errors.data if batch.errors else None) or [_Error(message="it does not say why")]
    said = errors[0].message or errors[0].code or ""
    return said, errors[0].code == TOO_MUCH


def _form(file: bytes) -> bytes:
    """A body with the file, and what it is for."""
    purpose = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    head = 'Content-Disposition: form-data; name="file"; filename="batch.jsonl"'
    opening = f"--{BOUNDARY}\r\n{head}\r\nContent-Type: application/jsonl\r\n\r\n"
    return b"".join([purpose.encode(), opening.encode(), file, f"\r\n--{BOUNDARY}--\r\n".encode()])


def read_as(body: bytes, shape: type[Shape], path: str) -> Shape:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as problem:
        raise senseless(path, f"an answer of an unknown shape ({problem})") from None


def lines_of(body: bytes, shape: type[Shape], path: str) -> Iterator[Shape]:
    for line in body.splitlines():
        if line.strip():
            yield read_as(line, shape, path)
