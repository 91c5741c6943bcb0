"""Deleting runs, by name or by a policy: what other runs need of them is kept, and the store gets smaller."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore, store_folder
from peira.app.store.listing import list_missing
from peira.app.store.results import manifest_of
from peira.app.store.runs import UNDER_WAY, find_run, with_current_status
from peira.core.contracts import Deletes, Retained, RunQuery
from peira.core.ids import short
from peira.core.log.events import Status
from peira.core.log.rows import SESSION
from peira.core.log.state import Call, Run, touched
from peira.engine.kinds import BATCH, STAGES
from peira.engine.sources.study import class_of
from peira.errors import Invalid
from peira.results.reader import ResultReader
from peira.spec.limits import Keep

ALL = 2**31
CHUNK = 500


@dataclass(frozen=True)
class Deletion:
    """The runs that were, or would be, deleted, and the size of the store before and after in bytes.

    `after` is None if nothing was deleted yet. `refused` are runs that cannot be deleted, and why.
    """

    runs: tuple[Run, ...]
    before: int
    after: int | None
    refused: tuple[str, ...] = ()


def delete(runs: Sequence[str], store: SessionLike = None, *, dry_run: bool = False) -> Deletion:
    """Delete runs by their names or ids. Trials and calls that other runs use are kept.

    Raises Unknown if there is no such run, Invalid if one is under way or waits for a batch, and StoreInUse
    if another process uses the store. With `dry_run` nothing is changed.
    """
    session = Session.find(store)
    with session.reading() as opened:
        chosen = {found.id: found for found in (find_run(opened, run) for run in runs)}
        if problems := list(filter(None, _obstacles(opened, chosen.values()).values())):
            raise Invalid(problems)
    return _delete(session, list(chosen.values()), dry_run)


def collect(keep: Keep, store: SessionLike = None, *, dry_run: bool = False) -> Deletion:
    """Delete the runs that a policy does not keep, oldest first.

    Kept in any case are runs that have a name, frozen plans, and runs that are under way or wait for a batch.
    """
    session = Session.find(store)
    with session.reading() as opened:
        runs = [with_current_status(run, opened) for run in opened.runs(RunQuery(limit=ALL))]
        sizes = {run.id: opened.size(run.id) for run in runs} if keep.size is not None else {}
        chosen = expired(runs, keep, time.time(), sizes, opened.size())
        obstacles = _obstacles(opened, chosen)
    free = [run for run in chosen if not obstacles[run.id]]
    return _delete(session, free, dry_run, tuple(filter(None, obstacles.values())))


def expired(runs: Sequence[Run], keep: Keep, now: float, sizes: dict[str, int], total: int) -> list[Run]:
    """The runs (given newest first) that a policy does not keep. Pure.

    `sizes` are their bytes and `total` those of the store: runs are given up, oldest first, until what is
    left is estimated to be within `keep.size`.
    """
    loose = [run for run in runs if not run.name and run.status not in UNDER_WAY]
    loose = [run for run in loose if keep.study in ("", run.study)]
    found: dict[str, Run] = {}
    of_study: Counter[str] = Counter()
    for run in loose:
        of_study[run.study] += 1
        too_many = keep.count is not None and of_study[run.study] > keep.count
        too_old = keep.age is not None and now - (run.finished or run.planned) > keep.age
        if too_many or too_old:
            found[run.id] = run
    left = total - sum(sizes.get(run, 0) for run in found)
    for run in reversed(loose):
        if keep.size is not None and left > keep.size and run.id not in found:
            found[run.id] = run
            left -= sizes.get(run.id, 0)
    return list(found.values())


def _obstacles(store: AnyStore, runs: Iterable[Run]) -> dict[str, str]:
    """Why each of these runs cannot be deleted now; "" if it can."""
    waiting = {task.run for task in store.queued(BATCH)}
    asking = _asking(store)
    return {
        run.id: _obstacle(with_current_status(run, store), run.id in waiting, run.id in asking)
        for run in runs
    }


def _asking(store: AnyStore) -> set[str]:
    """The runs with questions to people whose answers no later run has used yet."""
    found = {task.run for task in store.waiting()}
    for cls in {class_of(kind, awaits) for kind in STAGES for awaits in (False, True)}:
        found.update(task.run for task in store.queued(cls))
    runs = store.runs(RunQuery(status=Status.waiting.value, limit=ALL))
    return found.intersection(run.id for run in runs)


def _obstacle(run: Run, in_batch: bool, asking: bool) -> str:
    """Why a run cannot be deleted now; "" if it can."""
    if run.status in UNDER_WAY:
        return f"run {short(run.id)} is under way: cancel it, or wait for its end"
    if in_batch:
        return f"run {short(run.id)} waits for a batch: see `peira batch status`"
    if asking:
        return f"run {short(run.id)} waits for people: see `peira inbox`, go on with it, or cancel it"
    return ""


def _delete(session: Session, runs: Sequence[Run], dry_run: bool, refused: tuple[str, ...] = ()) -> Deletion:
    """Delete these runs, unless it is a dry run or there are none."""
    if dry_run or not runs:
        with session.reading() as opened:
            return Deletion(tuple(runs), opened.size(), None, refused)
    with session.owned() as opened:
        left = opened.runs(RunQuery(status=Status.deleted.value, limit=ALL))  # needed less from now on
        before, retained = opened.size(), _retained(opened, {run.id: run for run in (*left, *runs)})
        for run in runs:
            shutil.rmtree(store_folder(opened, "code") / short(run.manifest), ignore_errors=True)
        shutil.rmtree(store_folder(opened, "tables"), ignore_errors=True)
        if not isinstance(opened, Deletes):
            raise Invalid("delete: runs of this kind of store cannot be deleted here; use its own tools")
        opened.retain(retained)
    with session.owned() as opened:
        list_missing(opened)  # the rewritten store was told of no plan yet
    with session.reading() as opened:
        return Deletion(tuple(runs), before, opened.size(), refused)


def _retained(store: AnyStore, doomed: dict[str, Run]) -> Retained:
    """The tasks and calls that other runs need, with all that those rest on in turn."""
    tasks: set[str] = set()
    for run in _others(store, doomed):
        if run.manifest:
            tasks.update(ResultReader(manifest_of(store, run), store, run.id).task_ids())
        tasks.update(_touched(store, run.id))
    used: set[str] = set()
    todo: Collection[str] = set(tasks)
    while todo:
        found: set[str] = set()
        calls_of: set[str] = set()
        for task in _rows(store, "task", todo):
            calls_of.update(task.result.calls)
            found.update(filter(None, (task.reused_from, task.parent, *task.needs)))
        found.update(call.task for call in _rows(store, "call", calls_of - used))
        used |= calls_of
        todo = found - tasks
        tasks |= found
    calls = {
        row.key
        for row in store.rows()
        if isinstance(row, Call) and (row.task in tasks or row.key in used or row.name == SESSION)
    }
    return Retained(doomed, tasks, calls)


def _others(store: AnyStore, doomed: dict[str, Run]) -> list[Run]:
    """The runs that are kept, with frozen plans."""
    statuses = ("", Status.frozen.value)
    found = [run for status in statuses for run in store.runs(RunQuery(status=status, limit=ALL))]
    return [run for run in found if run.id not in doomed]


def _touched(store: AnyStore, run: str) -> Iterator[str]:
    """The tasks that the events of a run are about."""
    after = 0
    while records := store.events(run, after, 5000):
        after = records[-1].seq
        for record in records:
            yield from touched(record.event)


def _rows(store: AnyStore, kind: Literal["task", "call"], keys: Collection[str]) -> Iterator[Any]:
    """The tasks or calls of these keys, read in chunks."""
    known = list(keys)
    for start in range(0, len(known), CHUNK):
        yield from store.find(kind, known[start : start + CHUNK]).values()
