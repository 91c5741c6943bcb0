"""`replay:FILE` and `replay:STORE.db`: answers recorded before, or elsewhere, and never bought again.

A file has one JSON object on each line: the digest of a request, or the request itself, and the reply or only
its text. Several answers to one request are given in turn, and then again from the first. `record` writes
such lines; of a store, all answers in its ledger are meant.

    {"digest": "3f...", "reply": {"text": "Paris", "model": "gpt-5-mini"}}
    {"request": {"messages": [{"role": "user", "content": "Capital of France?"}]}, "text": "Paris"}
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from peira.core.ids import Json, digest, digest_bytes, short
from peira.core.models import Answer, CallFailed, Reply, Request
from peira.errors import Invalid, Unknown
from peira.models.scripted import last_text, read_reply


class Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of a recording."""

    digest: str = ""
    request: Request | None = None
    reply: Reply | None = None
    text: str | None = None


def request_digest(request: Request) -> str:
    """What a recorded answer is found by."""
    return digest(msgspec.to_builtins(request))


class ReplayModel:
    """A `Model` that answers what is in its file, and says plainly when something is not.

    `recording` has the answers by the digests of their requests, if they are not in a file."""

    def __init__(self, model: str, *, recording: Mapping[str, Sequence[Reply]] | None = None) -> None:
        self.name = f"replay:{model}"
        self._path, self._recording = Path(model), recording
        self._given: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @property
    def identity(self) -> Json:
        """The recorded answers, wherever they are."""
        if self._recording is None:
            return {"provider": "replay", "answers": digest_bytes(self._bytes)}
        answers = sorted((key, list(replies)) for key, replies in self._recording.items())
        return {"provider": "replay", "answers": digest_bytes(msgspec.json.encode(answers))}

    def check(self) -> None:
        """Unknown or Invalid if the file is missing or is no recording."""
        _ = self._replies

    async def send(self, request: Request) -> Answer:
        key = request_digest(request)
        if key not in self._replies:
            asked = last_text(request)[:80]
            raise CallFailed(f"{self.name}: no answer recorded for request {short(key)} ({asked!r})")
        replies = self._replies[key]
        reply = replies[self._given[key] % len(replies)]
        self._given[key] += 1
        return Answer(200, msgspec.json.encode(reply), 0.0)

    def read(self, answer: Answer) -> Reply:
        return read_reply(answer, self.name)

    async def close(self) -> None:
        """It holds nothing."""

    @cached_property
    def _bytes(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as problem:
            raise Unknown(f"{self.name}: no recording: {problem.strerror}") from None

    @cached_property
    def _replies(self) -> Mapping[str, Sequence[Reply]]:
        if self._recording is not None:
            return self._recording
        found: dict[str, list[Reply]] = {}
        problems = [said for said in self._read(found) if said]
        if problems:
            raise Invalid(problems)
        return found

    def _read(self, found: dict[str, list[Reply]]) -> Iterator[str]:
        """Fills `found`, and says what is wrong with each line."""
        for number, text in enumerate(self._bytes.splitlines(), 1):
            if text.strip():
                yield from (f"{self._path.name}:{number}: {said}" for said in _take(text, found))


def _take(text: bytes, found: dict[str, list[Reply]]) -> Iterator[str]:
    try:
        line = msgspec.json.decode(text, type=Line)
    except msgspec.DecodeError as problem:
        yield str(problem)
        return
    key = line.digest or (request_digest(line.request) if line.request else "")
    reply = line.reply or (None if line.text is None else Reply(line.text))
    if not key or reply is None:
        yield "expected a digest or a request, and a reply or a text"
    else:
        found.setdefault(key, []).append(reply)


def record(path: Path | str, request: Request, reply: Reply) -> None:
    """Append an answer to a file that `replay:` reads; it is on disk when this returns."""
    line = Line(digest=request_digest(request), request=request, reply=reply)
    with Path(path).open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())
