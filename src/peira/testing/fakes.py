"""Fakes for tests: a manual clock, a channel in memory, a scripted queue, and held replies of models."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from peira.core.contracts import Attempt, Runner
from peira.core.ids import Json, digest_bytes
from peira.core.models import Reply, Request
from peira.core.people.questions import PersonAnswer, PersonQuestion
from peira.errors import Abandoned, Invalid, Waiting
from peira.models.providers.scripted import last_text


class ManualClock:
    """A clock that moves only when a test advances it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now += seconds


Value = TypeVar("Value")
Replies = Sequence[Reply] | Callable[[Request], Reply | Future[Reply]]
ABANDONED = "this attempt was abandoned: it may do nothing more"


class MemoryChannel:
    """A channel that records everything in memory, in order.

    `steps` may be given, for a replay, and `replies`: the replies of models in order, or a function from a
    request to its reply or to a future of it. `answers` are those of people, by prompt; whoever asks anything
    else waits, and so does who waits for tasks that are not in `ended`.
    """

    def __init__(
        self,
        steps: Mapping[str, bytes] | None = None,
        replies: Replies = (),
        answers: Mapping[str, Json] | None = None,
        ended: Collection[str] = (),
    ) -> None:
        self.answers, self.ended = dict(answers or {}), set(ended)
        self.questions: list[PersonQuestion] = []
        self._reply = replies if callable(replies) else None
        self.replies = [] if callable(replies) else list(replies)
        self.asked: list[tuple[str, Request, str]] = []
        self.accounts: list[str] = []
        self._awaited: list[Future[Reply]] = []
        self.steps: dict[str, bytes] = dict(steps or {})
        self.observed: list[tuple[str, Json]] = []
        self.metrics: dict[str, float] = {}
        self.about: dict[str, str] = {}
        self.attached: dict[str, bytes] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._open = True

    @property
    def label(self) -> str:
        return f"memory-{id(self):x}"

    @property
    def closed(self) -> bool:
        return not self._open

    def recall(self, key: str) -> bytes | None:
        self._check()
        return self.steps.get(key)

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        self._check()
        self.steps[key] = value
        return _resolved(None)

    def call(self, model: str, request: Request, key: str, account: str = "") -> Future[Reply]:
        self._check()
        self.accounts.append(account)
        if not self.replies and self._reply is None:
            raise Invalid(f"model {model!r} was asked, and this channel has no reply for it")
        self.asked.append((model, request, key))
        reply = self._reply(request) if self._reply else self.replies.pop(0)
        awaited = reply if isinstance(reply, Future) else _resolved(reply)
        self._awaited.append(awaited)
        return awaited

    def consult(self, questions: Sequence[PersonQuestion]) -> list[PersonAnswer]:
        self._check()
        self.questions += questions
        if any(one.prompt not in self.answers for one in questions):
            raise Waiting("a person is asked")
        return [PersonAnswer("answered", self.answers[one.prompt], "a test") for one in questions]

    def await_tasks(self, tasks: Sequence[str]) -> None:
        self._check()
        if not self.ended.issuperset(tasks):
            raise Waiting("other tasks are not over")

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
        """Abandon the attempt: later calls, and unanswered ones, raise Abandoned."""
        self._open = False
        for awaited in self._awaited:
            with suppress(InvalidStateError):  # it was answered already
                awaited.set_exception(Abandoned(ABANDONED))
        if self._folder is not None:
            self._folder.cleanup()

    def _check(self) -> None:
        """Raise Abandoned if the channel is closed."""
        if not self._open:
            raise Abandoned(ABANDONED)


def _resolved(value: Value) -> Future[Value]:
    """A future that has this value."""
    done: Future[Value] = Future()
    done.set_result(value)
    return done


PATIENCE = 60.0
LOOK_AGAIN = 0.02


@dataclass(frozen=True)
class AttemptEnd:
    """What a runner reported for one attempt."""

    value: object
    failure: BaseException | None


