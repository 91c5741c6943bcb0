"""The parent's end of a child's pipe: what is asked there is done in the order in which it was asked, and
answered as soon as its answer is known, each by its number.

Only the child's worker speaks here. Answers of models and of the store come from other threads, which never
write to a pipe: a child that does not read would stop everybody's. They leave the answer, and ring.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from peira.core.codec import encode
from peira.core.contracts import Channel
from peira.core.models import Reply, Request
from peira.errors import Abandoned, PeiraError, message_of
from peira.runners.pipe import Answer, Ask, Broken, Done, Ready, receive, send


class Bell:
    """Wakes whoever waits for it in a poll; rung from any thread."""

    def __init__(self) -> None:
        self._rope, self._bell = socket.socketpair()
        self._rung = False
        self._using = threading.Lock()  # a late ringer must not find another's file under this number

    def fileno(self) -> int:
        return self._bell.fileno()

    def ring(self) -> None:
        with self._using:
            if not self._rung:
                self._rung = True
                self._rope.send(b"!")

    def hush(self) -> None:
        """Heard; whoever rings from now on is heard again."""
        with self._using:
            if self._rung:
                self._bell.recv(1)
                self._rung = False

    def close(self) -> None:
        with self._using:
            self._rung = True  # for good: nobody listens any more
            self._rope.close()
            self._bell.close()


class Window:
    def __init__(self, end: socket.socket) -> None:
        self._line, self._bell = Connection(end.detach()), Bell()
        self._left: deque[tuple[int, Future[Any]]] = deque()
        self._poll = select.poll()
        for source in (self._line, self._bell):
            self._poll.register(source, select.POLLIN)

    def send(self, message: msgspec.Struct) -> None:
        send(self._line, message)

    def receive(self) -> Ask | Ready | Done | Broken:
        """The child's next message; while it is waited for, what comes for the child is sent."""
        while True:
            ready = {source for source, _ in self._poll.poll()}
            if self._bell.fileno() in ready:
                self._hand_out()
            if self._line.fileno() in ready:
                return receive(self._line)

    def answer(self, ask: Ask, channel: Channel) -> None:
        """Do what is asked; it is answered now, or when there is an answer."""
        told = _told(ask.number, lambda: getattr(channel, ask.method)(*_arguments(ask)))
        if isinstance(told, Future):
            told.add_done_callback(lambda done: self._leave(ask.number, done))
        else:
            send(self._line, told)

    def refuse(self, ask: Ask) -> None:
        send(self._line, Answer(ask.number, abandoned=True))

    def _leave(self, number: int, done: Future[Any]) -> None:
        self._left.append((number, done))
        self._bell.ring()

    def _hand_out(self) -> None:
        self._bell.hush()
        while self._left:
            number, done = self._left.popleft()
            told = _told(number, done.result)
            assert isinstance(told, Answer)
            send(self._line, told)

    def close(self) -> None:
        self._line.close()
        self._bell.close()


def _told(number: int, find: Callable[[], Any]) -> Answer | Future[Any]:
    """What was found, as it is told to the child; or the future that will have it."""
    try:
        value = find()
    except Abandoned as signal:
        wait = getattr(signal, "seconds", None)
        return Answer(number, wait, abandoned=True, problem=str(signal), kind=type(signal).__name__)
    except PeiraError as problem:
        return Answer(number, problem=str(problem), kind=type(problem).__name__)
    except Exception as problem:  # whoever asked is told, and does not wait for ever
        return Answer(number, problem=f"{type(problem).__name__}: {message_of(problem)}")
    if isinstance(value, Future):
        return value
    if isinstance(value, Reply):
        value = encode(value)
    return Answer(number, value if value is None or isinstance(value, bytes) else str(value))


def _arguments(ask: Ask) -> list[Any]:
    if ask.method != "call":
        return ask.arguments
    model, request, key = ask.arguments
    return [model, msgspec.convert(request, Request), key]
