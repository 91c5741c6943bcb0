"""Recovery after a crash: runs and tasks of dead owners are marked as interrupted."""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from peira.core.contracts import Catalogue, Op, RunQuery, Store
from peira.core.log.events import RunInterrupted, Status, TasksInterrupted
from peira.core.log.state import Run

GROUP = 500
"""The number of tasks in one event."""


class Recoverable(Store, Catalogue, Protocol):
    """A store that can list its runs and its active tasks."""


def recover(store: Recoverable, incarnation: int) -> list[Run]:
    """Mark the runs of dead owners as interrupted and release their claimed tasks; returns those runs.

    A new owner calls this before anything else: since it holds the store's lock, all others are dead.
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
    """Runs recorded as running or planned; with one owner at a time these can only be dead."""
    found: list[Run] = []
    for status in (Status.running, Status.planned):
        found += store.runs(RunQuery(status=status, limit=1_000_000))
    return found
