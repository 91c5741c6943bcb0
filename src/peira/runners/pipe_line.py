"""The child's end of its pipe: requests are numbered, and answered in any order."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection

import msgspec

from peira.errors import Abandoned
from peira.runners.pipe import Answer, Ask, Do, Setup, receive_in_child, send

OVER = "this attempt has ended: it may do nothing more"


class Line:
    """Work and answers are kept apart: nobody takes what is another's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owner = os.getpid()
        self._talking = threading.RLock()
        first = receive_in_child(connection)
        assert isinstance(first, Setup)
        self.setup = first
        self.work: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._numbers = count(1)
        # Whoever takes a request out settles it. Who listens takes no lock for that: one who talks may hold
        # it until the parent reads, and the parent may be waiting for what it sends to be read here.
        self._asked: dict[int, Future[Answer]] = {}

    def listen(self, at_end: Callable[[], None]) -> None:
        """Sort what arrives, until the pipe ends."""
        while True:
            try:
                message = receive_in_child(self._connection)
            except (EOFError, OSError):
                at_end()
                return
            if isinstance(message, Do):
                self.work.put(message)
            elif isinstance(message, Answer):
                self._settle(message)

    def _settle(self, answer: Answer) -> None:
        asked = self._asked.pop(answer.number, None)
        if asked is not None:  # or its attempt is over
            asked.set_result(answer)

    def send(self, message: msgspec.Struct) -> None:
        self.only_here()
        with self._talking:
            send(self._connection, message)

    def ask(self, question: Callable[[int], Ask]) -> Future[Answer]:
        """Send what `question` makes of a number of its own; others may talk until it is answered."""
        self.only_here()
        asked: Future[Answer] = Future()
        with self._talking:
            message = question(next(self._numbers))
            self._asked[message.number] = asked
            send(self._connection, message)
        return asked

    def forget(self) -> None:
        """Nobody gets an answer to what was asked so far."""
        while self._asked:
            with suppress(KeyError):  # its answer has just come
                self._asked.popitem()[1].set_exception(Abandoned(OVER))

    def exclusively(self) -> threading.RLock:
        return self._talking

    def only_here(self) -> None:
        """A process that user code forked has a copy of the pipe and no business on it: it ends."""
        if os.getpid() != self._owner:
            os._exit(0)
