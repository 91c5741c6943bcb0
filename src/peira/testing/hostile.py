"""An endpoint that answers as none should, and what every model that is asked over HTTP does about it.

Whatever comes, a send ends soon, in an answer or in a `CallFailed` of one line that says what it means for
the bill; whatever an answer holds, reading it gives a reply of the right types, or a permanent failure of one
line.
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import math
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.core.ids import MAX_INT, Json
from peira.core.models import Answer, Model, Reply, Request
from peira.errors import CallFailed

QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))
PATIENCE = 20.0
"""Seconds within which a send has ended, whatever the other side does. Its own limit must be below."""
LINE = 400
DEEP = "[" * 5000 + "]" * 5000
BIG = 2**63
ODD: tuple[Json, ...] = (
    *(None, True, False, 0, -1, 1, 12.0, 12.5, -0.0, 1e300, BIG - 1, BIG, 2**64, 10**40, -BIG),
    *("", "12", "x" * 3000, "\x00", "\u2028", [], [[]], [1, "a", None], {}, {"": {}}, {"type": 7}),
)
"""Values that may stand where another type belongs."""
_paths = tuple[str | int, ...]
DATES = (
    "Mon, 01 Jan 99999 00:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 +1400",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "yesterday",
    "",
)
WAITS = (
    "9" * 400,
    "-" + "9" * 400,
    "9" * 400 + "s",
    "9" * 400 + "d",
    "1e309",
    "nan",
    "inf",
    "\u0663",
    *DATES,
)


@dataclass(frozen=True)
class Act:
    """What the endpoint does with one request: it sends this and then closes, resets, hangs (keeps silent) or
    repeats it for ever."""

    data: bytes = b""
    then: str = "close"


class HostileEndpoint:
    """Listens on this machine. `acts` are done one after the other, the last one for ever."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.base = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.acts: list[Act] = [Act()]
        self.sends = 0
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def will(self, *acts: Act) -> None:
        self.acts, self.sends = list(acts), 0

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._over.is_set():
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(PATIENCE)
            if not _request(connection):
                return
            act = self.acts[min(self.sends, len(self.acts) - 1)]
            self.sends += 1
            connection.sendall(act.data)
            while act.then == "repeat" and not self._over.is_set():
                connection.sendall(act.data)
            if act.then == "hang":
                self._over.wait(PATIENCE)
            if act.then == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _request(connection: socket.socket) -> bytes:
    """A whole request; empty if nobody asks."""
    came = b""
    while b"\r\n\r\n" not in came:
        if not (more := connection.recv(65536)):
            return b""
        came += more
    head, _, body = came.partition(b"\r\n\r\n")
    lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < sum(lengths):
        body += connection.recv(65536)
    return head + body


def whole_answer(
    body: bytes, content: str = "application/json", status: str = "200 OK", **more: str
) -> bytes:
    """An answer as it should be, with these headers beside."""
    headers = {"content-type": content, "content-length": str(len(body))}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("utf-8", "surrogateescape") + body


def events_answer(events: Sequence[Json]) -> bytes:
    """A stream of these events, in one piece of known length."""
    lines = [f"event: {e['type']}\n" if "type" in e else "" for e in map(_table, events)]
    told = [f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True)]
    return whole_answer("".join(told).encode(), "text/event-stream")


def _table(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def paths_in(value: Json, path: _paths = ()) -> Iterator[_paths]:
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from paths_in(part, (*path, key))


def changed(value: Json, path: _paths, to: Json, gone: bool = False) -> Json:
    """The value with something else in one place, or with nothing there."""
    if not path:
        return to
    made = copy.deepcopy(value)
    place = made
    for key in path[:-1]:
        place = place[key]
    if gone:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return made


def one_line(problem: CallFailed) -> None:
    said = str(problem)
    assert said
    assert len(said.splitlines()) == 1
    assert len(said) <= LINE
    assert not (problem.free and problem.doubt)
    assert problem.retry_after is None or 0 <= problem.retry_after < math.inf


def permanent(problem: CallFailed) -> None:
    assert not problem.free
    assert not problem.doubt


@cache
def bomb() -> bytes:
    """A small body that unpacks to more than anybody should hold."""
    return gzip.compress(b" " * 100 * 2**20, 1)


SAMPLED = pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.torture)])
"""How far apart the samples are; 1 is every one."""
ANYWHERE = st.floats(0, 1, exclude_max=True)
VALUES = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
drawn = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors])


