"""Recorded answers of a store, for `replay:STORE.db`."""

from __future__ import annotations

from pathlib import Path

import msgspec

import peira.models as models
from peira.app.store.access import AnyStore, reading
from peira.core.contracts import CallQuery
from peira.core.log.state import Call
from peira.core.models import Answer, Model, Reply, Request
from peira.core.registry import registry
from peira.errors import CallFailed, Invalid, Unknown
from peira.spec.project import Project

MAGIC = b"SQLite format 3"
"""The first bytes of a SQLite file."""
EVERY = 10_000_000
_answer = msgspec.json.Decoder(Answer).decode
_request = msgspec.json.Decoder(Request).decode


def is_store(path: Path) -> bool:
    """Whether the file at this path is a store, and not a file of recorded lines."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def recorded_answers(project: Project, path: Path) -> dict[str, list[Reply]]:
    """The replies to each request, by the request's digest, oldest first."""
    found: dict[str, list[Reply]] = {}
    with reading(path, project) as store:
        for call in reversed(store.calls(CallQuery(state="answered", limit=EVERY))):
            reply = reply_of(call, store)
            if reply is not None:
                request = _request(store.get(call.request))
                found.setdefault(models.request_digest(request), []).append(reply)
    return found


def reply_of(call: Call, store: AnyStore) -> Reply | None:
    """The reply in a recorded answer; None if there is none, or no provider here can read it."""
    provider, _, name = call.model.partition(":")
    raw = store.get(call.blob) if call.blob else bytes(call.value)
    try:
        model: Model = registry.make("model", provider, model=name)
        return model.read(_answer(raw))
    except (CallFailed, Invalid, Unknown, msgspec.MsgspecError):
        return None
