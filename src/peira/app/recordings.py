"""Recorded answers of a store, for `replay:STORE.db`."""

from __future__ import annotations

from pathlib import Path

import msgspec

import peira.models as models
from peira.app.store.access import reading
from peira.core.contracts import CallQuery
from peira.core.models import Reply, Request
from peira.engine.transcripts import reply_of
from peira.spec.project import Project

MAGIC = b"SQLite format 3"
"""The first bytes of a SQLite file."""
EVERY = 10_000_000
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
