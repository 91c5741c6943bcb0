"""A connection that is kept from call to call, with one request at a time on it.

All of HTTP is aiohttp's. A line serves for the next call only if everything was sent and everything was read:
on one that was left before, an answer may still come, and would be taken for somebody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from peira.models.post import Post, Sent

KEEP_ALIVE = 4.0
"""Shorter than the 5 s after which common servers hang up: what is sent into that moment is in doubt."""
ONE_USE = b"connection: close\r\n"
"""For streams: llama.cpp hangs up after each without a word, and what is sent next would be in doubt."""
BUFFER = 2**18
SWITCHING = 101


class Silence(TimeoutError):
    """Nothing came for too long."""


class Line(ResponseHandler):
    """An answer whose head is there has a status, headers, and its content."""

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

    async def ask(self, post: Post, sent: Sent, start: bytes, began: float) -> None:
        """Send, and wait for the head of the answer."""
        self.status, self._seen, self._heard = 0, 0, self._loop.time()
        self._due, self._silence = began + post.timeouts.total, post.timeouts.first_byte
        self.set_response_params(read_until_eof=True, read_bufsize=BUFFER)
        assert self.transport is not None
        self.transport.write(_written(post, sent, start))
        while self.status < 200 and self.status != SWITCHING:  # until then it only says that it goes on
            message, self.content = await self.read()
            self.status, self.headers = message.code, message.headers

    def resume_reading(self, *how: Any, **else_how: Any) -> None:
        if self._reading_paused:  # after each answer it is told to go on, though it never stopped
            super().resume_reading(*how, **else_how)

    def look(self, now: float) -> None:
        """End what is late. It is heard of when there is more of its body than there was."""
        if self.status and self.content.total_bytes != self._seen:
            self._seen, self._heard = self.content.total_bytes, now
        if now >= self._due:
            self._fail(TimeoutError())
        elif now >= self._heard + self._silence:
            self._fail(Silence())

    def _fail(self, problem: Exception) -> None:
        self.set_exception(problem)
        if self.status:
            self.content.set_exception(problem)

    def rests(self, now: float) -> bool:
        """Whether it may wait for another call from now on: nothing more can come, or is to be sent."""
        self._heard = now
        return self.serves(now) and not self.transport.get_write_buffer_size()  # type: ignore[union-attr]

    def serves(self, now: float) -> bool:
        """Whether it may be asked. Something that came unasked, or a farewell, says no."""
        if self.should_close or self.transport is None or self.transport.is_closing():
            return False
        return now <= self._heard + KEEP_ALIVE

    def hang_up(self) -> None:
        self._connection.close()


def _written(post: Post, sent: Sent, start: bytes) -> bytes:
    last = ONE_USE if post.gather else b""
    length = b"content-length: %d\r\n" % len(post.body) if post.body else b""
    return b"%b%b%b%b\r\n%b" % (start, sent.lines, last, length, post.body)
