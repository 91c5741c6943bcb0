"""Telling a store what its tasks are about, so that other programs can read it (`trials`, `scores`, `calls`).

It is done when a run ends, and by `peira migrate` for runs that were killed or merged, or are of before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peira.app.store.access import AnyStore
from peira.app.store.results import manifest_of
from peira.core.contracts import CallWords, ListsPlans, RunQuery
from peira.core.log.events import Status
from peira.core.log.state import Run
from peira.engine.calls.listing import call_words
from peira.engine.transcripts import call_summary
from peira.plan.listing import Noted, PlanListing
from peira.plan.manifest import Manifest
from peira.results.reader import ResultReader

ALL = 2**31
CHUNK = 5000


def list_calls(store: AnyStore, run: str = "") -> None:
    """Add the texts of the calls of a run (or of all runs) to the store's listing, where they are missing."""
    if isinstance(store, ListsPlans):
        calls = store.unlisted_calls(run)
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
        listing.add_all(trials_begun(store, run, manifest), complete=is_complete(run))
    if plans:
        list_calls(store)
    return len(plans)


def is_complete(run: Run) -> bool:
    """Whether nothing of a run's plan can change any more: it has completed without a failure."""
    return run.status is Status.completed and not run.reopened


def trials_begun(store: AnyStore, run: Run, manifest: Manifest) -> Iterator[Noted]:
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
            yield call_words(row.key, summary.asked, str(summary.said))
        except Exception as problem:  # plug-ins read answers; what they do must not end a run that is over
            yield CallWords(row.key, "", f"(cannot be read: {type(problem).__name__})")
