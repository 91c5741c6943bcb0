"""After a crash: what a dead owner left running is *interrupted*, never *running*."""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from peira.core.contracts import Catalogue, Op, RunQuery, Store
from peira.core.events import RunInterrupted, Status, TasksInterrupted
from peira.core.state import Run

GROUP = 500


class Recoverable(Store, Catalogue, Protocol):
    """A store that can say what is in it."""


def recover(store: Recoverable, incarnation: int) -> list[Run]:
    """Mark the runs of dead owners, and give their claimed tasks back; returns those runs.

    Called by a new owner before it does anything else: holding the lock proves the others dead.
    """
    tasks: dict[str, list[str]] = defaultdict(list)
    for task in store.active():
        tasks[task.run].append(task.id)
    ops = [
        Op(run, (TasksInterrupted(tuple(ids[start : start + GROUP])),))
        for run, ids in tasks.items()
        for start in range(0, len(ids), GROUP)
    ]
    dead = _unfinished(store)
    ops += [Op(run.id, (RunInterrupted(incarnation),)) for run in dead]
    if ops:
        store.commit(ops).result()
    return dead


def _unfinished(store: Recoverable) -> list[Run]:
    """Runs that say they are under way; with one owner at a time these can only be dead."""
    found: list[Run] = []
    for status in (Status.running, Status.planned):
        found += store.runs(RunQuery(status=status, limit=1_000_000))
    return found
