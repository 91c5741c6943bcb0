"""`replay:FILE` and `replay:STORE.db`: answers that were recorded before; never buys any."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from peira.core.ids import Json, digest, digest_bytes, short
from peira.core.models import Answer, Reply, Request
from peira.errors import CallFailed, Invalid, Unknown
from peira.models.providers.scripted import last_text, read_reply


class ReplayLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of a recording: a request or its digest, and a reply or its text."""

    digest: str = ""
    request: Request | None = None
    reply: Reply | None = None
    text: str | None = None


def request_digest(request: Request) -> str:
    """The digest by which recorded answers are found."""
    return digest(msgspec.to_builtins(request))


class ReplayModel:
    """A model that replays recorded answers, and fails for requests that have none.

    `recording` has the answers by the digests of their requests, if they are not in a file.
    """

    def __init__(self, model: str, *, recording: Mapping[str, Sequence[Reply]] | None = None) -> None:
        self.name = f"replay:{model}"
        self._path, self._recording = Path(model), recording
        self._given: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @property
    def identity(self) -> Json:
        """The digest of the recorded answers, wherever they are stored."""
        if self._recording is None:
            return {"provider": "replay", "answers": digest_bytes(self._bytes)}
        answers = sorted((key, list(replies)) for key, replies in self._recording.items())
        return {"provider": "replay", "answers": digest_bytes(msgspec.json.encode(answers))}

    def check(self) -> None:
        """Raise Unknown or Invalid if the file is missing or is not a recording."""
        _ = self._replies

    async def send(self, request: Request) -> Answer:
        """The next recorded answer to the request, cyclically; CallFailed if there is none."""
        key = request_digest(request)
        if key not in self._replies:
            asked = last_text(request)[:80]
            raise CallFailed(f"{self.name}: no answer recorded for request {short(key)} ({asked!r})")
        replies = self._replies[key]
        reply = replies[self._given[key] % len(replies)]
        self._given[key] += 1
        return Answer(200, msgspec.json.encode(reply), 0.0)

    def read(self, answer: Answer) -> Reply:
        """The reply in a raw answer."""
        return read_reply(answer, self.name)

    async def close(self) -> None:
        """Does nothing: there is nothing to release."""

    @cached_property
    def _bytes(self) -> bytes:
        """The content of the file; Unknown if it cannot be read."""
        try:
            return self._path.read_bytes()
        except OSError as problem:
            raise Unknown(f"{self.name}: no recording: {problem.strerror}") from None

    @cached_property
    def _replies(self) -> Mapping[str, Sequence[Reply]]:
        """The replies by digests of requests; Invalid with every problem."""
        if self._recording is not None:
            return self._recording
        found: dict[str, list[Reply]] = {}
        problems = [problem for problem in self._read(found) if problem]
        if problems:
            raise Invalid(problems)
        return found

    def _read(self, found: dict[str, list[Reply]]) -> Iterator[str]:
        """Fill `found` with the answers of the file, and yield every problem."""
        for number, text in enumerate(self._bytes.splitlines(), 1):
            if text.strip():
                yield from (f"{self._path.name}:{number}: {problem}" for problem in _take(text, found))


def _take(text: bytes, found: dict[str, list[Reply]]) -> Iterator[str]:
    """Add the answer of one line to `found`, or yield what is wrong with it."""
    try:
        line = msgspec.json.decode(text, type=ReplayLine)
    except (msgspec.DecodeError, RecursionError) as problem:
        yield str(problem)
        return
    key = line.digest or (request_digest(line.request) if line.request else "")
    reply = line.reply or (None if line.text is None else Reply(line.text))
    if not key or reply is None:
        yield "expected a digest or a request, and a reply or a text"
    else:
        found.setdefault(key, []).append(reply)


def record(path: Path | str, request: Request, reply: Reply) -> None:
    """Append an answer to a file that `replay:` reads; it is durable when this returns."""
    line = ReplayLine(digest=request_digest(request), request=request, reply=reply)
    with Path(path).open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())
