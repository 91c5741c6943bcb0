"""What a store keeps of payloads: compressed or not, raw answers or none, contents or digests only."""

from __future__ import annotations

from collections.abc import Iterator

from peira.app.store.access import AnyStore
from peira.core.contracts import PayloadRemoval
from peira.core.log.events import State
from peira.core.log.state import Call, Run, Task
from peira.engine.kinds import GENERATE, TRANSFORM
from peira.errors import Invalid
from peira.spec.limits import Storage


def apply_storage(store: AnyStore, storage: Storage) -> None:
    """Write payloads of a run as its storage says; Invalid if this kind of store cannot."""
    if isinstance(store, PayloadRemoval):
        store.compress(storage.compression)
    elif not storage.keeps_all:
        raise Invalid("storage: this kind of store keeps all payloads; leave out responses and payloads")


def forget_payloads(store: AnyStore, run: str, storage: Storage) -> int:
    """Remove what is not to be kept of a run that has ended; returns how many bytes that were.

    Only of trials that succeeded: what the others said may be needed when they are tried again. What anything
    else in the store refers to stays.
    """
    if storage.keeps_all or not isinstance(store, PayloadRemoval):
        return 0
    done = {row.id for row in store.rows() if isinstance(row, Task) and _is_done(row, run)}
    doomed: set[str] = set()
    needed: set[str] = set()
    for row in store.rows():
        if not isinstance(row, Run):
            for digest, droppable in _payloads(row, run, done, storage):
                (doomed if droppable else needed).add(digest)
    return store.forget(doomed - (needed - set(store.forgotten())))


def _is_done(task: Task, run: str) -> bool:
    return task.run == run and task.state is State.succeeded


def _payloads(row: Task | Call, run: str, done: set[str], storage: Storage) -> Iterator[tuple[str, bool]]:
    """The blobs that a row refers to, and whether each need not be kept."""
    digests_only, no_answers = storage.payloads == "digest", storage.responses == "drop"
    if isinstance(row, Task):
        own = digests_only and row.id in done and row.kind in (GENERATE, TRANSFORM)
        found = [(row.result.blob, own), (row.payload, False)]
        found += [(artifact.digest, own) for artifact in row.result.artifacts]
    elif row.model:
        own = row.task in done and row.run == run and row.state == "answered"
        found = [(row.request, own and digests_only), (row.blob, own and no_answers)]
    else:
        found = [(row.blob, digests_only and row.task in done)]
    return ((digest, droppable) for digest, droppable in found if digest)