class ScriptedQueue:
    """A queue with given attempts, which records what a runner does with them.

    `refused` attempts may not begin; the ends of abandoned ones are in `late`; models give `replies`. Waiting
    for something that does not happen raises TimeoutError.
    """

    def __init__(
        self, attempts: Sequence[Attempt] = (), refused: Sequence[Attempt] = (), replies: Replies = ()
    ) -> None:
        self._replies = replies
        self._waiting = list(attempts)
        self._refused = {attempt.key for attempt in refused}
        self._closed = False
        self._changed = threading.Condition()
        self._abandoned: set[tuple[str, int]] = set()
        self._under_way: dict[tuple[str, int], Attempt] = {}
        self.begun: dict[tuple[str, int], MemoryChannel] = {}
        self.turned_away: list[Attempt] = []
        self.ended: dict[tuple[str, int], list[AttemptEnd]] = {}
        self.late: dict[tuple[str, int], list[AttemptEnd]] = {}

    def take(self, n: int, at_once: int = 1) -> list[Attempt]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            taken, self._waiting = self._waiting[:n], self._waiting[n:]
            return taken

    def begin(self, attempt: Attempt) -> MemoryChannel | None:
        with self._changed:
            self._changed.notify_all()
            if attempt.key in self._refused:
                self.turned_away.append(attempt)
                return None
            self._under_way[attempt.key] = attempt
            return self.begun.setdefault(attempt.key, MemoryChannel(replies=self._replies))

    def end(self, attempt: Attempt, outcome: object, failure: BaseException | None) -> None:
        with self._changed:
            self._under_way.pop(attempt.key, None)
            self.begun[attempt.key].close()
            ends = self.late if attempt.key in self._abandoned else self.ended
            ends.setdefault(attempt.key, []).append(AttemptEnd(outcome, failure))
            self._changed.notify_all()

    def back(self, attempts: Sequence[Attempt]) -> None:
        with self._changed:
            self._waiting[:0] = attempts
            self._changed.notify_all()

    # For tests

    def offer(self, *attempts: Attempt) -> None:
        """Add attempts."""
        with self._changed:
            self._waiting += attempts
            self._changed.notify_all()

    def close(self) -> None:
        """Announce that there will be no more attempts: waiting workers end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self, attempt: Attempt, runner: Runner) -> None:
        """Abandon an attempt, as the engine does on a timeout or a cancellation."""
        with self._changed:
            self._abandoned.add(attempt.key)
            self._under_way.pop(attempt.key, None)
            self.begun[attempt.key].close()
        runner.abandon(attempt)

    def abandon_all(self, runner: Runner) -> None:
        """Abandon all attempts that have begun and not ended."""
        for attempt in list(self._under_way.values()):
            self.abandon(attempt, runner)

    def wait_begun(self, *attempts: Attempt) -> None:
        """Wait until all of them have begun."""
        self._wait(lambda: all(attempt.key in self.begun for attempt in attempts), "begin")

    def wait_ended(self, *attempts: Attempt) -> list[AttemptEnd]:
        """Wait until all of them have ended, and return what was reported."""
        self._wait(lambda: all(attempt.key in self.ended for attempt in attempts), "end")
        return [left for attempt in attempts for left in self.ended[attempt.key]]

    def wait_late(self, attempt: Attempt) -> None:
        """Wait until an abandoned attempt has ended by itself."""
        self._wait(lambda: attempt.key in self.late, "end late")

    def wait_said(self, attempt: Attempt) -> None:
        """Wait until the attempt has logged something."""
        self.wait_begun(attempt)
        self._wait(lambda: bool(self.begun[attempt.key].observed), "say anything")

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds, or raise TimeoutError."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not done():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"attempts did not {what} within {PATIENCE:g} s")
                self._changed.wait(LOOK_AGAIN)


class HeldReplies:
    """The `replies` of a queue, held until a test releases them; `asked` are the questions so far.

    Waiting for questions that are not asked raises TimeoutError.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._held: dict[str, Future[Reply]] = {}
        self._changed = threading.Condition()

    def __call__(self, request: Request) -> Future[Reply]:
        """The future reply to a request."""
        with self._changed:
            question = last_text(request)
            self.asked.append(question)
            self._held[question] = held = Future[Reply]()
            self._changed.notify_all()
            return held

    def wait_asked(self, *questions: str) -> None:
        """Wait until all these questions wait for their answers."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._held.keys() >= set(questions), PATIENCE):
                missing = ", ".join(question for question in questions if question not in self._held)
                raise TimeoutError(f"nobody asked {missing} within {PATIENCE:g} s")

    def answer(self, question: str, reply: str | BaseException) -> None:
        """PersonAnswer a question, or fail it; ignored if its future was cancelled."""
        held = self._held.pop(question)
        with suppress(InvalidStateError):
            if isinstance(reply, BaseException):
                held.set_exception(reply)
            else:
                held.set_result(Reply(reply))
