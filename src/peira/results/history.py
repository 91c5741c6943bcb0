"""When trials were executed and what their agents logged, read from the event logs of runs at first use.

The rows of trials have durations, but neither times nor observations: these are events of the run that
executed a trial. The log of a run is read once, when the first of its trials is asked for them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from peira.core.contracts import Store
from peira.core.ids import Json
from peira.core.log.events import Observed, Record, TaskFinished, TaskReused, TasksClaimed

PAGE = 5_000
"""The number of events per read."""


class LogEntry(msgspec.Struct, frozen=True):
    """An observation that an agent logged: when (seconds since 1970), its name and data, in which attempt."""

    at: float
    name: str
    data: Json
    attempt: int


class TrialHistory(msgspec.Struct, frozen=True):
    """When a trial last started and ended (seconds since 1970, None if unknown), and its log entries."""

    started: float | None = None
    ended: float | None = None
    observations: tuple[LogEntry, ...] = ()


class RunHistory:
    """The times and observations in one run's log: 16 bytes for each time, and the data of observations."""

    def __init__(self, store: Store, run: str) -> None:
        """Read the whole log of the run."""
        started, ended = _Moments(), _Moments()
        self._entries: dict[int, list[bytes]] = {}
        for record in _records(store, run):
            event = record.event
            if isinstance(event, TasksClaimed):
                for task in event.tasks:
                    started.add(task, record.at)
            elif isinstance(event, (TaskFinished, TaskReused)):
                ended.add(event.task, record.at)
            elif isinstance(event, Observed):
                entry = LogEntry(record.at, event.name, msgspec.json.decode(event.data), event.epoch)
                self._entries.setdefault(_key(event.task), []).append(msgspec.msgpack.encode(entry))
        self._started = started.last()
        del started  # they take as much memory again
        self._ended = ended.last()
        self._latest = "", TrialHistory()
        """The trial that was asked for last, of which several things are asked one after another."""

    def of(self, trial: str) -> TrialHistory:
        """The history of a trial."""
        latest, history = self._latest
        if latest != trial:
            stored = self._entries.get(_key(trial), ())
            entries = tuple(msgspec.msgpack.decode(one, type=LogEntry) for one in stored)
            history = TrialHistory(self._started(trial), self._ended(trial), entries)
            self._latest = trial, history
        return history


class _Moments:
    """Times by task; of several for one task, the last counts."""

    def __init__(self) -> None:
        self._keys, self._at = array("Q"), array("d")

    def add(self, task: str, at: float) -> None:
        """Add a time of a task."""
        self._keys.append(_key(task))
        self._at.append(at)

    def last(self) -> Callable[[str], float | None]:
        """The function that finds the last time of a task; None if there is none."""
        import numpy as np

        keys = np.frombuffer(self._keys, np.uint64)
        order: Any = np.argsort(keys, kind="stable").astype(np.uint32)
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        # One at a time is found faster without numpy.
        known = memoryview(keys if last.all() else keys[last])
        times = memoryview(np.frombuffer(self._at)[order if last.all() else order[last]])

        def find(task: str) -> float | None:
            key = _key(task)
            at = bisect_left(known, key)
            return times[at] if at < len(known) and known[at] == key else None

        return find


def _key(id: str) -> int:
    """The first 8 bytes of a task's id (a SHA-256 digest) as an integer; 0 if damage has left no digest."""
    try:
        return int(id[:16], 16)
    except ValueError:
        return 0


def _records(store: Store, run: str) -> Iterator[Record]:
    """The events of a run."""
    after = 0
    while records := store.events(run, after, PAGE):
        yield from records
        after = records[-1].seq
