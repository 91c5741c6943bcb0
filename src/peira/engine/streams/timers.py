"""Timers of streams: which jobs are due now, and which were missed while no host was there.

A job's key is its trigger and its moment, so a moment that is found twice makes one job.
"""

from __future__ import annotations

from collections.abc import Sequence

from peira.core.clock import Clock
from peira.core.contracts import OpenStore, RunQuery
from peira.engine.streams.declaration import TAG
from peira.engine.streams.jobs import Job, submitted
from peira.spec.streams.stream import Stream
from peira.spec.streams.triggers import Cron, Every, Timer, label_of, made_up_for


class StreamTimers:
    """The timers of the streams that a host serves."""

    def __init__(self, streams: Sequence[Stream], store: OpenStore, clock: Clock) -> None:
        self._clock = clock
        now = clock.now()
        self._due: list[Job] = []
        self._next: list[tuple[float, Stream, Timer]] = []
        for stream in streams:
            since = _last_seen(store, stream.name)
            for trigger in stream.triggers:
                if isinstance(trigger, (Every, Cron)):
                    missed = made_up_for(trigger, since, now) if since else []
                    self._due += [_job(stream, trigger, moment, now) for moment in missed]
                    self._next.append((trigger.upcoming(now), stream, trigger))

    def due(self) -> list[Job]:
        """The jobs that are due since the last look."""
        now, found = self._clock.now(), self._due
        self._due = []
        for i, (moment, stream, timer) in enumerate(self._next):
            if moment <= now:
                moments = [moment, *timer.due(moment, now)]
                late = moments if timer.missed == "all" else moments[-1:]
                found = [*found, *(_job(stream, timer, one, now) for one in late)]
                self._next[i] = timer.upcoming(now), stream, timer
        return found


def _job(stream: Stream, timer: Timer, moment: float, now: float) -> Job:
    label = label_of(timer)
    return submitted(stream, timer.input, at=now, key=f"{label}:{moment:.3f}", trigger=label)


def _last_seen(store: OpenStore, name: str) -> float:
    """When a host last did something for the stream, before the present opening; 0 if there was none."""
    openings = store.runs(RunQuery(study=name, tag=TAG, limit=2))
    if len(openings) < 2:
        return 0.0
    before = openings[1]
    last = store.events(before.id, max(0, before.next_seq - 2))
    return max([before.planned, *(record.at for record in last)])
