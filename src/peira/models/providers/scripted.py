"""`scripted:`: a model that gives the answers it is configured with. Public, for tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from peira.core.code.fingerprint import fingerprint
from peira.core.ids import Json, digest
from peira.core.models import Answer, Reply, Request, Usage, text_listener
from peira.core.registry import nearest
from peira.errors import CallFailed, Invalid

Turn = str | Mapping[str, Json]
"""An answer: its text, or a mapping with parts of a reply or of a failure."""
Answers = Sequence[Turn] | Mapping[str, Turn] | Callable[[Request], Turn]
"""Answers in order, by the last message ("*" for any other), or from a function."""
FAILURES = ("free", "doubt", "permanent")
FAILURE = ("fail", "message", "retry_after", "status", "delay")
SPEECH = (
    *("text", "tool_calls", "usage", "finish", "model", "reasoning", "texts", "logprobs", "delay"),
    *("refusal", "thinking", "id"),
)


class ScriptedModel:
    """A model with scripted answers; without any it repeats the prompt.

    `sent` has every request, in order.
    """

    def __init__(self, model: str = "", *, answers: Answers | None = None, delay: float = 0.0) -> None:
        self.name = f"scripted:{model}"
        self.sent: list[Request] = []
        self._model, self._answers, self._delay = model, answers, delay
        self.identity: Json = {"provider": "scripted", "model": model, "answers": _identity(answers)}

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def check(self) -> None:
        """Does nothing: it needs no key."""

    async def send(self, request: Request) -> Answer:
        """The next scripted answer, after its delay; CallFailed if it is scripted to fail."""
        began = time.perf_counter()
        turn = self._next(request)
        self.sent.append(request)
        parts = _checked({"text": turn} if isinstance(turn, str) else turn)
        delay: Json = parts.pop("delay", self._delay)
        await _spoken(str(parts.get("text", "")), float(delay), "fail" in parts)
        if "fail" in parts:
            raise _failure(**parts)
        body = msgspec.json.encode(
            {"model": self._model, "finish": _finish(parts), "usage": _usage(request, parts), **parts}
        )
        return Answer(200, body, time.perf_counter() - began)

    def _next(self, request: Request) -> Turn:
        """The next turn of the script; a permanent failure if there is none."""
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
        """The reply in a raw answer."""
        return read_reply(answer, self.name)

    async def close(self) -> None:
        """Does nothing: there is nothing to release."""


async def _spoken(text: str, delay: float, silent: bool) -> None:
    """Wait as long as the answer takes, and stream it word by word to a listener meanwhile."""
    listener, words = text_listener.get(), text.split(" ")
    if listener is None or silent or not text:
        await asyncio.sleep(delay)
        return
    for n, word in enumerate(words):
        await asyncio.sleep(delay / len(words))
        listener(word if n == len(words) - 1 else f"{word} ")


def read_reply(answer: Answer, name: str) -> Reply:
    """The reply in an answer whose body is an encoded reply."""
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
    """The turn as a mapping; Invalid with every unknown part."""
    known = FAILURE if "fail" in turn else SPEECH
    if unknown := [part for part in turn if part not in known]:
        raise Invalid(f"a scripted answer has no {part!r}{nearest(part, known)}" for part in unknown)
    return dict(turn) if "fail" in turn else {"text": turn.get("refusal", ""), **turn}


def _finish(parts: Mapping[str, Json]) -> str:
    """Why a scripted answer ended, unless the script says so."""
    return "refusal" if parts.get("refusal") else "stop"


def _usage(request: Request, parts: Mapping[str, Json]) -> Usage:
    """Counts words as tokens, unless the script gives a usage."""
    return Usage(input=len(last_text(request).split()), output=len(str(parts.get("text", "")).split()))


def _failure(
    fail: str, message: str = "scripted to fail", retry_after: float | None = None, status: int = 0
) -> CallFailed:
    """The failure that a turn describes."""
    if fail not in FAILURES:
        raise Invalid(f"fail: expected one of {', '.join(FAILURES)}, not {fail!r}")
    return CallFailed(
        message, free=fail == "free", doubt=fail == "doubt", retry_after=retry_after, status=status
    )


def _identity(answers: Answers | None) -> Json:
    """A digest of the answers; of a function, its fingerprint."""
    if callable(answers):
        return fingerprint(answers).digest
    if isinstance(answers, Mapping):
        return digest({key: _plain(turn) for key, turn in answers.items()})
    return None if answers is None else digest([_plain(turn) for turn in answers])


def _plain(turn: Turn) -> Json:
    return turn if isinstance(turn, str) else dict(turn)
