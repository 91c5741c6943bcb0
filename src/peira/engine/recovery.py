"""Recovery after a crash: runs and tasks of dead owners are marked as interrupted."""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from peira.core.contracts import Catalogue, Op, RunQuery, Store
from peira.core.log.events import RunFinished, RunInterrupted, State, Status, TaskFinished, TasksInterrupted
from peira.core.log.state import UNDER_WAY, Run

GROUP = 500
"""The number of tasks in one event."""


class Recoverable(Store, Catalogue, Protocol):
    """A store that can list its runs and its active tasks."""


def recover(store: Recoverable, incarnation: int) -> list[Run]:
    """Mark the runs of dead owners as interrupted and release their claimed tasks; returns those runs.

    Tasks that wait are left alone; what was being cancelled is.
    A new owner calls this before anything else: since it holds the store's lock, all others are dead.
    """
    tasks: dict[str, list[str]] = defaultdict(list)
    ops: list[Op] = []
    for task in store.active():
        if task.state is State.cancelling:
            ops.append(Op(task.run, (TaskFinished(task.id, task.epoch, State.cancelled),)))
        else:
            tasks[task.run].append(task.id)
    ops += [
        Op(run, (TasksInterrupted(tuple(ids[start : start + GROUP])),))
        for run, ids in tasks.items()
        for start in range(0, len(ids), GROUP)
    ]
    dead = _unfinished(store)
    ops += [Op(run.id, (_end(run, incarnation),)) for run in dead]
    if ops:
        store.commit(ops).result()
    return dead


def _end(run: Run, incarnation: int) -> RunInterrupted | RunFinished:
    """How a run of a dead owner ends: as cancelled if that was being done."""
    if run.status is Status.cancelling:
        return RunFinished(Status.cancelled, reason="cancelled; its process died before it had ended")
    return RunInterrupted(incarnation)


def _unfinished(store: Recoverable) -> list[Run]:
    """Runs recorded as under way or planned; with one owner at a time these can only be dead."""
    found: list[Run] = []
    for status in (*sorted(UNDER_WAY), Status.planned):
        found += store.runs(RunQuery(status=status, limit=1_000_000))
    return found
