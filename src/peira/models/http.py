"""One POST to an endpoint: sent once, answered once, and every other ending said in a word about the bill.

There is one pool of connections for each event loop, shared by all models; it lives as long as somebody holds
it. Nothing is ever sent again from here, redirects are not followed, and the key is in no exception.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from peira.core.models import Answer, CallFailed
from peira.models.failures import lost, refused, senseless, unsent
from peira.models.post import Post, Sent
from peira.models.secrets import HIDDEN
from peira.models.stream import StreamBroken, gathered
from peira.models.waiting import retry_after
from peira.models.wire import Came, Unconnected, Wire

if TYPE_CHECKING:
    import aiohttp

CHUNK = 2**16
TELLING = ("request-id", "x-request-id", "apim-request-id", "retry-after", "retry-after-ms", "date")
_wires: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Wire] = weakref.WeakKeyDictionary()


async def release(holder: object) -> None:
    """The holder sends nothing more on this loop; the last one closes its connections."""
    loop = asyncio.get_running_loop()
    wire = _wires.get(loop)
    if wire is None:
        return
    wire.holders.discard(id(holder))
    if not wire.holders:
        del _wires[loop]
        await wire.close()


def _wire(holder: object) -> Wire:
    loop = asyncio.get_running_loop()
    wire = _wires.get(loop)
    if wire is None:
        wire = _wires[loop] = Wire()
    wire.holders.add(id(holder))
    return wire


async def send(post: Post, holder: object) -> Answer:
    """The answer, whatever it says, if its status is 2xx; else CallFailed."""
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    sent = post.sent()
    try:
        outcome = await _exchange(post, sent, _wire(holder))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, Unconnected) as problem:
        outcome = unsent(post.path, _why(problem, post), sent.secrets)
    except aiohttp.InvalidURL:
        outcome = senseless(post.path, "the base URL is not a URL")
    except (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError, StreamBroken) as problem:
        outcome = lost(post.path, _why(problem, post), sent.secrets)
    if isinstance(outcome, CallFailed):  # here, where no exception that knows the headers hangs on to it
        raise outcome
    return outcome


async def _exchange(post: Post, sent: Sent, wire: Wire) -> Answer | CallFailed:
    began = time.perf_counter()
    came = await wire.begin(post, sent)
    try:
        headers = telling(came.headers)
        if not 200 <= came.status < 300:
            return refused(post.path, came.status, headers, await _beginning(came.content), sent.secrets)
        body, first = await _read(came, post)
    finally:
        came.leave(came.content.at_eof())
    if len(body) > post.most:
        return senseless(post.path, f"an answer of more than {post.most} bytes", came.status)
    for secret in sent.secrets:
        body = body.replace(secret.encode(), HIDDEN.encode())
    now = time.perf_counter()
    first = None if first is None else first - began
    return Answer(came.status, body, now - began, first, kept(headers, sent.secrets), retry_after(headers))


async def _read(came: Came, post: Post) -> tuple[bytes, float | None]:
    """The body, and when a stream began to speak. Beyond the limit, what came until then."""
    if post.gather is not None and "event-stream" in came.headers.get("Content-Type", ""):
        return await gathered(came.content, post.gather, post.most)
    return await _whole(came.content, post.most), None


async def _whole(content: aiohttp.StreamReader, most: int) -> bytes:
    if content.is_eof():  # as a short answer is by the time its head was read
        return content.read_nowait()
    parts, size = [], 0
    async for part in content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            break
    return b"".join(parts)


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """As much of a refusal as came: its status alone already says what it means."""
    import aiohttp

    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        return await content.read(CHUNK)
    return b""


def telling(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers about limits, ids and time, by lower-case name."""
    named = ((name.lower(), value) for name, value in headers.items())
    return {name: value for name, value in named if name in TELLING or "ratelimit" in name}


def kept(headers: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    """Those of them that are kept with an answer."""
    found = {n: v[:200] for n, v in headers.items() if n != "date"}
    return {n: v for n, v in found.items() if not any(s in v for s in secrets)}


def _why(problem: BaseException, post: Post) -> str:
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    from peira.models.line import Silence

    if isinstance(problem, aiohttp.ConnectionTimeoutError):
        return f"no connection within {post.timeouts.connect:g} s"
    if isinstance(problem, (aiohttp.SocketTimeoutError, Silence)):
        return f"nothing came for {post.timeouts.first_byte:g} s"
    if isinstance(problem, TimeoutError):
        return f"not complete within {post.timeouts.total:g} s"
    if isinstance(problem, HttpProcessingError):
        return "what came is not HTTP"
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "the server hung up"
    if isinstance(problem, aiohttp.ClientPayloadError):
        return "the connection broke in the middle of the answer"
    if isinstance(problem, aiohttp.ClientOSError) and not isinstance(problem, aiohttp.ClientConnectorError):
        return "the connection broke"
    return str(problem) or type(problem).__name__
