"""Follows a run for people who watch it: progress over time, and failures by reason as they come."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque

import peira.engine as engine
from peira.analysis.cost import Bill, spent
from peira.app.session import Session
from peira.app.store.follower import Follower
from peira.core.log.events import Record, RunLooked, State, TaskFinished
from peira.core.looks import Look
from peira.core.text.secrets import without_keys
from peira.core.text.words import HIDDEN
from peira.engine.kinds import EVALUATE, GENERATE, TRANSFORM
from peira.engine.progress import Progress
from peira.web.rest.documents import FailureGroup

MOST_GROUPS, MOST_SAMPLES, MOST_LOOKS = 50, 600, 400
_VARYING = re.compile(r"\b[0-9a-f]{8,}\b|\d+")


class RunMonitor(Follower):
    """A follower that also keeps what failed, why, and how the run went on over time."""

    def __init__(self, store: Session, run: str) -> None:
        self._groups: OrderedDict[tuple[str, ...], FailureGroup] = OrderedDict()
        self._lock = threading.Lock()
        self.samples: list[tuple[float, int, int]] = []
        """Moments of the run: seconds since 1970, trials done, trials that failed."""
        self.looks: deque[Look] = deque(maxlen=MOST_LOOKS)
        self._every = 0.2
        self.other = 0
        """Failures of further reasons than `MOST_GROUPS`."""
        super().__init__(store, run)
        self.progress: Progress = self._progress()
        self.bill: Bill = self._bill()

    def refresh(self) -> None:
        """Read what is new; several threads may ask."""
        with self._lock:
            self.progress = self.look()
            self.bill = self._bill()

    @property
    def failures(self) -> list[FailureGroup]:
        """Failures by reason, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)

    @property
    def running(self) -> list[str]:
        """The ids of the trials under way, the longest first."""
        with self._lock:
            return [task for task, kind in self._under_way.items() if kind == GENERATE]

    def _bill(self) -> Bill:
        """What the run has spent so far."""
        if self.run.counts:
            return spent(self.run.spent)
        with self._session.reading() as store:
            return spent(engine.spent_by_calls(store, self._id))

    def _fold(self, record: Record) -> None:
        event = record.event
        if isinstance(event, TaskFinished) and event.state is not State.succeeded:
            self._add(event, self._under_way.get(event.task, ""))
        elif isinstance(event, RunLooked):
            self.looks.append(event.look)
        super()._fold(record)
        if isinstance(event, TaskFinished):
            self._sample(record.at)

    def _sample(self, at: float) -> None:
        """Keep how far the run was at this moment; of a long run, every second moment, every fourth, ..."""
        done = self._trials() + (self._reused or 0)
        failed = self._trials() - self._trials(State.succeeded, State.exhausted, State.cancelled)
        if self.samples and at - self.samples[-1][0] < self._every:
            return
        self.samples.append((at, done, failed))
        if len(self.samples) > MOST_SAMPLES:
            self.samples = self.samples[::2]
            self._every *= 2

    def _add(self, event: TaskFinished, kind: str) -> None:
        """Count a task that did not succeed."""
        if kind not in (GENERATE, TRANSFORM, EVALUATE, ""):
            return
        why = event.result.failure
        type, message = (why.type, why.message) if why else ("", "")
        key = kind, event.state.value, type, _VARYING.sub("#", message[:400])
        if (known := self._groups.get(key)) is not None:
            self._groups[key] = FailureGroup(
                known.count + 1, known.stage, known.state, known.type, known.message, known.trial
            )
        elif len(self._groups) < MOST_GROUPS:
            trial = event.task if kind == GENERATE else ""
            shown = HIDDEN if event.result.exposed else without_keys(message)
            self._groups[key] = FailureGroup(1, kind, event.state.value, type, shown, trial)
        else:
            self.other += 1
