"""The progress of a run, folded from its events by a reader of the store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from peira.app.session import Session, SessionLike
from peira.app.store.runs import UNDER_WAY, find_run, with_current_status
from peira.core.log.events import (
    CallAnswered,
    CallIntended,
    CallLost,
    QuestionAnswered,
    QuestionClosed,
    Record,
    State,
    TaskFinished,
    TaskRetried,
    TasksAdopted,
    TasksClaimed,
    TasksInterrupted,
    TasksReleased,
    TasksWoken,
    TaskWaiting,
)
from peira.core.log.state import Run
from peira.engine.kinds import EVALUATE, GENERATE
from peira.engine.progress import LEFT, Progress
from peira.plan.manifest import layout_of, read
from peira.results.snapshot import as_of

CHUNK = 1000


class Follower:
    """Follows one run; each `look` reads the events since the last."""

    def __init__(self, store: SessionLike, run: str) -> None:
        """`run` is the run's full id."""
        self._session, self._id = Session.find(store), run
        self._after = 0
        self._under_way: dict[str, str] = {}
        self._waiting: dict[str, tuple[str, set[str]]] = {}  # the kind of each, and its open questions
        self._ends: Counter[str] = Counter()
        self._batched_calls: dict[str, str] = {}
        self._reused: int | None = None
        self.look()

    def look(self) -> Progress:
        """Read the new events and return the progress."""
        with self._session.reading() as store:
            self.run: Run = with_current_status(find_run(store, self._id), store)
            for record in self._new_events(store):
                self._fold(record)
            if self._reused is None:
                self._reused = _done_before(store, self.run)
        return self._progress()

    @property
    def over(self) -> bool:
        """Whether the run has ended, or its process is gone."""
        return self.run.status not in UNDER_WAY

    def counts(self) -> dict[str, int]:
        """The counts so far by kind and state, with reused and left trials, as recorded at a run's end."""
        counts = {"planned": self.run.trials, **self._ends}
        if self._reused:
            counts[f"{GENERATE}.reused"] = self._reused
        waiting = Counter(f"{kind}.{State.waiting}" for kind, _ in self._waiting.values())
        done = self._trials() + (self._reused or 0) + waiting[f"{GENERATE}.{State.waiting}"]
        return {**counts, **waiting, f"{GENERATE}.{LEFT}": self.run.trials - done}

    def _new_events(self, store: Any) -> Iterator[Record]:
        """The events since the last look."""
        while records := store.events(self._id, self._after, CHUNK):
            self._after = records[-1].seq
            for event in [one.event for one in records if isinstance(one.event, TasksAdopted)]:
                rows = store.find("task", list(event.tasks))
                self._waiting.update((row.id, (row.kind, set(row.questions))) for row in rows.values())
            yield from records

    def _fold(self, record: Record) -> None:
        """Fold one event."""
        event = record.event
        if isinstance(event, TasksClaimed):
            self._under_way.update(dict.fromkeys(event.tasks, event.task_kind))
            for task in event.tasks:
                self._waiting.pop(task, None)
        elif isinstance(event, TaskFinished):
            # A claim may be missing in a damaged store, and one that waits has none any more.
            if kind := self._under_way.pop(event.task, "") or self._waiting.pop(event.task, ("", set()))[0]:
                self._ends[f"{kind}.{event.state}"] += 1
        elif isinstance(event, TaskWaiting):
            self._waiting[event.task] = self._under_way.pop(event.task, GENERATE), set(event.questions)
        elif isinstance(event, (QuestionAnswered, QuestionClosed)):
            if event.task in self._waiting:
                open_questions = self._waiting[event.task][1]
                open_questions.discard(event.key)
                if not open_questions:
                    del self._waiting[event.task]
        elif isinstance(event, TasksWoken):
            for task in event.tasks:
                self._waiting.pop(task, None)
        elif isinstance(event, TaskRetried):
            self._under_way.pop(event.task, "")
        elif isinstance(event, (TasksReleased, TasksInterrupted)):
            for task in event.tasks:
                self._under_way.pop(task, "")
        elif isinstance(event, CallIntended) and event.batch:
            self._batched_calls[event.key] = event.task
        elif isinstance(event, (CallAnswered, CallLost)):
            self._batched_calls.pop(event.key, None)

    def _trials(self, *states: State) -> int:
        """The number of trials that ended here, in these states or in all."""
        chosen = [f"{GENERATE}.{state}" for state in states or State]
        return sum(self._ends[key] for key in chosen)

    def _progress(self) -> Progress:
        """The progress from what was folded so far."""
        run, reused = self.run, self._reused or 0
        running = sum(kind == GENERATE for kind in self._under_way.values())
        scores = sum(n for key, n in self._ends.items() if key.startswith(f"{EVALUATE}."))
        return Progress(
            total=run.trials,
            done=self._trials() + reused,
            reused=reused,
            failed=self._trials() - self._trials(State.succeeded, State.exhausted, State.cancelled),
            exhausted=self._trials(State.exhausted),
            cancelled=self._trials(State.cancelled),
            running=0 if self.over else running,
            scores=scores,
            elapsed=(run.finished or time.time()) - run.started,
            look=run.look,
            waiting=0 if self.over else len(set(self._batched_calls.values())),
            people=len(self._waiting),
        )


def _done_before(store: Any, run: Run) -> int:
    """The number of the run's trials that other runs finished: reuse is computed, not recorded."""
    layout, rows = layout_of(read(run.manifest, store.get), store.get, store), as_of(store, run.id)
    places, reused = layout.places(), 0
    while ids := [layout.trial_id(place) for place in islice(places, CHUNK)]:
        found = rows.find("task", ids).values()
        reused += sum(task.state is State.succeeded and task.run != run.id for task in found)
    return reused
