"""The channel of an attempt in a child process: each call is asked of the parent.

One attempt, one channel: what an attempt left behind (a thread, a forked process) can ask nothing once
the attempt has ended, and never in the name of the next.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from peira.core.ids import Json, normalise
from peira.core.models import CallFailed, Reply, Request
from peira.errors import Abandoned, Exhausted, InDoubt, Invalid, Parked, PeiraError
from peira.runners.pipe import Answer, Ask, Do, Setup, receive_in_child, send

PROBLEMS: dict[str, Callable[[str], PeiraError]] = {"InDoubt": InDoubt, "CallFailed": CallFailed}
_read_reply = msgspec.json.Decoder(Reply).decode


class Line:
    """The child's end of the pipe. Work and answers are kept apart: nobody takes what is another's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owner = os.getpid()
        self._talking = threading.RLock()
        first = receive_in_child(connection)
        assert isinstance(first, Setup)
        self.setup = first
        self.work: queue.SimpleQueue[Do] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

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
                self._answers.put(message)

    def send(self, message: msgspec.Struct) -> None:
        self.only_here()
        with self._talking:
            send(self._connection, message)

    def ask(self, question: Callable[[], Ask]) -> Answer:
        """Send what `question` makes, and wait for its answer; nobody else talks meanwhile."""
        self.only_here()
        with self._talking:
            send(self._connection, question())
            return self._answers.get()

    def exclusively(self) -> threading.RLock:
        return self._talking

    def only_here(self) -> None:
        """A process that user code forked has a copy of the pipe and no business on it: it ends."""
        if os.getpid() != self._owner:
            os._exit(0)


class PipeChannel:
    def __init__(self, line: Line, attempt: int) -> None:
        self._line, self._attempt = line, attempt
        self._open = True

    def close(self, last: msgspec.Struct) -> None:
        """Send the attempt's last message; nothing is asked in its name afterwards."""
        self._line.only_here()
        with self._line.exclusively():
            self._open = False
            self._line.send(last)

    def _ask(self, method: str, *arguments: Any) -> Any:
        answer = self._line.ask(lambda: self._question(method, arguments))
        if answer.abandoned:
            raise _signal(answer)
        if answer.problem:
            raise PROBLEMS.get(answer.kind, Invalid)(answer.problem)
        return answer.value

    def _question(self, method: str, arguments: tuple[Any, ...]) -> Ask:
        if not self._open:
            raise Abandoned("this attempt has ended: it may do nothing more")
        return Ask(method, list(arguments), self._attempt)

    def recall(self, key: str) -> bytes | None:
        known: bytes | None = self._ask("recall", key)
        return known

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        self._ask("record", key, name, value)
        return _resolved(None)

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        return _resolved(_read_reply(self._ask("call", model, msgspec.to_builtins(request), key)))

    def observe(self, name: str, data: Json) -> None:
        self._ask("observe", name, normalise(data, f"log {name!r}"))

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        self._ask("report", dict(metrics), dict(about))

    def attach(self, name: str, data: bytes, media: str) -> str:
        digest: str = self._ask("attach", name, data, media)
        return digest

    def workdir(self) -> Path:
        return Path(self._ask("workdir"))


def _signal(answer: Answer) -> Abandoned:
    """Why the attempt may do nothing more."""
    if answer.kind == Parked.__name__:
        return Parked(float(answer.value), answer.problem)
    if answer.kind == Exhausted.__name__:
        return Exhausted(answer.problem)
    return Abandoned("this attempt was abandoned: it may do nothing more")


def _resolved(value: Any) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(value)
    return done
