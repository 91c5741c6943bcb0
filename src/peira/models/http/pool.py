"""The connection pool of one event loop, and the requests under way on it.

There are two ways to send: "direct" uses `HttpConnection` on aiohttp's connector; "session" uses plain
sessions of aiohttp, which is slower, for proxies and where aiohttp's internals have changed. The environment
variable PEIRA_HTTP forces one of them.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peira.errors import Invalid, Unconnected
from peira.models.http.encoding import ACCEPTED
from peira.models.http.request import KEEP_ALIVE, HttpRequest, RequestHeaders, Timeouts

if TYPE_CHECKING:
    import aiohttp

    from peira.models.http.connection import HttpConnection

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LOOK = 0.1
"""The interval in seconds of checks for timeouts; one timer per call would cost a tenth of a call."""
LARGE = 2**20
"""Bodies of more bytes are given to a session as a file, which it sends in chunks."""
WAY = "PEIRA_HTTP"
DIRECT, SESSION = "direct", "session"
CHANGED = (ImportError, AttributeError, TypeError, NotImplementedError)
"""Exceptions raised by private parts of aiohttp that were removed or changed their arguments."""
log = logging.getLogger("peira")
AUTOMATIC = ("Host", "Accept")
"""Headers that aiohttp makes for a URL; the endpoint adds all others."""


class ConnectionTarget(NamedTuple):
    """A URL, the beginning of every request to it, and its idle connections.

    Only targets of POSTs are kept: the URLs of batches are very many.
    """

    request: aiohttp.ClientRequest
    start: bytes
    kept: bool
    free: deque[HttpConnection]

    def line(self, now: float) -> HttpConnection | None:
        """The idle connection that was used last, if it still works."""
        while self.free:
            line = self.free.pop()
            if line.serves(now):
                return line
            line.hang_up()
        return None

    def tidy(self, now: float) -> None:
        """Close connections that were idle for too long."""
        while self.free and not self.free[0].serves(now):
            self.free.popleft().hang_up()


class ResponseHead(NamedTuple):
    """The head of an answer. `leave` must be called after reading, with whether it was read to its end."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader
    leave: Callable[[bool], None]


class ConnectionPool:
    """All connections and requests on one event loop; not thread-safe.

    `holders` are the ids of the models that use it; the last one to leave closes it.
    """

    def __init__(self) -> None:
        import aiohttp  # slow to import, and not needed before the first call

        self._way = _chosen() or (SESSION if changed() else DIRECT)
        # No limit here: the engine limits the concurrency of each model.
        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE)
        self._loop = asyncio.get_running_loop()
        self._targets: dict[str, ConnectionTarget] = {}
        self._session: aiohttp.ClientSession | None = None
        self._busy: dict[HttpConnection, ConnectionTarget] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.holders: set[int] = set()

    async def begin(self, post: HttpRequest, sent: RequestHeaders) -> ResponseHead:
        """Send a request, and wait for the head of the answer."""
        proxy = _proxy(post.url)
        if proxy or self._way == SESSION:
            return await self._by_session(proxy, post, sent)
        began = self._loop.time()
        try:
            target = self._targets.get(post.url) or self._target(post)
            if (line := target.line(began)) is None:
                line = await self._connect(target, post.timeouts)
        except CHANGED as problem:  # nothing was sent yet
            if _chosen():
                raise
            self._way = SESSION
            _warn(type(problem).__name__)  # without its message, which may contain the URL
            return await self._by_session(proxy, post, sent)
        self._busy[line] = target
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK, self._look)
        leave = partial(self._leave, line)
        try:
            await line.ask(post, sent, target.start, began)
        except BaseException:
            leave(False)
            raise
        return ResponseHead(line.status, line.headers, line.content, leave)

    def _leave(self, line: HttpConnection, whole: bool) -> None:
        """Return a connection to the idle ones if it can be reused, otherwise close it."""
        target = self._busy.pop(line)
        if whole and target.kept and line.rests(self._loop.time()):
            target.free.append(line)
        else:
            line.hang_up()

    def _target(self, post: HttpRequest) -> ConnectionTarget:
        """The target of a URL, made on first use."""
        import aiohttp

        try:
            request = _request(post.method, post.url, self._loop)
        except ValueError:
            raise aiohttp.InvalidURL(post.url) from None
        target = ConnectionTarget(request, _start(request), bool(post.body), deque())
        if target.kept:
            self._targets[post.url] = target
        return target

    async def _connect(self, target: ConnectionTarget, timeouts: Timeouts) -> HttpConnection:
        """A new connection; Unconnected if that takes too long."""
        from peira.models.http.connection import HttpConnection

        try:
            connection = await self._connector.connect(target.request, traces=[], timeout=_limits(timeouts))
        except TimeoutError:
            raise Unconnected(f"no connection within {timeouts.connect:g} s") from None
        return HttpConnection(connection, self._loop)

    def _look(self) -> None:
        """Check timeouts and close idle connections; runs periodically while there are any."""
        now = self._loop.time()
        for line in self._busy:
            line.look(now)
        for target in self._targets.values():
            target.tidy(now)
        used = self._busy or any(target.free for target in self._targets.values())
        self._timer = self._loop.call_later(LOOK, self._look) if used else None

    async def _by_session(self, proxy: str | None, post: HttpRequest, sent: RequestHeaders) -> ResponseHead:
        """Send through a session of aiohttp."""
        import aiohttp

        if self._session is None:
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(
                connector=self._connector,
                connector_owner=False,
                cookie_jar=jar,
                auto_decompress=False,
                headers={"accept-encoding": ACCEPTED},
            )
        response = await self._session.request(
            post.method,
            post.url,
            data=io.BytesIO(post.body) if len(post.body) > LARGE else post.body or None,
            headers={**sent.headers, "connection": "close"} if post.gather else sent.headers,
            timeout=_limits(post.timeouts),
            allow_redirects=False,
            proxy=proxy,
        )
        leave = partial(_leave_session, response)
        return ResponseHead(response.status, response.headers, response.content, leave)

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for target in self._targets.values():
            while target.free:
                target.free.pop().hang_up()
        if self._session is not None:
            await self._session.close()
        await self._connector.close()


