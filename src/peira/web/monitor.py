"""Follows a run for people who watch it: progress over time, and failures by reason as they come."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict, deque

import peira.engine as engine
from peira.analysis.cost import Bill, spent
from peira.app.session import Session
from peira.app.store.follower import Follower
from peira.core.log.events import Record, RunLooked, State, TaskFinished
from peira.core.looks import Look
from peira.core.text.words import HIDDEN
from peira.engine.kinds import EVALUATE, GENERATE, TRANSFORM
from peira.engine.progress import Progress
from peira.models.secrets import without_keys
from peira.web.documents import FailureGroup

MOST_GROUPS, MOST_SAMPLES, MOST_LOOKS = 50, 600, 400
_VARYING = re.compile(r"\b[0-9a-f]{8,}\b|\d+")


class RunMonitor(Follower):
    """A follower that also keeps what failed, why, and how the run went on over time."""

    def __init__(self, store: Session, run: str) -> None:
        self._groups: OrderedDict[tuple[str, ...], FailureGroup] = OrderedDict()
        self._lock = threading.Lock()
        self.samples: deque[tuple[float, int, int, float]] = deque(maxlen=MOST_SAMPLES)
        """Of moments at which it was looked at: seconds since 1970, trials done, failed, dollars spent."""
        self.looks: deque[Look] = deque(maxlen=MOST_LOOKS)
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
            now, failed = self.run.finished or time.time(), self.progress.failed
            if not self.samples or self.samples[-1][1:3] != (self.progress.done, failed):
                self.samples.append((now, self.progress.done, failed, self.bill.money))

    @property
    def failures(self) -> list[FailureGroup]:
        """Failures by reason, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)

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
