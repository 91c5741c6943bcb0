"""`kiosk:NAME`: models behind a server that takes one JSON line and answers with one.

The server is found at KIOSK_ADDRESS (host:port). It is sent {"model": NAME, "request": ...} and answers with
a reply ({"text": ..., "finish": ..., "usage": ...}) or a refusal ({"error": ..., "message": ...}).
"""

from __future__ import annotations

import asyncio
import os
import time

import msgspec

from peira.core.ids import Json
from peira.core.models import Answer, Reply, Request
from peira.core.registry import Registry
from peira.errors import CallFailed, Invalid

LONGEST = 64 * 1024 * 1024
"""Bytes of one answer."""


class Refusal(msgspec.Struct):
    """`error` is "busy" (nothing was done), "broken" (nobody knows) or anything else (asking again will not
    help)."""

    error: str
    message: str = ""
    retry_after: float | None = None


class KioskModel:
    def __init__(self, model: str) -> None:
        self.name = f"kiosk:{model}"
        self._model = model

    @property
    def identity(self) -> Json:
        """A call is recorded under this: never with a key or an address in it."""
        return {"provider": "kiosk", "model": self._model}

    def check(self) -> None:
        _address()

    async def send(self, request: Request) -> Answer:
        """Send once. The answer is recorded as it came, before `read` looks at it."""
        host, port = _address()
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection(host, port, limit=LONGEST)
        except OSError as problem:
            raise CallFailed(f"{self.name}: no connection: {problem.strerror}", free=True) from None
        try:
            writer.write(msgspec.json.encode({"model": self._model, "request": request}) + b"\n")
            await writer.drain()
            body = await reader.readline()
        except (OSError, ValueError) as problem:  # it was sent, and may be billed
            raise CallFailed(f"{self.name}: the connection broke: {problem}", doubt=True) from None
        finally:
            writer.close()
        if not body.endswith(b"\n"):
            raise CallFailed(f"{self.name}: the connection ended before the answer", doubt=True)
        self._refused(body)
        return Answer(200, body, time.perf_counter() - began)

    def _refused(self, body: bytes) -> None:
        try:
            told = msgspec.json.decode(body, type=Refusal)
        except msgspec.DecodeError:
            return
        raise CallFailed(
            f"{self.name}: {' '.join(told.message.split())}",
            free=told.error == "busy",
            doubt=told.error == "broken",
            retry_after=told.retry_after,
        )

    def read(self, answer: Answer) -> Reply:
        """The reply in a recorded answer; it may be read again in a later run."""
        try:
            reply = msgspec.json.decode(answer.body, type=Reply)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise CallFailed(f"{self.name}: an answer of an unknown shape: {problem}") from None
        return msgspec.structs.replace(reply, latency=answer.latency)

    async def close(self) -> None:
        """It holds no connection between two sends."""


def _address() -> tuple[str, int]:
    host, _, port = os.environ.get("KIOSK_ADDRESS", "").rpartition(":")
    if not host or not port.isdigit():
        raise Invalid("kiosk: set KIOSK_ADDRESS to host:port")
    return host, int(port)


def register(registry: Registry) -> None:
    registry.add("model", "kiosk", KioskModel)
