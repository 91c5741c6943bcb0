"""`kiosk:` is a provider, tried with a real server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from peira_extras.model import KioskModel

from peira.errors import CallFailed, Invalid
from peira.testing import ModelSuite

ERRORS = {"free": "busy", "doubt": "broken", "permanent": "refused"}


class Kiosk:
    """A server that says what it is told to, in a thread of its own."""

    def __init__(self) -> None:
        self._turns: deque[dict[str, Any]] = deque()
        self._sends = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        self._ready.wait()

    def script(self, *turns: dict[str, Any]) -> None:
        self._turns.extend(turns)

    def sends(self) -> int:
        return self._sends

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.address = "{}:{}".format(*server.sockets[0].getsockname())
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = json.loads(await reader.readline())
            self._sends += 1
            writer.write(json.dumps(await self._said(asked["model"], self._turns.popleft())).encode() + b"\n")
        finally:  # also when nobody waits for the answer any more
            writer.close()

    async def _said(self, model: str, turn: dict[str, Any]) -> dict[str, Any]:
        if "fail" in turn:
            told = {"error": ERRORS[turn["fail"]], "message": turn["message"]}
            return {**told, "retry_after": turn.get("retry_after")}
        await asyncio.sleep(turn.get("delay", 0.0))
        return {"finish": "stop", "model": model, **{k: v for k, v in turn.items() if k != "delay"}}

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()


class TestKioskModel(ModelSuite):
    @pytest.fixture
    def endpoint(self) -> Iterator[Kiosk]:
        kiosk = Kiosk()
        yield kiosk
        kiosk.close()

    @pytest.fixture
    def model(self, endpoint: Kiosk, monkeypatch: pytest.MonkeyPatch) -> KioskModel:
        monkeypatch.setenv("KIOSK_ADDRESS", endpoint.address)
        return KioskModel("small")


def test_a_server_that_is_not_there_bills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kiosk = Kiosk()
    kiosk.close()
    monkeypatch.setenv("KIOSK_ADDRESS", kiosk.address)
    suite, model = ModelSuite(), KioskModel("small")
    with pytest.raises(CallFailed) as failed:
        suite.send(model)
    assert (failed.value.free, failed.value.doubt) == (True, False)


def test_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIOSK_ADDRESS", raising=False)
    with pytest.raises(Invalid, match="kiosk: set KIOSK_ADDRESS to host:port"):
        KioskModel("small").check()
