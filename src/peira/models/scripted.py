"""`scripted:`: a model that says what it is told to. Public, so that nobody needs to patch.

It answers from a list (the nth answer to the nth send; after the last, a clear failure), from a mapping (by
the text of the last message, "*" for all others) or by a function of the request; without any of them it says
the last message back. An answer is a text, or a mapping in which all is optional:

    {"text", "tool_calls", "usage", "finish", "model", "reasoning", "texts", "logprobs", "delay"}
    {"fail": "free" | "doubt" | "permanent", "message", "retry_after", "status", "delay"}
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from peira.core.fingerprint import fingerprint
from peira.core.ids import Json, digest
from peira.core.models import Answer, CallFailed, Reply, Request, Usage
from peira.core.registry import nearest
from peira.errors import Invalid

Turn = str | Mapping[str, Json]
Answers = Sequence[Turn] | Mapping[str, Turn] | Callable[[Request], Turn]
FAILURES = ("free", "doubt", "permanent")
FAILURE = ("fail", "message", "retry_after", "status", "delay")
SPEECH = ("text", "tool_calls", "usage", "finish", "model", "reasoning", "texts", "logprobs", "delay")


class ScriptedModel:
    """A `Model`. `sent` holds every request it was sent, in order."""

    def __init__(self, model: str = "", *, answers: Answers | None = None, delay: float = 0.0) -> None:
        self.name = f"scripted:{model}"
        self.sent: list[Request] = []
        self._model, self._answers, self._delay = model, answers, delay
        self.identity: Json = {"provider": "scripted", "model": model, "answers": _identity(answers)}

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def check(self) -> None:
        """It needs nothing."""

    async def send(self, request: Request) -> Answer:
        began = time.perf_counter()
        turn = self._next(request)
        self.sent.append(request)
        said = _checked({"text": turn} if isinstance(turn, str) else turn)
        delay: Json = said.pop("delay", self._delay)
        await asyncio.sleep(delay)
        if "fail" in said:
            raise _failure(**said)
        body = msgspec.json.encode(
            {"model": self._model, "finish": "stop", "usage": _usage(request, said), **said}
        )
        return Answer(200, body, time.perf_counter() - began)

    def _next(self, request: Request) -> Turn:
        answers, asked = self._answers, last_text(request)
        if answers is None:
            return asked
        if callable(answers):
            return answers(request)
        if isinstance(answers, Mapping):
            with suppress(KeyError):
                return answers[asked] if asked in answers else answers["*"]
            return {"fail": "permanent", "message": f"the script has no answer to {asked[:100]!r}"}
        if len(self.sent) < len(answers):
            return answers[len(self.sent)]
        return {"fail": "permanent", "message": f"the script ended after {len(answers)} answers"}

    def read(self, answer: Answer) -> Reply:
        return read_reply(answer, self.name)

    async def close(self) -> None:
        """It holds nothing."""


def read_reply(answer: Answer, name: str) -> Reply:
    """The reply in an answer whose body is a reply itself."""
    try:
        reply = msgspec.json.decode(answer.body, type=Reply)
    except msgspec.DecodeError as problem:
        raise CallFailed(f"{name}: an answer of an unknown shape: {problem}") from None
    return msgspec.structs.replace(reply, latency=answer.latency, first_token=answer.first_token)


def last_text(request: Request) -> str:
    """The text of the last message."""
    content: Json = request.messages[-1].get("content") if request.messages else ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _checked(turn: Mapping[str, Json]) -> dict[str, Json]:
    known = FAILURE if "fail" in turn else SPEECH
    if unknown := [part for part in turn if part not in known]:
        raise Invalid(f"a scripted answer has no {part!r}{nearest(part, known)}" for part in unknown)
    return dict(turn) if "fail" in turn else {"text": "", **turn}


def _usage(request: Request, said: Mapping[str, Json]) -> Usage:
    """Words for tokens, unless the script says otherwise."""
    return Usage(input=len(last_text(request).split()), output=len(str(said.get("text", "")).split()))


def _failure(
    fail: str, message: str = "scripted to fail", retry_after: float | None = None, status: int = 0
) -> CallFailed:
    if fail not in FAILURES:
        raise Invalid(f"fail: expected one of {', '.join(FAILURES)}, not {fail!r}")
    return CallFailed(
        message, free=fail == "free", doubt=fail == "doubt", retry_after=retry_after, status=status
    )


def _identity(answers: Answers | None) -> Json:
    if callable(answers):
        return fingerprint(answers).digest
    if isinstance(answers, Mapping):
        return digest({key: _plain(turn) for key, turn in answers.items()})
    return None if answers is None else digest([_plain(turn) for turn in answers])


def _plain(turn: Turn) -> Json:
    return turn if isinstance(turn, str) else dict(turn)