class HostileEndpointSuite:
    """Override the fixture `model` by one that asks the endpoint at `hostile.base`, with limits of at most a
    second of silence and five in all, and `body`, an answer of its provider with everything that may be in
    it. A model that streams has `events` as well: the same as it comes in pieces."""

    body: ClassVar[dict[str, Json]]
    events: ClassVar[list[Json]] = []

    @pytest.fixture
    def hostile(self) -> Iterator[HostileEndpoint]:
        endpoint = HostileEndpoint()
        yield endpoint
        endpoint.close()

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        raise NotImplementedError("override the fixture `model`")

    def whole(self) -> bytes:
        return events_answer(self.events) if self.events else whole_answer(json.dumps(self.body).encode())

    def outcome(self, model: Model) -> Answer | CallFailed:
        """What one send came to, within the time that it may take."""

        async def send() -> Answer:
            try:
                return await model.send(QUESTION)
            finally:
                await model.close()

        began = time.monotonic()
        try:
            answer = asyncio.run(send())
        except CallFailed as problem:
            one_line(problem)
            return problem
        finally:
            assert time.monotonic() - began < PATIENCE
        assert answer.wait is None or 0 <= answer.wait < math.inf
        assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer
        self.read(model, answer)
        return answer

    def read(self, model: Model, answer: Answer) -> Reply | None:
        """What is in an answer, of the right types; None if it cannot be read, which is permanent."""
        try:
            reply = model.read(answer)
        except CallFailed as problem:
            one_line(problem)
            permanent(problem)
            return None
        plain = msgspec.structs.replace(reply, logprobs=None, tool_calls=())
        assert msgspec.json.decode(msgspec.json.encode(plain), type=Reply) == plain
        assert all(type(call.id) is type(call.name) is str for call in reply.tool_calls)
        counts = [getattr(reply.usage, name) for name in reply.usage.__struct_fields__]
        assert all(n is None or (type(n) is int and 0 <= n <= MAX_INT) for n in counts)
        return reply

    def test_the_answer_without_hostility(self, model: Model, hostile: HostileEndpoint) -> None:
        """Or all that follows would show nothing."""
        hostile.will(Act(self.whole()))
        answer = self.outcome(model)
        assert isinstance(answer, Answer)
        reply = self.read(model, answer)
        assert reply is not None
        assert reply.text
        assert None not in (reply.usage.input, reply.usage.output)

    @pytest.mark.parametrize("after", [0, 10, -1])
    def test_silence_ends_in_doubt(self, model: Model, hostile: HostileEndpoint, after: int) -> None:
        hostile.will(Act(self.whole()[:after], "hang"))
        problem = self.outcome(model)
        assert isinstance(problem, CallFailed)
        assert problem.doubt
        assert hostile.sends == 1

    @SAMPLED
    @pytest.mark.parametrize("end", ["close", "reset"])
    def test_cut_at_any_byte_it_is_in_doubt(
        self, model: Model, hostile: HostileEndpoint, end: str, step: int
    ) -> None:
        data = self.whole()
        for length in range(0, len(data), step):
            hostile.will(Act(data[:length], end))
            problem = self.outcome(model)
            assert isinstance(problem, CallFailed), length
            assert problem.doubt
            assert hostile.sends == 1

    @pytest.mark.parametrize("length", ["-1", "x", "", "1, 2", "99999999", "0", "5", "9" * 30, "0x10", "+7"])
    def test_a_length_that_is_not_true(self, model: Model, hostile: HostileEndpoint, length: str) -> None:
        head, _, body = self.whole().partition(b"\r\n\r\n")
        told = b"content-length: %d" % len(body)
        hostile.will(Act(head.replace(told, b"content-length: " + length.encode()) + b"\r\n\r\n" + body))
        ended = self.outcome(model)
        assert isinstance(ended, Answer) or ended.doubt
        assert hostile.sends == 1

    @pytest.mark.parametrize(
        "data",
        [
            b"HTTP/1.1 200\r\n\r\n",
            b"HTTP/1.1 999 Strange\r\n\r\n",
            b"HTTP/9.9 200 OK\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffff\r\n{}",
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nmore",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-type: \xff\xfe; charset=nonsense\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nx-request-id: \xff\xfe\x80\r\ncontent-length: 2\r\n\r\n{}",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"\x00" * 500,
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: y\r\n" % i for i in range(5000)) + b"\r\n{}",
            b"HTTP/1.1 500 " + b"\xff" * 300 + b"\r\ncontent-length: 3\r\n\r\n\xff\xfe\x00",
        ],
    )
    def test_what_is_hardly_http(self, model: Model, hostile: HostileEndpoint, data: bytes) -> None:
        hostile.will(Act(data))
        self.outcome(model)
        assert hostile.sends == 1

    @pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(self, model: Model, hostile: HostileEndpoint, status: int) -> None:
        hostile.will(Act(whole_answer(b"", status=f"{status} Elsewhere", location=f"{hostile.base}/there")))
        problem = self.outcome(model)
        assert isinstance(problem, CallFailed)
        permanent(problem)
        assert hostile.sends == 1

    @pytest.mark.parametrize(
        "act",
        [
            Act(b"HTTP/1.1 100 Continue\r\n\r\n", "repeat"),
            Act(b"HTTP/1.1 200 OK\r\nx: y", "repeat"),
            Act(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n \r\n" + b"1\r\n \r\n" * 9, "hang"
            ),
            Act(b"x" * 65536, "repeat"),
        ],
        ids=["continue", "headers", "chunks", "anything"],
    )
    def test_what_never_ends_does(self, model: Model, hostile: HostileEndpoint, act: Act) -> None:
        hostile.will(act)
        problem = self.outcome(model)
        assert isinstance(problem, CallFailed)
        assert problem.doubt

    def test_a_bomb_is_not_unpacked(self, model: Model, hostile: HostileEndpoint) -> None:
        hostile.will(Act(whole_answer(bomb(), content_encoding="gzip")))
        ended = self.outcome(model)
        assert isinstance(ended, CallFailed) or (ended.cut and len(ended.body) < 2**24)
        assert hostile.sends == 1

    @pytest.mark.parametrize("status", ["200 OK", "429 Slow down", "503 Busy", "500 Broken"])
    def test_absurd_dates_and_waits(self, model: Model, hostile: HostileEndpoint, status: str) -> None:
        body = self.whole().partition(b"\r\n\r\n")[2]
        kind = "text/event-stream" if self.events else "application/json"
        for date in DATES:
            for wait in WAITS:
                named = {"date": date, "retry_after": wait, "retry_after_ms": wait[:300]}
                hostile.will(Act(whole_answer(body, kind, status, **named)))
                ended = self.outcome(model)
                assert isinstance(ended, Answer) == status.startswith("200")

    @pytest.mark.parametrize(
        "body",
        [
            DEEP,
            '{"error": ' * 900 + "1" + "}" * 900,
            '{"error": {"message": ' + DEEP + "}}",
            "7" * 5000,
            '{"error": {"message": "\\ud800"}}',
            '{"error": {"code": [7], "message": 7}}',
            "\x00",
        ],
        ids=["deep", "deep errors", "deep message", "long number", "surrogate", "odd types", "zero"],
    )
    @pytest.mark.parametrize("status", ["200 OK", "400 Bad", "429 Slow down", "500 Broken"])
    def test_bodies_of_nonsense(self, model: Model, hostile: HostileEndpoint, status: str, body: str) -> None:
        hostile.will(Act(whole_answer(body.encode(), status=status)))
        ended = self.outcome(model)
        assert isinstance(ended, Answer) == status.startswith("200")
        if isinstance(ended, Answer):
            assert ended.body == body.encode()
            assert self.read(model, ended) is None

    @drawn
    @given(where=ANYWHERE, value=VALUES, gone=st.booleans())
    def test_odd_types_in_any_field(self, model: Model, where: float, value: Json, gone: bool) -> None:
        paths = list(paths_in(self.body))
        odd = changed(self.body, paths[int(where * len(paths))], value, gone)
        self.read(model, Answer(200, json.dumps(odd).encode(), 0.1))

    @pytest.mark.torture
    def test_every_odd_value_in_every_field(self, model: Model) -> None:
        for path in paths_in(self.body):
            for value in ODD:
                self.read(model, Answer(200, json.dumps(changed(self.body, path, value)).encode(), 0.1))

    @SAMPLED
    def test_odd_types_in_the_events_of_a_stream(
        self, model: Model, hostile: HostileEndpoint, step: int
    ) -> None:
        """What came whole is an answer, whatever it says: it was paid for."""
        places = [(path, value) for path in paths_in(self.events) if len(path) > 1 for value in ODD]
        for path, value in places[:: 1 if step == 1 else step * 5]:
            hostile.will(Act(events_answer(changed(self.events, path, value))))
            ended = self.outcome(model)
            assert isinstance(ended, Answer) or ended.doubt
            assert hostile.sends == 1
