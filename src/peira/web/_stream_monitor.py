"""Follows a stream for people who watch it: how its traffic changed, what was decided and reported."""

from __future__ import annotations

import threading
from collections import deque

import msgspec

from peira.app.session import Session
from peira.app.streams.events import StreamCursor, StreamEvents
from peira.core.clock import stamp
from peira.core.context import DECISION
from peira.core.log.events import (
    GoalLooked,
    OutcomeReported,
    Record,
    RunDecided,
    StepRecorded,
    TrafficSplit,
)
from peira.core.looks import Look, Traffic
from peira.engine.run_log import event_values
from peira.web.rest.documents import GoalVerdictEvent, JobDecision, ReportedOutcome, TrafficChange

MOST_KEPT = 400
"""The latest of each kind that are kept."""
CHUNK = 2000


class StreamMonitor:
    """What pages show of a stream's events, read once and then only what is new; several threads may ask."""

    def __init__(self, session: Session, name: str) -> None:
        self._events, self._cursor = StreamEvents(session, name), StreamCursor()
        self._lock = threading.Lock()
        self.splits: deque[TrafficChange] = deque(maxlen=MOST_KEPT)
        self.decided: tuple[str, Look] | None = None
        """When the experiment was decided, and the look that decided it."""
        self._experiment = ""
        self.verdicts: deque[GoalVerdictEvent] = deque(maxlen=MOST_KEPT)
        self.outcomes: deque[ReportedOutcome] = deque(maxlen=MOST_KEPT)
        self.reported = 0
        """How many outcomes were reported."""
        self.decisions: deque[JobDecision] = deque(maxlen=MOST_KEPT)

    def refresh(self) -> StreamMonitor:
        """Read what is new."""
        with self._lock:
            while found := self._events.read(self._cursor, CHUNK):
                self._cursor = found[-1][0]
                for _, record in found:
                    self._fold(record)
        return self

    def _fold(self, record: Record) -> None:
        event, at = record.event, stamp(record.at)
        if type(event) is TrafficSplit:
            self._split(event.traffic, at, event.by)
        elif type(event) is RunDecided:
            self.decided = at, event.look
        elif type(event) is GoalLooked:
            given = event.goal, event.verdict, event.mean, event.low, event.high, event.n
            self.verdicts.append(GoalVerdictEvent(at, *given))
        elif type(event) is OutcomeReported:
            self.reported += 1
            self.outcomes.append(ReportedOutcome(at, event.task, event.name, event.value, event.by))
        elif type(event) is StepRecorded and event.name.startswith(DECISION):
            self.decisions.append(
                msgspec.convert(
                    {"job": event.task, "at": at, **event_values(record)["value"]}, JobDecision, strict=False
                )
            )

    def _split(self, traffic: Traffic, at: str, by: str) -> None:
        """A change of the traffic; another experiment begins anew."""
        if traffic.experiment != self._experiment:
            self.splits.clear()
            self.decided, self._experiment = None, traffic.experiment
        last = self.splits[-1] if self.splits else None
        if last is None or list(traffic.shares) != last.shares:
            self.splits.append(TrafficChange(at, traffic.jobs, list(traffic.shares), by, traffic.why))
