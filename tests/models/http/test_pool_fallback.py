"""Which way requests are sent when aiohttp has changed inside: what is taken away here is aiohttp's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

from peira.core.models import Request
from peira.errors import CallFailed, Invalid
from peira.models import ServedModel, openai
from peira.models.http.pool import DIRECT, SESSION, WAY, ConnectionPool, changed

QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))
Change = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """As in a new process, which has not rehearsed yet."""
    changed.cache_clear()
    yield
    changed.cache_clear()


def found() -> str:
    async def rehearsing() -> str:
        return changed()

    return asyncio.run(rehearsing())


def way_of_a_new_wire() -> str:
    async def made() -> str:
        wire = ConnectionPool()
        await wire.close()
        return wire._way

    return asyncio.run(made())


def asked(model: ServedModel, times: int = 2) -> list[str]:
    async def whole() -> list[str]:
        try:
            return [model.read(await model.send(QUESTION)).text for _ in range(times)]
        finally:
            await model.close()

    return asyncio.run(whole())


def gone(kind: type, name: str) -> Change:
    def change(patch: pytest.MonkeyPatch) -> None:
        for each in kind.__mro__:
            if name in vars(each):
                patch.delattr(each, name)

    return change


def instead(kind: type, name: str, value: Any) -> Change:
    return lambda patch: patch.setattr(kind, name, value)


async def _connect_otherwise(self: object, request: object) -> None: ...


async def _read_otherwise(self: object) -> bytes:
    await asyncio.get_running_loop().create_future()
    return b""


CHANGES = {
    "no response parameters": gone(ResponseHandler, "set_response_params"),
    "no reading": gone(ResponseHandler, "read"),
    "no end of use": gone(ResponseHandler, "should_close"),
    "another way to connect": instead(aiohttp.TCPConnector, "connect", _connect_otherwise),
    "another request": instead(aiohttp, "ClientRequest", lambda method, url, *, session: None),
    "an answer that is never there": instead(ResponseHandler, "read", _read_otherwise),
    "data that is dropped": instead(ResponseHandler, "data_received", lambda self, data: None),
    "no more than one use": instead(ResponseHandler, "should_close", True),
}


def test_this_aiohttp_is_used_directly(caplog: pytest.LogCaptureFixture) -> None:
    assert found() == ""
    assert way_of_a_new_wire() == DIRECT
    assert not caplog.records


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_part_is_found_and_sessions_are_used(
    change: Change, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        change(patch)
        assert found() != ""
        assert way_of_a_new_wire() == way_of_a_new_wire() == SESSION
    [record] = caplog.records  # once, however often
    assert record.name == "peira"
    assert "aiohttp has changed inside" in record.message
    assert "plain sessions" in record.message


def test_calls_are_answered_all_the_same(endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint.always({"text": "Paris"})
    with monkeypatch.context() as patch:
        patch.setattr(aiohttp, "ClientRequest", lambda method, url, *, session: None)
        assert asked(openai(endpoint.model)) == ["Paris", "Paris"]
    assert (endpoint.sends(), endpoint.bills()) == (2, 2)


def test_what_only_the_first_use_finds(
    endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rehearsal goes well; connecting for this way, and only for it, does not. Nothing is sent twice."""
    endpoint.always({"text": "Paris"})
    assert found() == ""
    connect = aiohttp.TCPConnector.connect

    class Direct(aiohttp.ClientRequest):
        """What the direct way makes; sessions know their own."""

    async def strict(self: Any, req: Any, traces: Any, timeout: Any) -> Any:
        if isinstance(req, Direct):
            raise AttributeError("session")
        return await connect(self, req, traces, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(aiohttp.TCPConnector, "connect", strict)
        patch.setattr(aiohttp, "ClientRequest", Direct)
        assert asked(openai(endpoint.model)) == ["Paris", "Paris"]
    assert (endpoint.sends(), endpoint.bills()) == (2, 2)
    [record] = caplog.records
    assert "aiohttp has changed inside (AttributeError)" in record.message


def test_a_way_that_was_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAY, SESSION)
    assert way_of_a_new_wire() == SESSION
    monkeypatch.setenv(WAY, DIRECT)
    with monkeypatch.context() as patch:
        patch.delattr(ResponseHandler, "set_response_params")
        assert way_of_a_new_wire() == DIRECT


def test_a_way_that_is_none_is_refused(endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAY, "pigeons")
    with pytest.raises(Invalid, match="PEIRA_HTTP: 'pigeons' is neither 'direct' nor 'session'"):
        asked(openai(endpoint.model))
    assert endpoint.sends() == 0


def test_a_failed_connection_is_no_reason_to_change_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CallFailed, match="not sent"):
        asked(openai("m", base_url="http://no-such-host.invalid/v1"))
    assert way_of_a_new_wire() == DIRECT
