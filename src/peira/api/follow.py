"""How far a run is, told from its events: for whoever may only read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from peira.api.finding import find_run
from peira.api.seen import UNDER_WAY, as_seen
from peira.api.stores import StoreLike, reading
from peira.core.events import (
    CallAnswered,
    CallIntended,
    CallLost,
    Record,
    State,
    TaskFinished,
    TaskRetried,
    TasksClaimed,
    TasksInterrupted,
    TasksReleased,
)
from peira.core.state import Run
from peira.engine.kinds import EVALUATE, GENERATE
from peira.engine.progress import LEFT, Progress
from peira.plan.manifest import layout_of, read
from peira.spec.project import Project

CHUNK = 1000


class Follower:
    """Follows one run; each `look` reads what has happened since the last."""

    def __init__(self, store: StoreLike, run: str) -> None:
        """`run` is the run's full id."""
        self._store, self._project, self._id = store, Project.find(), run
        self._after = 0
        self._under_way: dict[str, str] = {}
        self._ends: Counter[str] = Counter()
        self._handed_in: dict[str, str] = {}
        self._reused: int | None = None
        self.look()

    def look(self) -> Progress:
        with reading(self._store, self._project) as store:
            self.run: Run = as_seen(find_run(store, self._id), store)
            for record in self._news(store):
                self._take(record)
            if self._reused is None:
                self._reused = _done_before(store, self.run)
        return self._progress()

    @property
    def over(self) -> bool:
        return self.run.status not in UNDER_WAY

    def counts(self) -> dict[str, int]:
        """The ends so far by kind and state, reuse and what is left included, as a run closes with them."""
        counts = {"planned": self.run.trials, **self._ends}
        if self._reused:
            counts[f"{GENERATE}.reused"] = self._reused
        done = self._trials() + (self._reused or 0)
        return {**counts, f"{GENERATE}.{LEFT}": self.run.trials - done}

    def _news(self, store: Any) -> Iterator[Record]:
        while records := store.events(self._id, self._after, CHUNK):
            self._after = records[-1].seq
            yield from records

    def _take(self, record: Record) -> None:
        event = record.event
        if isinstance(event, TasksClaimed):
            self._under_way.update(dict.fromkeys(event.tasks, event.task_kind))
        elif isinstance(event, TaskFinished):
            self._ends[f"{self._under_way.pop(event.task)}.{event.state}"] += 1
        elif isinstance(event, TaskRetried):
            self._under_way.pop(event.task)
        elif isinstance(event, (TasksReleased, TasksInterrupted)):
            for task in event.tasks:
                self._under_way.pop(task)
        elif isinstance(event, CallIntended) and event.batch:
            self._handed_in[event.key] = event.task
        elif isinstance(event, (CallAnswered, CallLost)):
            self._handed_in.pop(event.key, None)

    def _trials(self, *states: State) -> int:
        chosen = [f"{GENERATE}.{state}" for state in states or State]
        return sum(self._ends[key] for key in chosen)

    def _progress(self) -> Progress:
        run, reused = self.run, self._reused or 0
        running = sum(kind == GENERATE for kind in self._under_way.values())
        scores = sum(n for key, n in self._ends.items() if key.startswith(f"{EVALUATE}."))
        return Progress(
            total=run.trials,
            done=self._trials() + reused,
            reused=reused,
            failed=self._trials() - self._trials(State.succeeded),
            running=0 if self.over else running,
            scores=scores,
            elapsed=(run.finished or time.time()) - run.started,
            look=run.look,
            waiting=0 if self.over else len(set(self._handed_in.values())),
        )


def _done_before(store: Any, run: Run) -> int:
    """How many of the run's trials another run finished: reuse is computed, not written."""
    layout = layout_of(read(run.manifest, store.get), store.get)
    places, reused = layout.places(), 0
    while ids := [layout.trial_id(place) for place in islice(places, CHUNK)]:
        found = store.find("task", ids).values()
        reused += sum(task.state is State.succeeded and task.run != run.id for task in found)
    return reused
