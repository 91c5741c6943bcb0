"""One kept-alive HTTP connection, for one request at a time.

It uses aiohttp's protocol classes directly, which is faster than a session; `rehearse` checks that they still
work as expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from peira.errors import ReadTimeout
from peira.models.http.request import KEEP_ALIVE, HttpRequest, RequestHeaders

ONE_USE = b"connection: close\r\n"
"""The header for streams: one request per connection.

llama.cpp closes the connection after a stream without notice, which would put the next request in doubt.
"""
BUFFER = 2**18
SWITCHING = 101


class HttpConnection(ResponseHandler):
    """A connection with one request at a time.

    Once the head of an answer has arrived there are `status`, `headers` and `content`.
    """

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        transport = connection.transport
        assert transport is not None
        self._connection = connection
        transport.set_protocol(self)
        self.connection_made(transport)

    async def ask(self, post: HttpRequest, sent: RequestHeaders, start: bytes, began: float) -> None:
        """Send a request, and wait for the head of the answer."""
        self.status, self._bytes_seen, self._last_activity = 0, 0, self._loop.time()
        self._due, self._silence = began + post.timeouts.total, post.timeouts.first_byte
        self.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=BUFFER)
        assert self.transport is not None
        self.transport.write(_written(post, sent, start))
        while self.status < 200 and self.status != SWITCHING:  # informational responses (1xx) are skipped
            message, self.content = await self.read()
            self.status, self.headers = message.code, message.headers

    def resume_reading(self, *args: Any, **kwargs: Any) -> None:
        """Skip needless calls of aiohttp, which resumes after every answer."""
        if self._reading_paused:  # aiohttp calls this after each answer, paused or not
            super().resume_reading(*args, **kwargs)

    def look(self, now: float) -> None:
        """Fail a request that is late; called periodically by the pool.

        A growing body counts as a sign of life.
        """
        if self.status and self.content.total_bytes != self._bytes_seen:
            self._bytes_seen, self._last_activity = self.content.total_bytes, now
        if now >= self._due:
            self._fail(TimeoutError())
        elif now >= self._last_activity + self._silence:
            self._fail(ReadTimeout())

    def _fail(self, problem: Exception) -> None:
        self.set_exception(problem)
        if self.status:
            self.content.set_exception(problem)

    def rests(self, now: float) -> bool:
        """Whether the connection can be reused: nothing is left to read or to send."""
        self._last_activity = now
        return self.serves(now) and not self.transport.get_write_buffer_size()  # type: ignore[union-attr]

    def serves(self, now: float) -> bool:
        """Whether a request can be sent: it is open, nothing arrived unasked, and it is not too old."""
        if self.should_close or self.transport is None or self.transport.is_closing():
            return False
        return now <= self._last_activity + KEEP_ALIVE

    def hang_up(self) -> None:
        """Close the connection."""
        self._connection.close()


class _FakeTransport(asyncio.Transport):
    """A fake transport that keeps what is written; also stands in for aiohttp's connection."""

    def __init__(self) -> None:
        super().__init__()
        self.transport, self.written, self.closed = self, b"", False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nParis"


def rehearse(loop: asyncio.AbstractEventLoop) -> str:
    """Test the use of aiohttp's internals with two requests on a fake transport.

    Returns what does not work as expected, in a few words; "" if everything does.
    """
    transport = _FakeTransport()
    line = HttpConnection(transport, loop)  # type: ignore[arg-type]
    post = HttpRequest("http://localhost/", b"?", lambda: RequestHeaders({}, ()))
    for _ in range(2):
        asking = line.ask(post, post.sent(), b"POST / HTTP/1.1\r\n", loop.time())
        waiting = asking.send(None)
        line.data_received(ANSWER)
        if not waiting.done():
            asking.close()
            return "an answer that came is not read"
        with suppress(StopIteration):
            asking.send(None)
        if (line.status, line.headers.get("Content-Type")) != (200, "text/plain"):
            return "the head of an answer is read otherwise"
        line.look(loop.time())
        if not line.content.is_eof() or line.content.read_nowait() != b"Paris" or not line.content.at_eof():
            return "the body of an answer is read otherwise"
        if not line.rests(loop.time()):
            return "a connection whose answer was read serves no more"
    if transport.written.count(b"content-length: 1\r\n\r\n?") != 2:
        return "a request is written otherwise"
    line._fail(ReadTimeout())
    line.hang_up()
    return (
        ""
        if transport.closed and not line.serves(loop.time())
        else "a connection that was closed still serves"
    )


def _written(post: HttpRequest, sent: RequestHeaders, start: bytes) -> bytes:
    """The bytes of a request."""
    last = ONE_USE if post.gather else b""
    length = b"content-length: %d\r\n" % len(post.body) if post.body else b""
    return b"%b%b%b%b\r\n%b" % (start, sent.lines, last, length, post.body)
