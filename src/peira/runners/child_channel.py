"""The child's end of the pipe, and the channel of an attempt in a child process.

Each call on the channel is a request to the parent; requests are numbered and answered in any order.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from peira.core.codec import encode
from peira.core.ids import Json, normalise
from peira.core.models import Reply, Request
from peira.core.people.questions import PersonAnswer, PersonQuestion
from peira.errors import (
    Abandoned,
    AttemptFailed,
    CallFailed,
    Exhausted,
    InDoubt,
    Invalid,
    ModelRefused,
    Parked,
    PeiraError,
    Unanswered,
    Waiting,
)
from peira.runners.messages import (
    AnswerMessage,
    AttemptMessage,
    RequestMessage,
    SetupMessage,
    receive_in_child,
    send,
)

OVER = "this attempt has ended: it may do nothing more"


class ChildPipe:
    """The child's end of the pipe: sorts incoming messages into attempts and answers to requests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owner = os.getpid()
        self._sending = threading.RLock()
        first = receive_in_child(connection)
        assert isinstance(first, SetupMessage)
        self.setup = first
        self.work: queue.SimpleQueue[AttemptMessage] = queue.SimpleQueue()
        self._numbers = count(1)
        # The thread that removes a request from this dict resolves it. The listening thread takes no lock: a
        # sender may hold it until the parent reads, and the parent may be blocked until it is read here.
        self._pending: dict[int, Future[AnswerMessage]] = {}

    def listen(self, at_end: Callable[[], None]) -> None:
        """Receive messages until the pipe is closed, then call `at_end`."""
        while True:
            try:
                message = receive_in_child(self._connection)
            except (EOFError, OSError):
                at_end()
                return
            if isinstance(message, AttemptMessage):
                self.work.put(message)
            elif isinstance(message, AnswerMessage):
                self._settle(message)

    def _settle(self, answer: AnswerMessage) -> None:
        """Resolve the request that the answer belongs to."""
        pending = self._pending.pop(answer.number, None)
        if pending is not None:  # else its attempt has ended
            pending.set_result(answer)

    def send(self, message: msgspec.Struct) -> None:
        """Send a message, from any thread."""
        self.only_here()
        with self._sending:
            send(self._connection, message)

    def ask(self, question: Callable[[int], RequestMessage]) -> Future[AnswerMessage]:
        """Send the request that `question` makes with a new number; the future gets its answer."""
        self.only_here()
        pending: Future[AnswerMessage] = Future()
        with self._sending:
            message = question(next(self._numbers))
            self._pending[message.number] = pending
            send(self._connection, message)
        return pending

    def forget(self) -> None:
        """Fail all unanswered requests with Abandoned."""
        while self._pending:
            with suppress(KeyError):  # its answer arrived just now
                self._pending.popitem()[1].set_exception(Abandoned(OVER))

    def exclusively(self) -> threading.RLock:
        """The lock that senders hold."""
        return self._sending

    def only_here(self) -> None:
        """End this process if user code forked it: the copy of the pipe must not be used."""
        if os.getpid() != self._owner:
            os._exit(0)


PROBLEMS: dict[str, Callable[[str], PeiraError]] = {
    "InDoubt": InDoubt,
    "CallFailed": CallFailed,
    "ModelRefused": ModelRefused,
    "Unanswered": Unanswered,
    "": AttemptFailed,
}
_answers = msgspec.json.Decoder(list[PersonAnswer]).decode
_reply = msgspec.json.Decoder(Reply).decode
Value = TypeVar("Value")


class PipeChannel:
    """The channel of one attempt, which sends every call to the parent."""

    def __init__(self, pipe: ChildPipe, attempt: int) -> None:
        self._pipe, self._attempt = pipe, attempt
        self._open = True

    def close(self, last: msgspec.Struct) -> None:
        """Send the attempt's last message; later calls, and those unanswered, raise Abandoned."""
        self._pipe.only_here()
        with self._pipe.exclusively():
            self._open = False
            self._pipe.send(last)
        self._pipe.forget()

    @property
    def label(self) -> str:
        return f"{self._pipe.setup.label}/{self._attempt}"

    @property
    def closed(self) -> bool:
        return not self._open

    def _ask(self, method: str, *arguments: Any) -> Future[AnswerMessage]:
        """Send a call of a channel's method to the parent."""
        return self._pipe.ask(lambda number: self._question(number, method, arguments))

    def _question(self, number: int, method: str, arguments: tuple[Any, ...]) -> RequestMessage:
        """The request message; Abandoned if the attempt has ended."""
        if not self._open:
            raise Abandoned(OVER)
        return RequestMessage(method, list(arguments), self._attempt, number)

    def recall(self, key: str) -> bytes | None:
        known: bytes | None = _value(self._ask("recall", key))
        return known

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        return _read(self._ask("record", key, name, value), lambda _: None)

    def call(self, model: str, request: Request, key: str, account: str = "") -> Future[Reply]:
        return _read(self._ask("call", model, msgspec.to_builtins(request), key, account), _reply)

    def consult(self, questions: Sequence[PersonQuestion]) -> list[PersonAnswer]:
        return _answers(_value(self._ask("consult", [encode(one) for one in questions])))

    def await_tasks(self, tasks: Sequence[str]) -> None:
        _value(self._ask("await_tasks", list(tasks)))

    def observe(self, name: str, data: Json) -> None:
        _value(self._ask("observe", name, normalise(data, f"log {name!r}")))

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        _value(self._ask("report", dict(metrics), dict(about)))

    def attach(self, name: str, data: bytes, media: str) -> str:
        digest: str = _value(self._ask("attach", name, data, media))
        return digest

    def workdir(self) -> Path:
        return Path(_value(self._ask("workdir")))


def _value(pending: Future[AnswerMessage]) -> Any:
    """Wait for the answer and return its value, or raise its problem."""
    answer = pending.result()
    if problem := _problem(answer):
        raise problem
    return answer.value


def _read(pending: Future[AnswerMessage], read: Callable[[Any], Value]) -> Future[Value]:
    """A future of the answer's value, decoded by `read`."""
    found: Future[Value] = Future()
    pending.add_done_callback(lambda answered: _pass_on(answered, found, read))
    return found


def _pass_on(answered: Future[AnswerMessage], found: Future[Value], read: Callable[[Any], Value]) -> None:
    """Resolve the future with the decoded value, or with the problem."""
    # Not raised here: its traceback should lead to the code that asked, not to the listening thread.
    problem = answered.exception() or _problem(answered.result())
    with suppress(InvalidStateError):  # the future was cancelled
        if problem is not None:
            found.set_exception(problem)
            return
        try:
            found.set_result(read(answered.result().value))
        except msgspec.MsgspecError as unreadable:
            found.set_exception(unreadable)


def _problem(answer: AnswerMessage) -> BaseException | None:
    """The exception that an answer stands for; None if it has a value."""
    if answer.abandoned:
        return _signal(answer)
    return PROBLEMS.get(answer.kind, Invalid)(answer.problem) if answer.problem else None


def _signal(answer: AnswerMessage) -> Abandoned:
    """The signal that ends the attempt."""
    if answer.kind == Parked.__name__:
        return Parked(float(answer.value), answer.problem)
    if answer.kind == Exhausted.__name__:
        return Exhausted(answer.problem)
    if answer.kind == Waiting.__name__:
        return Waiting(answer.problem)
    return Abandoned("this attempt was abandoned: it may do nothing more")
