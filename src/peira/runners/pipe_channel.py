"""The channel of an attempt in a child process: each call is asked of the parent.

Whoever waits for a model stops nobody else. One attempt, one channel: what an attempt left behind (a thread,
a forked process) can ask nothing once the attempt has ended, and never in the name of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from peira.core.ids import Json, normalise
from peira.core.models import CallFailed, Reply, Request
from peira.errors import Abandoned, AttemptFailed, Exhausted, InDoubt, Invalid, Parked, PeiraError
from peira.runners.pipe import Answer, Ask
from peira.runners.pipe_line import OVER, Line

PROBLEMS: dict[str, Callable[[str], PeiraError]] = {
    "InDoubt": InDoubt,
    "CallFailed": CallFailed,
    "": AttemptFailed,
}
_reply = msgspec.json.Decoder(Reply).decode
Value = TypeVar("Value")


class PipeChannel:
    def __init__(self, line: Line, attempt: int) -> None:
        self._line, self._attempt = line, attempt
        self._open = True

    def close(self, last: msgspec.Struct) -> None:
        """Send the attempt's last message; nothing is asked in its name afterwards, and nobody waits."""
        self._line.only_here()
        with self._line.exclusively():
            self._open = False
            self._line.send(last)
        self._line.forget()

    def _ask(self, method: str, *arguments: Any) -> Future[Answer]:
        return self._line.ask(lambda number: self._question(number, method, arguments))

    def _question(self, number: int, method: str, arguments: tuple[Any, ...]) -> Ask:
        if not self._open:
            raise Abandoned(OVER)
        return Ask(method, list(arguments), self._attempt, number)

    def recall(self, key: str) -> bytes | None:
        known: bytes | None = _value(self._ask("recall", key))
        return known

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        return _read(self._ask("record", key, name, value), lambda _: None)

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        return _read(self._ask("call", model, msgspec.to_builtins(request), key), _reply)

    def observe(self, name: str, data: Json) -> None:
        _value(self._ask("observe", name, normalise(data, f"log {name!r}")))

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        _value(self._ask("report", dict(metrics), dict(about)))

    def attach(self, name: str, data: bytes, media: str) -> str:
        digest: str = _value(self._ask("attach", name, data, media))
        return digest

    def workdir(self) -> Path:
        return Path(_value(self._ask("workdir")))


def _value(asked: Future[Answer]) -> Any:
    """What was answered, once it is."""
    answer = asked.result()
    if problem := _problem(answer):
        raise problem
    return answer.value


def _read(asked: Future[Answer], read: Callable[[Any], Value]) -> Future[Value]:
    """What `read` makes of the answer."""
    found: Future[Value] = Future()
    asked.add_done_callback(lambda answered: _pass_on(answered, found, read))
    return found


def _pass_on(answered: Future[Answer], found: Future[Value], read: Callable[[Any], Value]) -> None:
    # A problem is not raised here: its trace is to lead to whoever asked, and not to who listens.
    problem = answered.exception() or _problem(answered.result())
    with suppress(InvalidStateError):  # whoever asked waits no more
        if problem is not None:
            found.set_exception(problem)
            return
        try:
            found.set_result(read(answered.result().value))
        except msgspec.MsgspecError as unreadable:
            found.set_exception(unreadable)


def _problem(answer: Answer) -> BaseException | None:
    """Why there is no value, if there is none."""
    if answer.abandoned:
        return _signal(answer)
    return PROBLEMS.get(answer.kind, Invalid)(answer.problem) if answer.problem else None


def _signal(answer: Answer) -> Abandoned:
    """Why the attempt may do nothing more."""
    if answer.kind == Parked.__name__:
        return Parked(float(answer.value), answer.problem)
    if answer.kind == Exhausted.__name__:
        return Exhausted(answer.problem)
    return Abandoned("this attempt was abandoned: it may do nothing more")
