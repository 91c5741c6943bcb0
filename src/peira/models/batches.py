"""Batch endpoints of OpenAI and Anthropic: many requests at once, answered within a day at half price.

Both classes implement `peira.core.models.Batches`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import msgspec

from peira.core.ids import Json
from peira.core.models import Answer, BatchState, Request, token_count
from peira.errors import CallFailed
from peira.models.content_filter import filtered_reply
from peira.models.http.endpoint import Endpoint
from peira.models.http.failures import refused, unreadable
from peira.models.http.request import HttpRequest, RequestHeaders
from peira.models.http.send import send

Write = Callable[[Request], dict[str, Json]]
Shape = TypeVar("Shape")
BOUNDARY = "peira-batch-boundary-6f1c2a"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
OVER = ("completed", "failed", "expired", "cancelled")
EXPIRED, CANCELLED = "batch_expired", "it was cancelled at the provider"
TOO_MUCH = "token_limit_exceeded"
"""More tokens are queued at the provider than it allows; it accepts the batch once others end."""
PAGE, PAGES = 100, 20
"""The number of batches listed per page, and of pages searched."""
MOST_RESULTS = 2**30
DEPLOYMENTS = "/openai/deployments/"


class Identified(msgspec.Struct):
    """An object of a provider that has an id."""

    id: str


@dataclass(frozen=True)
class BatchLine:
    """An endpoint for batches, and the function that writes a request's body.

    `holder` is the model for which the event loop's connections stay open.
    """

    endpoint: Endpoint
    write: Write
    holder: object

    async def post(self, path: str, body: bytes, content: str = "application/json") -> bytes:
        """POST a body; returns the answer's body, raises CallFailed."""
        return await self._send(self.endpoint.url(path), body, content)

    async def get(self, path: str, query: Mapping[str, str] = MappingProxyType({})) -> bytes:
        """GET a path; returns the answer's body, raises CallFailed."""
        return await self._send(self.endpoint.url(path, query), b"", "application/json")

    async def _send(self, url: str, body: bytes, content: str) -> bytes:
        """Send a request with the endpoint's headers; returns the answer's body."""

        def sent() -> RequestHeaders:
            endpoint_headers = self.endpoint.sent()
            return RequestHeaders(
                {**endpoint_headers.headers, "content-type": content}, endpoint_headers.secrets
            )

        post = HttpRequest(url, body, sent, self.endpoint.timeouts, most=MOST_RESULTS)
        answer = await send(post, self.holder)
        if answer.cut:
            raise unreadable(post.path, f"an answer of more than {post.most} bytes", answer.status)
        return answer.body

    async def hand_in(self, path: str, body: Json) -> str:
        """Submit a batch; returns the provider's id of it.

        An answer without an id is in doubt: the batch may have been accepted.
        """
        answer = await self.post(path, msgspec.json.encode(body))
        try:
            return read_as(answer, Identified, path).id
        except CallFailed as problem:
            raise CallFailed(str(problem), doubt=True) from None

    def failed(self, path: str, status: int, body: bytes) -> CallFailed:
        """The failure of one request in a batch; never in doubt, since failures are not billed."""
        problem = refused(path, status, {}, body, self.endpoint.sent().secrets)
        return CallFailed(str(problem), free=problem.free or problem.doubt, status=status)


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Errors(msgspec.Struct):
    data: list[_Error] | None = None


class _Batch(Identified):
    """A batch of OpenAI."""

    status: str
    metadata: Json = None
    request_counts: Json = None
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
    """One line of OpenAI's results."""

    custom_id: str
    response: _Response | None = None
    error: _Error | None = None

    def __post_init__(self) -> None:
        if self.response is None and self.error is None:
            raise ValueError("neither a response nor an error")


