"""A channel without an engine: keeps what an attempt says, for a test to look at."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from peira.core.ids import Json, digest_bytes
from peira.core.models import Reply, Request
from peira.errors import Abandoned, Invalid

Value = TypeVar("Value")
Replies = Sequence[Reply] | Callable[[Request], Reply | Future[Reply]]
ABANDONED = "this attempt was abandoned: it may do nothing more"


class MemoryChannel:
    """Everything said through it, in the order in which it was said.

    `steps` may be given, for a replay, and `replies`, which models give in this order, or a function that
    knows the reply to each request, now or later."""

    def __init__(
        self,
        steps: Mapping[str, bytes] | None = None,
        replies: Replies = (),
    ) -> None:
        self._reply = replies if callable(replies) else None
        self.replies = [] if callable(replies) else list(replies)
        self.asked: list[tuple[str, Request, str]] = []
        self._awaited: list[Future[Reply]] = []
        self.steps: dict[str, bytes] = dict(steps or {})
        self.observed: list[tuple[str, Json]] = []
        self.metrics: dict[str, float] = {}
        self.about: dict[str, str] = {}
        self.attached: dict[str, bytes] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._open = True

    def recall(self, key: str) -> bytes | None:
        self._check()
        return self.steps.get(key)

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        self._check()
        self.steps[key] = value
        return _resolved(None)

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        self._check()
        if not self.replies and self._reply is None:
            raise Invalid(f"model {model!r} was asked, and this channel has no reply for it")
        self.asked.append((model, request, key))
        reply = self._reply(request) if self._reply else self.replies.pop(0)
        awaited = reply if isinstance(reply, Future) else _resolved(reply)
        self._awaited.append(awaited)
        return awaited

    def observe(self, name: str, data: Json) -> None:
        self._check()
        self.observed.append((name, data))

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        self._check()
        self.metrics |= metrics
        self.about |= about

    def attach(self, name: str, data: bytes, media: str) -> str:
        self._check()
        self.attached[name] = data
        return digest_bytes(data)

    def workdir(self) -> Path:
        self._check()
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
        return Path(self._folder.name)

    def close(self) -> None:
        """From now on whoever uses it, or waits here, is told that the attempt was abandoned."""
        self._open = False
        for awaited in self._awaited:
            with suppress(InvalidStateError):  # it was answered
                awaited.set_exception(Abandoned(ABANDONED))
        if self._folder is not None:
            self._folder.cleanup()

    def _check(self) -> None:
        if not self._open:
            raise Abandoned(ABANDONED)


def _resolved(value: Value) -> Future[Value]:
    done: Future[Value] = Future()
    done.set_result(value)
    return done
