"""The answers in a store's ledger, for `replay:STORE.db`: what was bought once answers again, for nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec

import peira.models as shelf
from peira.api.stores import AnyStore, reading
from peira.core.contracts import CallQuery
from peira.core.models import Answer, CallFailed, Model, Reply, Request
from peira.core.registry import registry
from peira.core.state import Call
from peira.errors import Invalid, Unknown
from peira.spec.project import Project

MAGIC = b"SQLite format 3"
EVERY = 10_000_000
_answer = msgspec.json.Decoder(Answer).decode
_request = msgspec.json.Decoder(Request).decode


def is_store(path: Path) -> bool:
    """Whether there is a store at this path, and not a file of recorded lines."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def recorded_answers(project: Project, path: Path) -> dict[str, list[Reply]]:
    """The replies to each request, by its digest, first asked first."""
    found: dict[str, list[Reply]] = {}
    with reading(path, project) as store:
        for call in reversed(store.calls(CallQuery(state="answered", limit=EVERY))):
            reply = reply_of(call, store)
            if reply is not None:
                request = _request(store.get(call.request))
                found.setdefault(shelf.request_digest(request), []).append(reply)
    return found


def reply_of(call: Call, store: AnyStore) -> Reply | None:
    """What the answer says; None if it says nothing, or nobody here can read it."""
    provider, _, name = call.model.partition(":")
    raw = store.get(call.blob) if call.blob else bytes(call.value)
    try:
        model: Model = registry.make("model", provider, model=name)
        return model.read(_answer(raw))
    except (CallFailed, Invalid, Unknown):
        return None