class OpenAIBatches:
    """The batch API of OpenAI and of Azure deployments."""

    def __init__(self, endpoint: Endpoint, write: Write, path: str, holder: object) -> None:
        """`path` is the path of single requests; all deployments share one path for batches."""
        self._line = BatchLine(endpoint, write, holder)
        deployed = path.startswith(DEPLOYMENTS)
        self._root = "/openai" if deployed else ""
        self._url = f"/{path.removeprefix(DEPLOYMENTS).partition('/')[2]}" if deployed else f"/v1{path}"

    def check(self, request: Request) -> None:
        """Raise CallFailed if the request cannot be written."""
        self._line.write(request)

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        """Upload the requests as a file and start a batch labelled `label`; returns its id."""
        body = {
            "input_file_id": await self._uploaded(requests),
            "endpoint": self._url,
            "completion_window": "24h",
            "metadata": {"peira": label},
        }
        return await self._line.hand_in(f"{self._root}/batches", body)

    async def _uploaded(self, requests: Mapping[str, Request]) -> str:
        """Upload the requests as a file of JSON lines; returns the file's id.

        Never in doubt: an uploaded file costs nothing.
        """
        lines = [
            {"custom_id": key, "method": "POST", "url": self._url, "body": self._line.write(request)}
            for key, request in requests.items()
        ]
        data, path = _form(b"\n".join(map(msgspec.json.encode, lines))), f"{self._root}/files"
        try:
            return read_as(await self._line.post(path, data, MULTIPART), Identified, path).id
        except CallFailed as problem:  # an uploaded file costs nothing, so this is never in doubt
            free = problem.free or problem.doubt
            raise CallFailed(
                str(problem), free=free, retry_after=problem.retry_after, status=problem.status
            ) from None

    async def find(self, label: str) -> str:
        """The id of the batch with this label; "" if there is none among the latest."""
        query = {"limit": str(PAGE)}
        for _ in range(PAGES):
            path = f"{self._root}/batches"
            listed = read_as(await self._line.get(path, query), _Listed, path)
            for one in listed.data:
                if isinstance(one.metadata, dict) and one.metadata.get("peira") == label:
                    return one.id
            if not listed.has_more or not listed.data:
                break
            query["after"] = listed.data[-1].id
        return ""

    async def look(self, batch: str) -> BatchState:
        said = await self._about(batch)
        total, *done = counts_in(said.request_counts, "total", "completed", "failed")
        failure, busy = _failure(said)
        return BatchState(said.status in OVER, sum(done), total, said.status, failure, busy)

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        """The outcomes by key; requests without one (expired) are left out."""
        reported = await self._about(batch)
        found: dict[str, Answer | CallFailed] = {}
        for file in filter(None, (reported.output_file_id, reported.error_file_id)):
            path = f"{self._root}/files/{file}/content"
            for line in lines_of(await self._line.get(path), _Outcome, path):
                if isinstance(line, UnreadableLine):
                    found[line.custom_id] = line.outcome
                elif (outcome := self._outcome(line)) is not None:
                    found[line.custom_id] = outcome
        return found

    def _outcome(self, line: _Outcome) -> Answer | CallFailed | None:
        """The outcome in one line of results; None if the request expired."""
        if line.response is not None:
            status, body = line.response.status_code, bytes(line.response.body)
            answered = status == 200 or filtered_reply(status, body) is not None
            return Answer(status, body, 0.0) if answered else self._line.failed(self._url, status, body)
        error = line.error or _Error()
        if error.code == EXPIRED:
            return None
        return self._line.failed(self._url, 400, msgspec.json.encode(error))

    async def _about(self, batch: str) -> _Batch:
        """The batch as the provider describes it."""
        path = f"{self._root}/batches/{batch}"
        return read_as(await self._line.get(path), _Batch, path)


def _failure(batch: _Batch) -> tuple[str, bool]:
    """Why a batch failed ("" if it did not), and whether the provider was busy."""
    if batch.status == "cancelled":
        return CANCELLED, False
    if batch.status != "failed":
        return "", False
    errors = (batch.errors.data if batch.errors else None) or [_Error(message="it does not say why")]
    reported = errors[0].message or errors[0].code or ""
    return reported, errors[0].code == TOO_MUCH


def _form(file: bytes) -> bytes:
    """A multipart body with the file and its purpose."""
    purpose = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    head = 'Content-Disposition: form-data; name="file"; filename="batch.jsonl"'
    opening = f"--{BOUNDARY}\r\n{head}\r\nContent-Type: application/jsonl\r\n\r\n"
    return b"".join([purpose.encode(), opening.encode(), file, f"\r\n--{BOUNDARY}--\r\n".encode()])


