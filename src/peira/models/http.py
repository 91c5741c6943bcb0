"""One POST to an endpoint: sent once, answered once, and every other ending said in a word about the bill.

There is one pool of connections for each event loop, shared by all models; it lives as long as somebody holds
it. Nothing is ever sent again from here, redirects are not followed, and the key is in no exception: failures
are values until the one place that raises them, so that no aiohttp exception, which knows the headers, hangs
on to them.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peira.core.models import Answer, CallFailed
from peira.models.failures import lost, refused, senseless, unsent
from peira.models.secrets import HIDDEN
from peira.models.stream import Gather, StreamBroken, gathered
from peira.models.waiting import retry_after

if TYPE_CHECKING:
    import aiohttp

KEEP_ALIVE = 4.0
"""Shorter than the 5 s after which common servers hang up: what is sent into that moment is in doubt."""
MAX_BODY = 64 * 2**20
CHUNK = 2**16
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ONE_USE = {"connection": "close"}
"""For streams: llama.cpp hangs up after each without a word, and what is sent next would be in doubt."""
KEPT = ("request-id", "x-request-id", "apim-request-id", "retry-after", "retry-after-ms")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect`: until there is a connection (nothing was sent yet). `first_byte`: the longest
    silence, before the first byte or after any. `total`: from the start to the last byte."""

    connect: float = 10.0
    first_byte: float = 600.0
    total: float = 900.0


DEFAULT = Timeouts()


class Sent:
    """The headers of one send, and what of them, and of the URL, may be shown nowhere."""

    __slots__ = ("headers", "secrets")

    def __init__(self, headers: dict[str, str], secrets: tuple[str, ...]) -> None:
        self.headers, self.secrets = headers, tuple(filter(None, secrets))


@dataclass(frozen=True, slots=True)
class Post:
    """What is to be sent: a GET without a body, else a POST. `sent` is asked for at the last moment, and what
    it says is kept nowhere."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    sent: Callable[[], Sent] = field(repr=False)
    timeouts: Timeouts = DEFAULT
    gather: Gather | None = None
    """What makes one body of a stream's events; None if the answer comes in one piece."""
    most: int = MAX_BODY
    """How many bytes an answer may have."""

    @property
    def path(self) -> str:
        return urlsplit(self.url).path


class _Pool:
    def __init__(self) -> None:
        import aiohttp  # slow, and not needed before the first call

        # The engine limits concurrency for each model: the pool itself never makes a call wait.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE)
        self.session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        self.holders: set[int] = set()


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = weakref.WeakKeyDictionary()


async def release(holder: object) -> None:
    """The holder sends nothing more on this loop; the last one closes the pool."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        return
    pool.holders.discard(id(holder))
    if not pool.holders:
        del _pools[loop]
        await pool.session.close()


def _pool(holder: object) -> _Pool:
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = _Pool()
    pool.holders.add(id(holder))
    return pool


async def send(post: Post, holder: object) -> Answer:
    """The answer, whatever it says, if its status is 2xx; else CallFailed."""
    outcome = await _outcome(post, post.sent(), _pool(holder).session)
    if isinstance(outcome, CallFailed):
        raise outcome
    return outcome


async def _outcome(post: Post, sent: Sent, session: aiohttp.ClientSession) -> Answer | CallFailed:
    import aiohttp

    try:
        return await _exchange(post, sent, session)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
        return unsent(post.path, _why(problem, post), sent.secrets)
    except aiohttp.InvalidURL:
        return senseless(post.path, "the base URL is not a URL")
    except (aiohttp.ClientError, TimeoutError, OSError, StreamBroken) as problem:
        return lost(post.path, _why(problem, post), sent.secrets)


async def _exchange(post: Post, sent: Sent, session: aiohttp.ClientSession) -> Answer | CallFailed:
    began = time.perf_counter()
    first: float | None = None
    async with session.request(
        "POST" if post.body else "GET",
        post.url,
        data=_payload(post.body) if post.body else None,
        headers=sent.headers | ONE_USE if post.gather else sent.headers,
        timeout=_limits(post.timeouts),
        allow_redirects=False,
        proxy=_proxy(post.url),
    ) as response:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if not 200 <= response.status < 300:
            return refused(post.path, response.status, headers, await _beginning(response), sent.secrets)
        if post.gather is not None and "event-stream" in response.content_type:
            body, spoke = await gathered(response.content, post.gather, post.most)
            first = None if spoke is None else spoke - began
        else:
            body = await _whole(response, post.most)
    if len(body) > post.most:
        return senseless(post.path, f"an answer of more than {post.most} bytes", response.status)
    for secret in sent.secrets:
        body = body.replace(secret.encode(), HIDDEN.encode())
    took = time.perf_counter() - began
    return Answer(response.status, body, took, first, kept(headers, sent.secrets), retry_after(headers))


def _payload(body: bytes) -> aiohttp.BytesPayload:
    """Made here: aiohttp would first look for what could be made of bytes."""
    import aiohttp

    return aiohttp.BytesPayload(body, content_type="application/json")


async def _whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            response.close()
            break
    return b"".join(parts)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """As much of a refusal as came: its status alone already says what it means."""
    import aiohttp

    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        return await response.content.read(CHUNK)
    return b""


def kept(headers: Mapping[str, str], secrets: tuple[str, ...] = ()) -> dict[str, str]:
    """The headers about limits and ids, by lower-case name."""
    found = {n: v[:200] for n, v in headers.items() if n in KEPT or "ratelimit" in n}
    return {n: v for n, v in found.items() if not any(s in v for s in secrets)}


@lru_cache(64)
def _limits(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    import aiohttp

    connect = min(timeouts.connect, timeouts.total)
    return aiohttp.ClientTimeout(total=timeouts.total, connect=connect, sock_read=timeouts.first_byte)


@lru_cache(64)
def _proxy(url: str) -> str | None:
    """The proxy of the environment; never for this machine itself."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in LOOPBACK or not (proxies := getproxies()) or proxy_bypass(host):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def _why(problem: BaseException, post: Post) -> str:
    import aiohttp

    if isinstance(problem, aiohttp.ConnectionTimeoutError):
        return f"no connection within {post.timeouts.connect:g} s"
    if isinstance(problem, aiohttp.SocketTimeoutError):
        return f"nothing came for {post.timeouts.first_byte:g} s"
    if isinstance(problem, TimeoutError):
        return f"not complete within {post.timeouts.total:g} s"
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "the server hung up"
    if isinstance(problem, aiohttp.ClientPayloadError):
        return "the connection broke in the middle of the answer"
    if isinstance(problem, aiohttp.ClientOSError) and not isinstance(problem, aiohttp.ClientConnectorError):
        return "the connection broke"
    return str(problem) or type(problem).__name__
