"""When trials began and ended: read from the event logs, for many trials in little memory.

A trial's row says how long it took, not when. Its claim and its end are events of the run that executed it:
this run's log is read first, then those of others, newest first, until all ends are known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from peira.analysis.origin import Origin
from peira.core.contracts import RunQuery
from peira.core.events import Record, TaskFinished, TaskReused, TasksClaimed

PAGE = 5_000
ALL = 2**31


class Times:
    """Seconds since 1970 at which trials began (for the last time) and ended; None where it is not known."""

    def __init__(self, trials: Iterable[str]) -> None:
        # The first 8 bytes of a SHA-256 tell trials apart, and 24 bytes a trial are held.
        self._keys = np.unique(np.array(array("Q", map(_key, trials)), dtype=np.uint64))
        self._began = np.full(len(self._keys), np.nan)
        self._ended = np.full(len(self._keys), np.nan)

    def read(self, origin: Origin) -> Times:
        for run in self._runs(origin):
            if not np.isnan(self._ended).any():
                break
            # What an earlier log in this order says is newer, and stays.
            known_began, known_ended = self._began.copy(), self._ended.copy()
            for page in _pages(origin, run):
                self._note(page)
            self._began = np.where(np.isnan(known_ended), self._began, known_began)
            self._ended = np.where(np.isnan(known_ended), self._ended, known_ended)
        return self

    def _runs(self, origin: Origin) -> Iterator[str]:
        yield origin.run.id
        store: Any = origin.store
        yield from (run.id for run in store.runs(RunQuery(limit=ALL)) if run.id != origin.run.id)

    def _note(self, page: Sequence[Record]) -> None:
        began, ended = [], []
        for record in page:
            event = record.event
            if isinstance(event, TasksClaimed):
                began += [(_key(task), record.at) for task in event.tasks]
            elif isinstance(event, (TaskFinished, TaskReused)):
                ended.append((_key(event.task), record.at))
        self._put(self._began, began)
        self._put(self._ended, ended)

    def _put(self, column: Any, found: Sequence[tuple[int, float]]) -> None:
        if not found or not len(self._keys):
            return
        keys = np.array([key for key, _ in found], dtype=np.uint64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        ours = self._keys[at] == keys
        column[at[ours]] = np.array([moment for _, moment in found])[ours]

    def of(self, trial: str) -> tuple[float | None, float | None]:
        at = min(int(np.searchsorted(self._keys, np.uint64(_key(trial)))), len(self._keys) - 1)
        if at < 0 or self._keys[at] != _key(trial):
            return None, None
        began, ended = float(self._began[at]), float(self._ended[at])
        return (None if began != began else began), (None if ended != ended else ended)


def _key(id: str) -> int:
    return int(id[:16], 16)


def _pages(origin: Origin, run: str) -> Iterator[list[Record]]:
    after = 0
    while records := origin.store.events(run, after, PAGE):
        yield records
        after = records[-1].seq
