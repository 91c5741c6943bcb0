"""Statistics of a stream, folded from its events: how long jobs wait and run, how many, what they cost."""

from __future__ import annotations

import time
from typing import Any

from peira.core.contracts import OpenStore
from peira.core.log.events import State, TaskFinished, TasksClaimed, TasksQueued
from peira.engine.streams.declaration import last_opening, stream_names, traffic_document
from peira.engine.streams.jobs import class_of
from peira.stats.intervals.proportions import wilson

WINDOW = 3600.0
"""Seconds of the window of rates, unless another is asked for."""
MOST_EVENTS = 20_000
"""The most events, the last ones, that are looked at."""


def stream_stats(store: OpenStore, name: str, sent: int = 0, window: float = WINDOW) -> dict[str, Any]:
    """The statistics of a stream; `sent` jobs were submitted and are not queued yet.

    Times and rates are of the last `window` seconds of its present opening.
    """
    run, declaration = last_opening(store, name)
    counts = store.job_counts(class_of(name))
    counts[State.queued] = counts.get(State.queued, 0) + sent
    free = declaration.parallel - counts.get(State.running, 0)
    if declaration.places is not None:
        running = (store.job_counts(class_of(one)).get(State.running, 0) for one in stream_names(store))
        free = min(free, declaration.places - sum(running))
    now = time.time()
    folded = _Fold(class_of(name), now - window)
    after = max(0, run.next_seq - 1 - MOST_EVENTS)
    while records := store.events(run.id, after, 2000):
        after = records[-1].seq
        for record in records:
            folded.add(record.event, record.at)
    oldest = store.queued(class_of(name))[:1]
    return {
        "stream": name,
        "states": {state.value: n for state, n in counts.items() if n},
        "parallel": declaration.parallel,
        "places": declaration.places,
        "free": max(0, free),
        "oldest": round(max(0.0, now - float(oldest[0].labels.get("at", now))), 3) if oldest else None,
        "window": window,
        **folded.document(now, window, run.started or run.planned),
        **({"experiment": traffic_document(run.traffic, declaration)} if run.traffic else {}),
    }


class _Fold:
    """Folds the events of a window."""

    def __init__(self, cls: str, since: float) -> None:
        self._cls, self._since = cls, since
        self._queued: dict[str, float] = {}
        self._claimed: dict[str, float] = {}
        self._waited: list[float] = []
        self._ran: list[float] = []
        self._failed = self._ended = 0
        self._cost, self._unpriced = 0.0, 0

    def add(self, event: object, at: float) -> None:
        if type(event) is TasksQueued:
            self._queued.update((spec.id, at) for spec in event.tasks if spec.cls == self._cls)
        elif type(event) is TasksClaimed and event.cls == self._cls:
            for task in event.tasks:
                if task in self._queued and at >= self._since:
                    self._waited.append(at - self._queued.pop(task))
                self._claimed[task] = at
        elif type(event) is TaskFinished and event.task in self._claimed:
            began = self._claimed.pop(event.task)
            if at >= self._since:
                self._ended += 1
                self._failed += event.state not in (State.succeeded, State.cancelled)
                self._ran.append(at - began)
                cost = event.result.metrics.get("cost")
                self._cost += cost or 0.0
                self._unpriced += cost is None and bool(event.result.metrics.get("calls"))

    def document(self, now: float, window: float, opened: float) -> dict[str, Any]:
        share = wilson(self._failed, self._ended) if self._ended else None
        length = max(1.0, min(window, now - opened))
        return {
            "ended": self._ended,
            "per_minute": round(60 * self._ended / length, 3),
            "waiting": _quantiles(self._waited),
            "running": _quantiles(self._ran),
            "cost": None if self._unpriced else round(self._cost, 6),
            "failed": {
                "n": self._failed,
                "share": None if share is None else round(self._failed / self._ended, 4),
                "low": None if share is None or share.low is None else round(share.low, 4),
                "high": None if share is None or share.high is None else round(share.high, 4),
            },
        }


def _quantiles(values: list[float]) -> dict[str, float | None]:
    ordered = sorted(values)

    def at(share: float) -> float | None:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4) if ordered else None

    return {"p50": at(0.5), "p95": at(0.95)}
