"""How a stored run came about, for its report: read from the store when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import peira.api as rooms
from peira.analysis.background import Background, Exchange
from peira.api.stores import AnyStore, reading
from peira.core.models import Answer
from peira.core.state import Call, Run
from peira.plan.manifest import Manifest, layout_of
from peira.plan.provenance import read_provenance
from peira.spec.project import Project

CHUNK = 500
_answer = msgspec.json.Decoder(Answer).decode


def background_of(
    where: Path | AnyStore, store: Any, run: Run, manifest: Manifest, standing: Sequence[str]
) -> Background:
    def order() -> Iterator[str]:
        with reading(where, Project()) as opened:
            layout = layout_of(manifest, opened.get)
        return (layout.trial_id(layout.place(number)) for number in layout.in_run_order())

    def exchanges(keys: Sequence[str]) -> Mapping[str, Exchange]:
        with reading(where, Project()) as opened:
            return dict(_exchanges(opened, keys))

    kept = read_provenance(store.get(run.provenance)) if run.provenance else None
    return Background(run, manifest, kept, tuple(standing), order, exchanges)


def _exchanges(store: Any, keys: Sequence[str]) -> Iterator[tuple[str, Exchange]]:
    for at in range(0, len(keys), CHUNK):
        found = store.find("call", keys[at : at + CHUNK])
        calls = [call for call in found.values() if call.request]
        for call, told in zip(calls, rooms.shown(store, calls), strict=True):
            asked = msgspec.json.decode(store.get(call.request))
            facts = (told.input, told.output, told.cost)
            yield call.key, Exchange(call.key, call.model, told.status, asked, _said(call, store), *facts)


def _said(call: Call, store: Any) -> str:
    """The text of the reply; of an answer that nobody here can read, the answer as it was received."""
    raw = store.get(call.blob) if call.blob else bytes(call.value)
    if not raw:
        return call.why
    reply = rooms.reply_of(call, store)
    return reply.text if reply is not None else _answer(raw).body.decode("utf-8", "replace")
