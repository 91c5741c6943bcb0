"""Recovery after a crash: runs and tasks of dead owners are marked as interrupted.

In a shared store any member recovers what others had that are gone, several perhaps at the same time: the
tasks are interrupted, each at the epoch of its claim, and then the ranges of the gone are free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Protocol

from peira.core.contracts import Catalogue, Op, RunQuery, Store
from peira.core.failpoints import reach
from peira.core.log.events import RunFinished, RunInterrupted, State, Status, TaskFinished, TasksInterrupted
from peira.core.log.state import UNDER_WAY, Run
from peira.stores.sharing import ListsSharedRuns, SharedStore

GROUP = 500
"""The number of tasks in one event."""


class Recoverable(Store, Catalogue, Protocol):
    """A store that can list its runs and its active tasks."""


def recover(store: Recoverable, incarnation: int) -> list[Run]:
    """Mark the runs of dead owners as interrupted and release their claimed tasks; returns those runs.

    Runs that are shared go on when somebody joins, so they are left as they are.
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
    dead = [
        run for run in _unfinished(store) if run.status is Status.cancelling or not _is_shared(run, store)
    ]
    ops += [Op(run.id, (_end(run, incarnation),)) for run in dead]
    if ops:
        store.commit(ops).result()
    return dead


def _is_shared(run: Run, store: Recoverable) -> bool:
    """Whether a run is for members to share: they go on with it, or begin, when one joins."""
    return isinstance(store, ListsSharedRuns) and bool(store.shared_runs(run.id))


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


def release_gone(store: SharedStore, gone: Collection[int]) -> int:
    """Queue the tasks of dead members again, and free their ranges.

    Returns how many tasks that were.
    """
    released = 0
    while True:
        active = store.active()
        living = store.sharing.living()  # asked later: whoever joined meanwhile is in it
        lost = [task for task in active if task.owner not in living]
        tasks: dict[str, list[tuple[str, int]]] = defaultdict(list)
        ops: list[Op] = []
        for task in lost:
            if task.state is State.cancelling:
                ops.append(Op(task.run, (TaskFinished(task.id, task.epoch, State.cancelled),)))
            else:
                tasks[task.run].append((task.id, task.epoch))
        for run, held in tasks.items():
            for start in range(0, len(held), GROUP):
                ids, epochs = zip(*held[start : start + GROUP], strict=True)
                ops.append(Op(run, (TasksInterrupted(ids, epochs),)))
        reach("recovery.before_release")
        if not ops:
            break
        refused = sum(refusal is not None for refusal in store.commit(ops).result())
        if not refused:
            released += len(lost)  # otherwise another member was at it: look again
    if gone:
        store.sharing.released(gone)
    return released


def interrupt_owned_runs(store: SharedStore) -> None:
    """Mark runs as interrupted whose process owned the store alone: it must have ended."""
    shared = {one.run for one in store.sharing.runs()}
    ops = [Op(run.id, (_end(run, store.incarnation),)) for run in _unfinished(store) if run.id not in shared]
    if ops:
        store.commit(ops).result()
