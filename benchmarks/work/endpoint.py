"""A chat-completions endpoint that answers every request after a fixed delay, at minimal cost.

    python endpoint.py MILLISECONDS

It prints its port and exits when its standard input is closed. It implements just enough HTTP for clients
that send a content length, so that on few cores the clients are measured and not the server.
"""

from __future__ import annotations

import asyncio
import re
import sys

LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
BODY = (
    b'{"id":"x","object":"chat.completion","model":"bench","choices":[{"index":0,"message":{"role":'
    b'"assistant","content":"the answer"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,'
    b'"completion_tokens":3,"total_tokens":15}}'
)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)


class Answering(asyncio.Protocol):
    """One connection: answers each complete request after the delay."""

    def __init__(self, delay: float) -> None:
        self._delay, self._buffer = delay, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Buffer the data and schedule an answer for every complete request."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self._buffer, 0, end)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < whole:
                return
            self._buffer = self._buffer[whole:]
            asyncio.get_running_loop().call_later(self._delay, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(ANSWER)


async def main(delay: float) -> None:
    """Serve on a free port until standard input is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(delay), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) / 1000))
