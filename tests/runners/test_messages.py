"""Both ends of a child's pipe, here: who is told what, and what comes too late."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection

import msgspec
import pytest

from peira.core.models import Reply, Request
from peira.errors import Abandoned, AttemptFailed
from peira.runners.child_channel import ChildPipe, PipeChannel
from peira.runners.messages import AnswerMessage, OutputMessage, RequestMessage, SetupMessage
from peira.runners.process import ChildRequests, Wakeup
from peira.testing import MemoryChannel

HELLO = Request(messages=({"role": "user", "content": "hello"},))


class Ends:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.window = ChildRequests(ours)
        self.window.send(SetupMessage("", {}, [], "here"))
        self._connection = Connection(theirs.detach())
        self.line = ChildPipe(self._connection)
        self._gone = threading.Event()
        threading.Thread(target=self.line.listen, args=(self._gone.set,), daemon=True).start()

    def asked(self) -> RequestMessage:
        """What the child asks next."""
        message = self.window.receive()
        assert isinstance(message, RequestMessage)
        return message

    def close(self) -> None:
        self.window.close()
        assert self._gone.wait(10)
        self._connection.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


def test_answers_come_in_any_order(ends: Ends) -> None:
    channel = PipeChannel(ends.line, 1)
    waiting = [channel.record(f"key {i}", "step", b"1") for i in range(5)]
    asked = [ends.asked() for _ in waiting]
    for one, done in reversed(list(zip(asked, waiting, strict=True))):
        assert not done.done()
        ends.window.send(AnswerMessage(one.number))
        assert done.result(10) is None


def test_an_answer_for_an_earlier_attempt_is_not_the_next_ones(ends: Ends) -> None:
    first, second = PipeChannel(ends.line, 1), PipeChannel(ends.line, 2)
    left = first.call("m", HELLO, "")
    late = ends.asked()
    first.close(OutputMessage(None, 1))
    assert isinstance(ends.window.receive(), OutputMessage)
    with pytest.raises(Abandoned, match="has ended"):
        left.result(10)
    reply = second.call("m", HELLO, "")
    own = ends.asked()
    ends.window.send(AnswerMessage(late.number, abandoned=True))
    ends.window.send(AnswerMessage(own.number, msgspec.json.encode(Reply("hi"))))
    assert reply.result(10).text == "hi"
    with pytest.raises(Abandoned, match="has ended"):
        first.call("m", HELLO, "")


def test_what_cannot_be_read_is_told_to_who_asked_and_to_nobody_else(ends: Ends) -> None:
    channel = PipeChannel(ends.line, 1)
    garbled, fine = channel.call("m", HELLO, ""), channel.call("m", HELLO, "")
    ends.window.send(AnswerMessage(ends.asked().number, b"{"))
    ends.window.send(AnswerMessage(ends.asked().number, msgspec.json.encode(Reply("hi"))))
    assert isinstance(garbled.exception(10), msgspec.DecodeError)
    assert fine.result(10).text == "hi"


def test_who_waits_no_more_stops_nobody(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    channel = PipeChannel(ends.line, 1)
    cancelled, fine = channel.record("a", "a", b"1"), channel.record("b", "b", b"1")
    assert cancelled.cancel()
    for _ in range(2):
        ends.window.send(AnswerMessage(ends.asked().number))
    assert fine.result(10) is None
    assert caplog.records == []


def test_whatever_goes_wrong_is_told(ends: Ends) -> None:
    """At once or later, and also what nobody thought of."""
    channel, later = PipeChannel(ends.line, 1), Future[Reply]()

    def replies(request: Request) -> Future[Reply]:
        if "now" in request.parameters:
            raise KeyError("now")
        return later

    there = MemoryChannel(replies=replies)
    asked = [channel.call("m", request, "") for request in (HELLO, Request((), parameters={"now": 1}))]
    for _ in asked:
        ends.window.answer(ends.asked(), there)
    later.set_exception(ZeroDivisionError("later"))
    channel.record("last", "last", b"1")
    ends.asked()  # while the child's next word is waited for, what came for it is sent
    problems = [one.exception(10) for one in asked]
    assert [type(problem) for problem in problems] == [AttemptFailed] * 2
    assert [str(problem) for problem in problems] == ["ZeroDivisionError: later", "KeyError: 'now'"]


def test_much_may_be_said_in_both_directions_at_once(ends: Ends) -> None:
    """Neither end waits for the other to read while the other waits for it."""
    channel, much = PipeChannel(ends.line, 1), "much" * 2**17
    there = MemoryChannel(replies=lambda request: Reply(much))
    request = Request(messages=({"role": "user", "content": much},))
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(channel.call, "m", request, f"{i}") for i in range(40)]
        for _ in asked:
            ends.window.answer(ends.asked(), there)
        channel.record("last", "last", b"1")
        ends.asked()
        assert all(one.result(10).result(10).text == much for one in asked)


def test_a_bell_may_be_rung_too_late() -> None:
    bell = Wakeup()
    bell.ring()
    bell.ring()
    bell.hush()
    bell.hush()
    bell.close()
    bell.ring()
    bell.close()
