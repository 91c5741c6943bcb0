"""The connections of one event loop, and what is under way on them.

A call needs no cookies, redirects, traces and timers, and those of a session cost as much as all the rest:
connections are made by aiohttp, and requests are written to them as they are. Only what goes through a proxy
is sent by a session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peira.models.post import Post, Sent, Timeouts

if TYPE_CHECKING:
    import aiohttp

    from peira.models.line import Line

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LOOK = 0.1
"""How often, in seconds, is looked for what takes too long: a timer for each call costs a tenth of it."""
AUTOMATIC = ("Host", "Accept", "Accept-Encoding", "User-Agent")


class Unconnected(Exception):
    """There was no connection in time: nothing was sent."""


class Target(NamedTuple):
    """A URL as aiohttp connects to it, how each request there begins, and the lines to it that are free.
    Those of questions are kept; the others, about batches, are of very many URLs."""

    request: aiohttp.ClientRequest
    start: bytes
    kept: bool
    free: deque[Line]

    def line(self, now: float) -> Line | None:
        """The one that was used last, if it still serves."""
        while self.free:
            line = self.free.pop()
            if line.serves(now):
                return line
            line.hang_up()
        return None

    def tidy(self, now: float) -> None:
        """Let go of those that nobody has used for long."""
        while self.free and not self.free[0].serves(now):
            self.free.popleft().hang_up()


class Came(NamedTuple):
    """An answer whose head is there. Whoever has read enough of it says so, and whether that is all."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader
    leave: Callable[[bool], None]


class Wire:
    """All that is under way on one event loop."""

    def __init__(self) -> None:
        import aiohttp  # slow, and not needed before the first call

        from peira.models.line import KEEP_ALIVE

        # The engine limits concurrency for each model: connections themselves never make a call wait.
        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE)
        self._loop = asyncio.get_running_loop()
        self._targets: dict[str, Target] = {}
        self._session: aiohttp.ClientSession | None = None
        self._busy: dict[Line, Target] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.holders: set[int] = set()

    async def begin(self, post: Post, sent: Sent) -> Came:
        """Send, and wait for the head of an answer."""
        if proxy := _proxy(post.url):
            return await self._through(proxy, post, sent)
        target = self._targets.get(post.url) or self._target(post)
        began = self._loop.time()
        if (line := target.line(began)) is None:
            line = await self._connect(target, post.timeouts)
        self._busy[line] = target
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK, self._look)
        leave = partial(self._leave, line)
        try:
            await line.ask(post, sent, target.start, began)
        except BaseException:
            leave(False)
            raise
        return Came(line.status, line.headers, line.content, leave)

    def _leave(self, line: Line, whole: bool) -> None:
        target = self._busy.pop(line)
        if whole and target.kept and line.rests(self._loop.time()):
            target.free.append(line)
        else:
            line.hang_up()

    def _target(self, post: Post) -> Target:
        import aiohttp
        from yarl import URL

        try:
            request = aiohttp.ClientRequest(post.method, URL(post.url), loop=self._loop)
        except ValueError:
            raise aiohttp.InvalidURL(post.url) from None
        lines = "".join(f"{name}: {request.headers[name]}\r\n" for name in AUTOMATIC)
        start = f"{post.method} {request.url.raw_path_qs} HTTP/1.1\r\n{lines}".encode()
        target = Target(request, start, bool(post.body), deque())
        if target.kept:
            self._targets[post.url] = target
        return target

    async def _connect(self, target: Target, timeouts: Timeouts) -> Line:
        from peira.models.line import Line

        try:
            connection = await self._connector.connect(target.request, traces=[], timeout=_limits(timeouts))
        except TimeoutError:
            raise Unconnected(f"no connection within {timeouts.connect:g} s") from None
        return Line(connection, self._loop)

    def _look(self) -> None:
        now = self._loop.time()
        for line in self._busy:
            line.look(now)
        for target in self._targets.values():
            target.tidy(now)
        used = self._busy or any(target.free for target in self._targets.values())
        self._timer = self._loop.call_later(LOOK, self._look) if used else None

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
        leave = partial(_leave_proxied, response)
        return Came(response.status, response.headers, response.content, leave)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for target in self._targets.values():
            while target.free:
                target.free.pop().hang_up()
        if self._session is not None:
            await self._session.close()
        await self._connector.close()


def _leave_proxied(response: aiohttp.ClientResponse, whole: bool) -> None:
    if whole:
        response.release()
    else:
        response.close()


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
