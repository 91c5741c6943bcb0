"""A run as it stands now, which its own last words may not say."""

from __future__ import annotations

from peira.api.stores import AnyStore
from peira.core.events import Status
from peira.core.state import Run, replace
from peira.stores.sqlite import SqliteStore

UNDER_WAY = (Status.planned, Status.running)


def as_seen(run: Run, store: AnyStore) -> Run:
    """The run as it stands now: one whose owner is gone is interrupted, whatever it last wrote."""
    if run.status not in UNDER_WAY or not isinstance(store, SqliteStore):
        return run
    alive = (store.owner() or {}).get("incarnation") == run.incarnation if store.readonly else True
    return run if alive else replace(run, status=Status.interrupted)
