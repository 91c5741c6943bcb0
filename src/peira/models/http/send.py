"""Send one request, once, and read its answer; a failure says whether it may have been billed."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from peira.core.models import Answer
from peira.core.text.secrets import exposed
from peira.errors import CallFailed, ReadTimeout, StreamBroken, Unconnected, Undecodable
from peira.models.content_filter import filtered_reply
from peira.models.http.encoding import ENCODED, DecodedContent, beginning, encoding_of
from peira.models.http.failures import lost, refused, retry_after, unreadable, unsent
from peira.models.http.pool import ConnectionPool, ResponseHead
from peira.models.http.request import HttpRequest, RequestHeaders, ResponseBody, gathered

if TYPE_CHECKING:
    import aiohttp

CHUNK = 2**16
KEPT = 2**20
"""Bytes that are kept of an answer that is too large: enough to see what it was."""
TELLING = ("request-id", "x-request-id", "apim-request-id", "retry-after", "retry-after-ms", "date")
"""Headers that are read, beside those about rate limits."""
_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ConnectionPool] = weakref.WeakKeyDictionary()


async def release(holder: object) -> None:
    """The holder sends no more on this loop; the last holder closes the loop's connections."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        return
    pool.holders.discard(id(holder))
    if not pool.holders:
        del _pools[loop]
        await pool.close()


def _pool(holder: object) -> ConnectionPool:
    """The connection pool of the running event loop, made on first use."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = ConnectionPool()
    pool.holders.add(id(holder))
    return pool


async def send(post: HttpRequest, holder: object) -> Answer:
    """Send a request once; the raw answer if its status is 2xx, otherwise CallFailed.

    The failure is `free` if nothing was sent, in `doubt` if it was sent and no complete answer arrived.
    Nothing is retried here: that is decided by the engine.
    """
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    sent = post.sent()
    try:
        outcome = await _exchange(post, sent, _pool(holder))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, Unconnected) as problem:
        outcome = unsent(post.path, _why(problem, post), sent.secrets)
    except aiohttp.InvalidURL:
        outcome = unreadable(post.path, "the base URL is not a URL")
    except (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError, StreamBroken) as problem:
        outcome = lost(post.path, _why(problem, post), sent.secrets)
    if isinstance(outcome, CallFailed):  # raised here, so that no exception with the headers is chained
        raise outcome
    return outcome


async def _exchange(post: HttpRequest, sent: RequestHeaders, pool: ConnectionPool) -> Answer | CallFailed:
    """One request and its answer, which says where secrets stand in it."""
    began = time.perf_counter()
    head = await pool.begin(post, sent)
    try:
        headers = limit_headers(head.headers)
        if not 200 <= head.status < 300:
            said = beginning(await _beginning(head.content), encoding_of(head.headers), CHUNK)
            if filtered_reply(head.status, said) is not None:
                took, kept = time.perf_counter() - began, kept_headers(headers, sent.secrets)
                return Answer(head.status, said, took, None, kept, None, False, exposed(said, sent.secrets))
            return refused(post.path, head.status, headers, said, sent.secrets)
        try:
            body, first = await _read(head, post)
        except Undecodable as broken:  # it was paid for, and is recorded as it came
            body, first = broken.raw, None
            headers[ENCODED] = encoding_of(head.headers)
    finally:
        head.leave(head.content.at_eof())
    cut = len(body) > post.most
    now = time.perf_counter()
    first = None if first is None else first - began
    kept = kept_headers(headers, sent.secrets)
    body = body[:KEPT] if cut else body
    found = exposed(body, sent.secrets)
    return Answer(head.status, body, now - began, first, kept, retry_after(headers), cut, found)


async def _read(head: ResponseHead, post: HttpRequest) -> tuple[bytes, float | None]:
    """The body, and the time of a stream's first output. Beyond the limit, what arrived so far.

    Undecodable is raised for a body that cannot be decoded.
    """
    encoding = encoding_of(head.headers)
    content = DecodedContent(head.content, encoding, post.most) if encoding else head.content
    if post.gather is not None and "event-stream" in head.headers.get("Content-Type", ""):
        return await gathered(content, post.gather, post.most)
    if not encoding and head.content.is_eof():  # a short answer arrives together with its head
        return head.content.read_nowait(), None
    return await _read_whole(content, post.most), None


async def _read_whole(content: ResponseBody, most: int) -> bytes:
    """The whole body, at most a little more than `most` bytes."""
    parts, size = [], 0
    async for part in content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            break
    return b"".join(parts)


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """The beginning of a refusal's body; its status alone is enough if it breaks off."""
    import aiohttp

    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        return await content.read(CHUNK)
    return b""


def limit_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers about rate limits, ids and time, by lower-case names."""
    found = {}
    for given, value in headers.items():
        name = given.lower()
        if name in TELLING or "ratelimit" in name:
            found[name] = value
    return found


def kept_headers(headers: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    """Those of them that are kept with an answer."""
    kept = {}
    for name, given in headers.items():
        value = given[:200].encode(errors="replace").decode()
        if name != "date" and not any(secret in value for secret in secrets):
            kept[name] = value
    return kept


def _why(problem: BaseException, post: HttpRequest) -> str:
    """The reason of a failure, for messages."""
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    if isinstance(problem, aiohttp.ConnectionTimeoutError):
        return f"no connection within {post.timeouts.connect:g} s"
    if isinstance(problem, (aiohttp.SocketTimeoutError, ReadTimeout)):
        return f"nothing came for {post.timeouts.first_byte:g} s"
    if isinstance(problem, TimeoutError):
        return f"not complete within {post.timeouts.total:g} s"
    if isinstance(problem, HttpProcessingError) or type(problem) is aiohttp.ClientResponseError:
        return "what came is not HTTP"
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "the server hung up"
    if isinstance(problem, aiohttp.ClientPayloadError):
        return "the connection broke in the middle of the answer"
    if isinstance(problem, aiohttp.ClientOSError) and not isinstance(problem, aiohttp.ClientConnectorError):
        return "the connection broke"
    return str(problem) or type(problem).__name__
