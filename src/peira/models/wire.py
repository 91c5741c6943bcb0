"""The connections of one event loop, and a request on one of them.

Connections are aiohttp's: it finds hosts, makes and keeps connections, and parses what comes. Requests are
written to them as they are: a call needs no cookies, redirects, traces and timers, and those of a session
cost as much as all the rest. Only what goes through a proxy is sent by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peira.models.post import Post, Sent, Timeouts

if TYPE_CHECKING:
    import aiohttp

KEEP_ALIVE = 4.0
"""Shorter than the 5 s after which common servers hang up: what is sent into that moment is in doubt."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ONE_USE = b"connection: close\r\n"
"""For streams: llama.cpp hangs up after each without a word, and what is sent next would be in doubt."""
LOOK = 0.1
"""How often, in seconds, is looked for what takes too long: a timer for each call costs a tenth of it."""
BUFFER = 2**18
SWITCHING = 101
AUTOMATIC = ("Host", "Accept", "Accept-Encoding", "User-Agent")


class Unconnected(Exception):
    """There was no connection in time: nothing was sent."""


class Silence(TimeoutError):
    """Nothing came for too long."""


class Target(NamedTuple):
    """A URL as a connection is made to it, and the lines that each request there begins with."""

    request: aiohttp.ClientRequest
    start: bytes


class Came(Protocol):
    """An answer whose head is there."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader

    def end(self, whole: bool) -> None:
        """Nothing more is read of it; `whole`, if everything was."""
        ...


class Wire:
    """All that is under way on one event loop."""

    def __init__(self) -> None:
        import aiohttp  # slow, and not needed before the first call

        # The engine limits concurrency for each model: connections themselves never make a call wait.
        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE)
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._targets: dict[str, Target] = {}
        self._session: aiohttp.ClientSession | None = None
        self._watched: set[Exchange] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.holders: set[int] = set()

    async def begin(self, post: Post, sent: Sent) -> Came:
        """Send, and wait for the head of an answer."""
        if proxy := _proxy(post.url):
            return await self._through(proxy, post, sent)
        target = self._targets.get(post.url) or self._target(post)
        exchange = Exchange(self, await self._connect(target, post.timeouts), post.timeouts)
        self._watch(exchange)
        try:
            await exchange.ask(post, sent, target)
        except BaseException:
            exchange.end(whole=False)
            raise
        return exchange

    def _target(self, post: Post) -> Target:
        import aiohttp
        from yarl import URL

        try:
            request = aiohttp.ClientRequest(post.method, URL(post.url), loop=self._loop)
        except ValueError:
            raise aiohttp.InvalidURL(post.url) from None
        lines = "".join(f"{name}: {request.headers[name]}\r\n" for name in AUTOMATIC)
        start = f"{post.method} {request.url.raw_path_qs} HTTP/1.1\r\n{lines}".encode()
        target = Target(request, start)
        if post.body:  # the others, about batches, are of very many URLs
            self._targets[post.url] = target
        return target

    async def _connect(self, target: Target, timeouts: Timeouts) -> aiohttp.connector.Connection:
        try:
            return await self._connector.connect(target.request, traces=[], timeout=_limits(timeouts))
        except TimeoutError:
            raise Unconnected(f"no connection within {timeouts.connect:g} s") from None

    async def _through(self, proxy: str, post: Post, sent: Sent) -> Came:
        import aiohttp

        if self._session is None:
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(
                connector=self._connector, connector_owner=False, cookie_jar=jar
            )
        response = await self._session.request(
            post.method,
            post.url,
            data=post.body or None,
            headers={**sent.headers, "connection": "close"} if post.gather else sent.headers,
            timeout=_limits(post.timeouts),
            allow_redirects=False,
            proxy=proxy,
        )
        return Proxied(response)

    def _watch(self, exchange: Exchange) -> None:
        self._watched.add(exchange)
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        for exchange in self._watched:
            exchange.look(now)
        self._timer = self._loop.call_later(LOOK, self._look) if self._watched else None

    def forget(self, exchange: Exchange) -> None:
        self._watched.discard(exchange)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._session is not None:
            await self._session.close()
        await self._connector.close()


class Exchange:
    """One request on a connection, and its answer: `Came`, once its head is there."""

    __slots__ = (
        "_connection",
        "_due",
        "_heard",
        "_seen",
        "_silence",
        "_wire",
        "content",
        "headers",
        "status",
    )
    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader

    def __init__(self, wire: Wire, connection: aiohttp.connector.Connection, timeouts: Timeouts) -> None:
        self._wire, self._connection, self.status = wire, connection, 0
        self._heard = wire.now()
        self._due, self._silence, self._seen = self._heard + timeouts.total, timeouts.first_byte, 0

    async def ask(self, post: Post, sent: Sent, target: Target) -> None:
        protocol, transport = self._connection.protocol, self._connection.transport
        assert protocol is not None
        assert transport is not None
        protocol.set_response_params(read_until_eof=True, read_bufsize=BUFFER)
        transport.write(_written(post, sent, target))
        while self.status < 200 and self.status != SWITCHING:  # until then it only says that it goes on
            message, self.content = await protocol.read()
            self.status, self.headers = message.code, message.headers

    def look(self, now: float) -> None:
        """End what is late. It is heard of when there is more of its body than there was."""
        if self.status and self.content.total_bytes != self._seen:
            self._seen, self._heard = self.content.total_bytes, now
        if now >= self._due:
            self._fail(TimeoutError())
        elif now >= self._heard + self._silence:
            self._fail(Silence())

    def _fail(self, problem: Exception) -> None:
        if (protocol := self._connection.protocol) is not None:
            protocol.set_exception(problem)
        if self.status:
            self.content.set_exception(problem)

    def end(self, whole: bool) -> None:
        """A connection is kept only if nothing more can come on it, and nothing more is to be sent."""
        self._wire.forget(self)
        transport = self._connection.transport
        if whole and transport is not None and not transport.get_write_buffer_size():
            self._connection.release()
        else:
            self._connection.close()


class Proxied:
    """What came through a proxy."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status, self.content = response.status, response.content
        self.headers: Mapping[str, str] = response.headers

    def end(self, whole: bool) -> None:
        if whole:
            self._response.release()
        else:
            self._response.close()


def _written(post: Post, sent: Sent, target: Target) -> bytes:
    last = ONE_USE if post.gather else b""
    length = b"content-length: %d\r\n" % len(post.body) if post.body else b""
    return b"%b%b%b%b\r\n%b" % (target.start, sent.lines, last, length, post.body)


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
