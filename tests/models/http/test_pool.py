"""Requests on connections: what may come back, byte by byte, and when a connection serves for another."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from peira.core.models import Answer, Request
from peira.errors import CallFailed
from peira.models import ServedModel, Timeouts, openai

QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))
BODY = json.dumps({"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}]}).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
PATIENT = Timeouts()
ZIPPED = gzip.compress(BODY)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head, await reader.readexactly(int(length.partition(b":")[2]))


@asynccontextmanager
async def served(serve: Serve, timeouts: Timeouts = PATIENT) -> AsyncIterator[ServedModel]:
    serving: set[asyncio.Task[None] | None] = set()

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(whole, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = openai("m", base_url=f"http://127.0.0.1:{port}/v1", timeouts=timeouts)
    try:
        yield model
    finally:
        await model.close()
        server.close()
        tasks = [task for task in serving if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)  # for transports to close


def once(answer: bytes, piece: int = 0) -> Serve:
    """Answers one request, in pieces, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for at in range(0, len(answer), piece or len(answer)):
            writer.write(answer[at : at + (piece or len(answer))])
            await writer.drain()
            await asyncio.sleep(0)

    return serve


def asked(serve: Serve, timeouts: Timeouts = PATIENT) -> Answer:
    async def whole() -> Answer:
        async with served(serve, timeouts) as model:
            return await model.send(QUESTION)

    return asyncio.run(whole())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(WHOLE, id="with its length"),
        pytest.param(HEAD + b"\r\n" + BODY, id="until the end"),
        pytest.param(
            HEAD
            + b"Transfer-Encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
            % (BODY[:5], len(BODY) - 5, BODY[5:]),
            id="in chunks",
        ),
        pytest.param(
            HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(ZIPPED) + ZIPPED, id="gzip"
        ),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + WHOLE, id="after a hint"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE, id="after a nod"),
    ],
)
@pytest.mark.parametrize("piece", [0, 1, 7])
def test_an_answer_however_it_comes(answer: bytes, piece: int) -> None:
    came = asked(once(answer, piece))
    assert (came.status, came.body) == (200, BODY)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what came is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "what came is not HTTP"),
        (WHOLE[:-5], "the connection broke in the middle of the answer"),
        (HEAD, "the server hung up"),
    ],
)
def test_what_is_no_answer_is_in_doubt(answer: bytes, says: str) -> None:
    with pytest.raises(CallFailed, match=says) as failed:
        asked(once(answer))
    assert failed.value.doubt


def test_an_answer_that_wants_another_protocol_is_no_answer() -> None:
    with pytest.raises(CallFailed, match="101"):
        asked(once(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"))


def test_the_request_as_it_is_written() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(WHOLE)

    asked(serve)
    (head, body), *_ = seen
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /v1/chat/completions http/1.1"
    assert sum(line.startswith(b"host: 127.0.0.1:") for line in lines) == 1
    assert sum(line.startswith(b"content-type:") for line in lines) == 1
    assert json.loads(body)["messages"] == list(QUESTION.messages)


def test_a_connection_serves_one_call_after_another() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request(reader)
            writer.write(WHOLE)

    async def thrice() -> None:
        async with served(serve) as model:
            for _ in range(3):
                await model.send(QUESTION)

    asyncio.run(thrice())
    assert connections == 1


def test_an_answer_that_nobody_waits_for_is_nobody_elses() -> None:
    """Who gave up leaves a connection on which an answer may still come: it must serve for nothing more."""

    there = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await request(reader)
            there.set()
            said = json.loads(body)["messages"][0]["content"]
            await asyncio.sleep(0.2 if said == "slow" else 0)
            answer = BODY.replace(b"Paris", said.encode())
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(answer) + answer)

    def ask(text: str) -> Request:
        return Request(messages=({"role": "user", "content": text},))

    async def whole() -> list[str]:
        async with served(serve) as model:
            slow = asyncio.create_task(model.send(ask("slow")))
            await there.wait()
            slow.cancel()
            with suppress(asyncio.CancelledError):
                await slow
            return [model.read(await model.send(ask(text))).text for text in ("one", "two", "three")]

    assert asyncio.run(whole()) == ["one", "two", "three"]


def test_a_refusal_before_all_was_sent() -> None:
    """It is what it says, and the connection, on which the rest would follow, serves for nothing more."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large"
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await asyncio.sleep(0.5)

    async def whole() -> None:
        large = Request(messages=({"role": "user", "content": "x" * 50_000_000},))
        async with served(serve) as model:
            for _ in range(2):
                with pytest.raises(CallFailed, match="413: too large"):
                    await model.send(large)

    asyncio.run(whole())
    assert connections == 2


def test_silence_in_the_middle_of_an_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for at in range(0, 40, 10):  # longer than the silence that is borne, but never silent for so long
            writer.write(WHOLE[at : at + 10] if at < 30 else WHOLE[30:-5])
            await asyncio.sleep(0.2)
        await asyncio.sleep(10)

    with pytest.raises(CallFailed, match=r"nothing came for 0\.4 s") as failed:
        asked(serve, Timeouts(first_byte=0.4))
    assert failed.value.doubt


def test_a_header_of_two_lines_is_not_sent(endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTRA", "one\r\nx-injected: two")
    model = openai(endpoint.model, headers={"x-extra": "$EXTRA"})
    with pytest.raises(CallFailed, match="'x-extra' has more than one line") as failed:
        asyncio.run(model.send(QUESTION))
    assert not failed.value.free
    assert not failed.value.doubt
    assert endpoint.sends() == 0


def test_through_a_proxy(endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", endpoint.base)
    model = openai(endpoint.model, base_url="http://model.invalid/v1")

    async def whole() -> list[Answer]:
        try:
            return [await model.send(QUESTION) for _ in range(2)]
        finally:
            await model.close()

    assert {model.read(answer).text for answer in asyncio.run(whole())} == {"Capital of France?"}
    assert endpoint.sends() == 2
