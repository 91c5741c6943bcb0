"""Telling a store what its tasks are about, so that other programs can read it (`trials`, `scores`, `calls`).

It is done when a run ends, and by `peira migrate` for runs that were killed or merged, or are of before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from peira.app.store.access import AnyStore
from peira.app.store.results import manifest_of
from peira.core.contracts import CallQuery, CallWords, ListsPlans, RunQuery
from peira.core.ids import Json
from peira.core.log.events import Status
from peira.core.log.state import Run
from peira.engine.transcripts import call_summary
from peira.models.secrets import value_without_keys, without_keys
from peira.plan.listing import Noted, PlanListing, as_text, beginning
from peira.plan.manifest import Manifest
from peira.results.reader import ResultReader

ALL = 2**31
CHUNK = 5000


def list_calls(store: AnyStore, run: str = "") -> None:
    """Tell the store what the calls of a run said, or all calls."""
    if isinstance(store, ListsPlans):
        calls = [call.key for call in store.calls(CallQuery(run=run, limit=ALL))]
        for start in range(0, len(calls), CHUNK):
            store.list_calls(list(_call_texts(store, calls[start : start + CHUNK]))).result()


def list_missing(store: AnyStore) -> int:
    """Tell the store of all runs whose plans are not listed completely; returns how many plans that are."""
    if not isinstance(store, ListsPlans):
        return 0
    known = store.listed()
    runs = [run for run in store.runs(RunQuery(limit=ALL)) if run.manifest and not known.get(run.manifest)]
    plans = {run.manifest: run for run in reversed(runs)}
    for plan, run in plans.items():
        manifest, listing = manifest_of(store, run), PlanListing.of(store, plan)
        assert listing is not None
        listing.add_all(_noted(store, run, manifest), complete=is_complete(run))
    if plans:
        list_calls(store)
    return len(plans)


def is_complete(run: Run) -> bool:
    """Whether nothing of a run's plan can change any more: it has completed without a failure."""
    return run.status is Status.completed and not run.reopened


def _noted(store: AnyStore, run: Run, manifest: Manifest) -> Iterator[Noted]:
    """The trials of a run that have begun."""
    for found in ResultReader(manifest, store, run.id).found():
        if found.task is not None:
            scores = [(name, task) for name, task in found.scores if task]
            yield found.place, found.trial, found.task.result, scores


def _call_texts(store: AnyStore, keys: Sequence[str]) -> Iterator[CallWords]:
    """What these calls asked and were answered, without keys."""
    for row in store.find("call", keys).values():
        try:
            summary = call_summary(row, store)
            prompt = as_text(value_without_keys(_last_message(summary.asked))) or ""
            reply = without_keys(str(summary.said))
        except Exception as problem:  # plug-ins read answers; what they do must not end a run that is over
            prompt, reply = "", f"(cannot be read: {type(problem).__name__})"
        yield CallWords(row.key, beginning(prompt), beginning(reply))


def _last_message(request: Json) -> Json:
    """The last message of a request; the whole request if it has none."""
    messages: Any = request.get("messages") if isinstance(request, Mapping) else None
    last = messages[-1] if messages else None
    return last.get("content") if isinstance(last, Mapping) and last.get("content") else request
