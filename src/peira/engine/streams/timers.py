"""Timers of streams: which jobs are due now, and which were missed while no host was there.

A job's key is its trigger and its moment, so a moment that is found twice makes one job.
"""

from __future__ import annotations

from collections.abc import Sequence

from peira.core.clock import Clock
from peira.core.contracts import OpenStore, RunQuery
from peira.engine.streams.declaration import TAG, declaration_of
from peira.engine.streams.jobs import Job, job_id, submitted
from peira.spec.streams.stream import Stream
from peira.spec.streams.triggers import (
    MOST_MISSED,
    Cron,
    Every,
    Timer,
    label_of,
    last_moments,
    made_up_for,
)

MOST_OPENINGS = 1000
"""Openings, the last ones, among which the first with a trigger is looked for."""


class StreamTimers:
    """The timers of the streams that a host serves."""

    def __init__(self, streams: Sequence[Stream], store: OpenStore, clock: Clock) -> None:
        self._clock = clock
        now = clock.now()
        self._due: list[Job] = []
        self._next: list[tuple[float, Stream, Timer]] = []
        for stream in streams:
            for trigger in stream.triggers:
                if isinstance(trigger, (Every, Cron)):
                    self._due += _missed(store, stream, trigger, now)
                    self._next.append((trigger.upcoming(now), stream, trigger))

    def due(self) -> list[Job]:
        """The jobs that are due since the last look."""
        now, found = self._clock.now(), self._due
        self._due = []
        for i, (moment, stream, timer) in enumerate(self._next):
            if moment <= now:
                most = MOST_MISSED if timer.missed == "all" else 1
                late = [moment, *last_moments(timer, moment, now, most)][-most:]
                found = [*found, *(_job(stream, timer, one, now) for one in late)]
                self._next[i] = timer.upcoming(now), stream, timer
        return found


def _job(stream: Stream, timer: Timer, moment: float, now: float) -> Job:
    label = label_of(timer)
    return submitted(stream, timer.input, at=now, key=f"{label}:{moment:.3f}", trigger=label)


def _missed(store: OpenStore, stream: Stream, timer: Timer, now: float) -> list[Job]:
    """The jobs for moments at which no host was there: those after the last one that has a job.

    The time of the last event is not that of the last host: its successor records how it died, and
    other processes queue jobs and report outcomes while there is none.
    """
    began = _declared_since(store, stream.name, label_of(timer))
    if began is None:
        return []
    jobs = [_job(stream, timer, moment, now) for moment in made_up_for(timer, began, now)]
    ids = [job_id(job.stream, job.key) for job in jobs]
    known = store.find("task", ids) if ids else {}
    last = max((n for n, id in enumerate(ids) if id in known), default=-1)
    return jobs[last + 1 :]


def _declared_since(store: OpenStore, name: str, label: str) -> float | None:
    """When the stream was first opened with this trigger, without an opening in between that had it not;
    None if the present opening is the first one."""
    began, known = None, dict[str, bool]()
    for opening in store.runs(RunQuery(study=name, tag=TAG, limit=MOST_OPENINGS))[1:]:
        if opening.stream not in known:
            known[opening.stream] = label in declaration_of(store, opening).triggers
        if not known[opening.stream]:
            break
        began = opening.planned
    return began