def read_as(body: bytes, shape: type[Shape], path: str) -> Shape:
    """Decode a body; CallFailed if it has another shape."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise unreadable(path, f"an answer of an unknown shape ({problem})") from None


def counts_in(said: Json, *names: str) -> list[int]:
    """These counts, used for progress only; 0 for what is missing or no number."""
    found = said if isinstance(said, dict) else {}
    return [token_count(found.get(name)) or 0 for name in names]


_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([^"\\]+)"')


@dataclass(frozen=True)
class UnreadableLine:
    """A line of results that is of an unknown shape. Its request was probably worked on and billed: the line
    is its answer, which cannot be read. `custom_id` is "" if the line does not even say whose it is: then all
    requests that have no line of their own are in doubt."""

    custom_id: str
    outcome: Answer | CallFailed


def lines_of(body: bytes, shape: type[Shape], path: str) -> Iterator[Shape | UnreadableLine]:
    """The lines of a file of results: one that cannot be read costs that line."""
    for line in filter(bytes.strip, body.split(b"\n")):
        try:
            yield read_as(line, shape, path)
        except CallFailed as problem:
            if found := _CUSTOM_ID.search(line):
                yield UnreadableLine(found[1].decode(errors="replace"), Answer(200, line, 0.0))
            else:
                said = f"a line of its batch's results does not say whose it is: {problem}"
                yield UnreadableLine("", CallFailed(said, doubt=True))


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
"""The HTTP statuses that correspond to Anthropic's types of errors."""


class _MessageBatch(Identified):
    """A batch of Anthropic."""

    processing_status: str
    request_counts: Json = None


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Json] | None = None


class _ResultLine(msgspec.Struct):
    """One line of Anthropic's results."""

    custom_id: str
    result: _Result


class AnthropicBatches:
    """The message batches API of Anthropic."""

    _path = "/v1/messages/batches"

    def __init__(self, endpoint: Endpoint, write: Write, holder: object) -> None:
        self._line = BatchLine(endpoint, write, holder)

    def check(self, request: Request) -> None:
        """Raise CallFailed if the request cannot be written."""
        self._line.write(request)

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        """Start a batch; returns its id. The label is not used: batches have none here."""
        written = [{"custom_id": key, "params": self._line.write(one)} for key, one in requests.items()]
        return await self._line.hand_in(self._path, {"requests": written})

    async def find(self, label: str) -> str:
        """Always raises CallFailed: batches have no labels to search for."""
        raise unreadable(self._path, "batches carry no labels here")

    async def look(self, batch: str) -> BatchState:
        """The state of a batch."""
        path = f"{self._path}/{batch}"
        said = read_as(await self._line.get(path), _MessageBatch, path)
        processing, *ended = counts_in(
            said.request_counts, "processing", "succeeded", "errored", "canceled", "expired"
        )
        done, status = sum(ended), said.processing_status
        return BatchState(status == "ended", done, done + processing, status)

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        """The outcomes by key; expired requests are left out."""
        path = f"{self._path}/{batch}/results"
        found: dict[str, Answer | CallFailed] = {}
        for line in lines_of(await self._line.get(path), _ResultLine, path):
            outcome = line.outcome if isinstance(line, UnreadableLine) else self._outcome(line.result)
            if outcome is not None:
                found[line.custom_id] = outcome
        return found

    def _outcome(self, result: _Result) -> Answer | CallFailed | None:
        """The outcome of one request; None if it expired."""
        if result.type == "succeeded":
            return Answer(200, bytes(result.message), 0.0)
        if result.type == "canceled":
            return CallFailed(f"{self._path}: {CANCELLED}")
        if result.type == "expired":
            return None
        error = result.error or {}
        inner = error.get("error") or error
        kind = str(inner.get("type", "")) if isinstance(inner, dict) else ""
        return self._line.failed("/v1/messages", ERRORS.get(kind, 400), msgspec.json.encode(error))