@cache
def changed() -> str:
    """What has changed in aiohttp's internals, found by a rehearsal without network; "" if nothing.

    Cached; needs a running event loop.
    """
    import aiohttp

    try:
        why = _check_internals(asyncio.get_running_loop())
    except (*CHANGED, AssertionError, RuntimeError, ValueError, aiohttp.ClientError) as problem:
        why = repr(problem)
    if why:
        _warn(why)
    return why


def _warn(why: str) -> None:
    log.warning("aiohttp has changed inside (%s): calls go through plain sessions, which is slower", why)


def _check_internals(loop: asyncio.AbstractEventLoop) -> str:
    """Check the signatures and the behaviour that the direct way depends on."""
    import aiohttp

    from peira.models.http.connection import rehearse

    request = _request("POST", "http://localhost/", loop)
    _start(request)
    limits = aiohttp.ClientTimeout()
    inspect.signature(aiohttp.TCPConnector.connect).bind(None, request, traces=[], timeout=limits)
    return rehearse(loop)


def _chosen() -> str:
    """The way that the environment demands; "" if it does not."""
    way = os.environ.get(WAY, "")
    if way not in ("", DIRECT, SESSION):
        raise Invalid(f"{WAY}: {way!r} is neither {DIRECT!r} nor {SESSION!r}")
    return way


def _request(method: str, url: str, loop: asyncio.AbstractEventLoop) -> aiohttp.ClientRequest:
    """A request of aiohttp, which knows how to connect to the URL."""
    import aiohttp
    from yarl import URL

    return aiohttp.ClientRequest(method, URL(url), loop=loop)


def _start(request: aiohttp.ClientRequest) -> bytes:
    """The first line and the automatic headers of every request to a URL."""
    lines = "".join(f"{name}: {request.headers[name]}\r\n" for name in AUTOMATIC)
    accepted = f"Accept-Encoding: {ACCEPTED}\r\n"
    return f"{request.method} {request.url.raw_path_qs} HTTP/1.1\r\n{lines}{accepted}".encode()


def _leave_session(response: aiohttp.ClientResponse, whole: bool) -> None:
    """Keep the connection of a session's response if it was read to its end, otherwise close it."""
    if whole and response.ok:  # a refusal may arrive before the whole body was sent
        response.release()
    else:
        response.close()


@lru_cache(64)
def _limits(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    """The timeouts as aiohttp's, cached."""
    import aiohttp

    connect = min(timeouts.connect, timeouts.total)
    return aiohttp.ClientTimeout(total=timeouts.total, connect=connect, sock_read=timeouts.first_byte)


@lru_cache(64)
def _proxy(url: str) -> str | None:
    """The proxy of the environment for a URL; never for this machine itself."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in LOOPBACK or not (proxies := getproxies()) or proxy_bypass(host):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")
