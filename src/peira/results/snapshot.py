"""A store as it was when a run ended: what later runs did is left out of what that run shows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from peira.core.contracts import OpenStore, RunQuery, ScansTasks, TaskFinder, TaskOutcome
from peira.core.log.events import Record, TaskReused
from peira.core.log.state import Task, replayed, touched
from peira.errors import Fenced

ALL = 2**31


MANY = 20_000
"""From so many trials on, all tasks of a store are read in one pass, if it can do that."""


def as_of(store: OpenStore, run: str) -> OpenStore | Snapshot:
    """The store as it was at the end of this run; the store itself if there is no later run."""
    later = store.runs(RunQuery(after=run, limit=ALL))
    return Snapshot(store, run, {one.id for one in later}) if later else store


def scanned(rows: OpenStore | Snapshot, trials: int) -> OpenStore | Snapshot | ScannedRows:
    """The same rows, read in one pass over the store if so many trials are wanted that this is faster."""
    store = rows.store if isinstance(rows, Snapshot) else rows
    finder = store.scan_tasks(trials) if trials >= MANY and isinstance(store, ScansTasks) else None
    if finder is None:
        return rows
    return rows.found_by(finder) if isinstance(rows, Snapshot) else ScannedRows(store, finder)


class ScannedRows:
    """Reads tasks from a pass over the store; everything else as it is."""

    def __init__(self, store: OpenStore, tasks: TaskFinder) -> None:
        self._store, self._tasks = store, tasks

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        """As `Store.find`."""
        return self._tasks.find(keys) if kind == "task" else self._store.find(kind, keys)

    def outcomes(self, ids: Sequence[str]) -> list[TaskOutcome | None]:
        """As `FindsOutcomes.outcomes`."""
        return self._tasks.outcomes(ids)

    def get(self, digest: str) -> bytes:
        """The bytes of a blob."""
        return self._store.get(digest)


def outcome_of(row: Task | None) -> TaskOutcome | None:
    """The outcome of a task's row, if there is one."""
    if row is None:
        return None
    return TaskOutcome(row.state, row.attempts, row.run, row.reused_from, row.result)


class Snapshot:
    """Reads tasks as they were at the end of a run; calls, runs and blobs as they are.

    A task that a later run changed is replayed from its events. One that a later run created is missing.
    """

    def __init__(self, store: OpenStore, run: str, later: set[str], tasks: TaskFinder | None = None) -> None:
        """`tasks` finds tasks as they are now, faster than the store."""
        self.store, self._store, self._run, self._later = store, store, run, later
        self._tasks = tasks

    def found_by(self, tasks: TaskFinder) -> Snapshot:
        """The same, with tasks as they are now from another finder."""
        return Snapshot(self._store, self._run, self._later, tasks)

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        """The rows of those keys that existed then."""
        if kind != "task":
            return self._store.find(kind, keys)
        rows = self._store.find(kind, keys) if self._tasks is None else self._tasks.find(keys)
        past = ((id, self._at_end(row) if self._is_later(row) else row) for id, row in rows.items())
        return {id: row for id, row in past if row is not None}

    def outcomes(self, ids: Sequence[str]) -> list[TaskOutcome | None]:
        """The outcomes of those tasks that existed then."""
        if self._tasks is None:
            rows = self.find("task", ids)
            return [outcome_of(rows.get(id)) for id in ids]
        found, changed, later = self._tasks.outcomes(ids), self._changed, self._later
        past = [
            at
            for at, (id, one) in enumerate(zip(ids, found, strict=True))
            if one is not None and (one.run in later or id in changed)
        ]
        rows = self.find("task", [ids[at] for at in past]) if past else {}
        for at in past:
            found[at] = outcome_of(rows.get(ids[at]))
        return found

    def _is_later(self, row: Task) -> bool:
        """Whether a later run changed the row, or created it."""
        return row.id in self._changed or row.run in self._later

    def get(self, digest: str) -> bytes:
        """The bytes of a blob."""
        return self._store.get(digest)

    def _at_end(self, row: Task) -> Task | None:
        """The row of then; None if there was none, and the row of now if its events cannot be replayed."""
        records = self._records.get(row.id, {})
        tasks = {row.id}
        for record in records.values():
            if isinstance(record.event, TaskReused):
                tasks.add(record.event.source)
        for source in tasks - {row.id}:
            records = records | self._records.get(source, {})
        try:
            return replayed((records[position] for position in sorted(records)), tasks).get(row.id)
        except Fenced:
            return row

    @cached_property
    def _changed(self) -> frozenset[str]:
        """The tasks that later runs changed, and did not create."""
        return frozenset(self._store.changed_since(self._run))

    @cached_property
    def _records(self) -> dict[str, dict[int, Record]]:
        """The records about each task that later runs changed, until the end of the run, by position.

        With those about the tasks whose results they took over.
        """
        changed = set(self._changed)
        found = self._store.about(sorted(changed), self._run)
        sources = {record.event.source for record in found if isinstance(record.event, TaskReused)}
        if sources - changed:
            changed |= sources
            found = self._store.about(sorted(changed), self._run)
        records: dict[str, dict[int, Record]] = {}
        for position, record in enumerate(found):
            for task in touched(record.event):
                if task in changed:
                    records.setdefault(task, {})[position] = record
        return records
