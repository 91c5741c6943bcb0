"""Outcomes of jobs in the order in which they were reported, as goals look at them.

Goals are looked at for ever, so what they rest on must come in one order that later reports do not change:
that of the first report of each job. A later correction of an outcome changes results, and no goal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from peira.core.contracts import OpenStore, RunQuery
from peira.core.log.events import OutcomeReported, OutcomeValue
from peira.core.log.rows import Run
from peira.engine.streams.declaration import TAG

CHUNK = 2000
MOST_KEPT = 64
"""Openings of which reports are remembered in this process."""
Report = tuple[float, str, str, OutcomeValue]
"""When, of which task, by what name, what."""


class OutcomeReports:
    """The reports that stores have, remembered by opening, so that only new events are read; thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, list[Report]]] = {}
        self._lock = threading.Lock()

    def first(
        self, store: OpenStore, stream: str, name: str, since: float | None
    ) -> Iterator[tuple[float, str, OutcomeValue]]:
        """When each outcome of this name was first reported, of which job, and what; in that order."""
        seen: set[str] = set()
        openings = store.runs(RunQuery(study=stream, tag=TAG, limit=1_000_000))[::-1]
        for run in openings:
            for at, task, of, value in self._reports(store, run):
                if of == name and task not in seen:
                    seen.add(task)
                    if since is None or at >= since:
                        yield at, task, value

    def _reports(self, store: OpenStore, run: Run) -> list[Report]:
        """All reports in an opening."""
        place = store.address, run.id
        with self._lock:
            seq, found = self._known.pop(place, (0, []))
            while run.next_seq - 1 > seq and (records := store.events(run.id, seq, CHUNK)):
                seq = records[-1].seq
                found += [
                    (one.at, one.event.task, one.event.name, one.event.value)
                    for one in records
                    if isinstance(one.event, OutcomeReported)
                ]
            self._known[place] = seq, found
            if len(self._known) > MOST_KEPT:
                del self._known[next(iter(self._known))]
            return list(found)


outcome_reports = OutcomeReports()
"""The reports that this process has read."""
