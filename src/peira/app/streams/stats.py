"""Statistics of a stream, folded from its events: how long jobs wait and run, how many, what they cost.

The fold is kept by the minute, in a small file beside the store, so that the next query reads only the
events since then. The file may be deleted at any time: it is folded again from the last events.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from peira.app.store.access import store_folder
from peira.app.store.runs import UNDER_WAY, with_current_status
from peira.core.contracts import JobQuery, OpenStore
from peira.core.files import write_if_possible
from peira.core.ids import digest
from peira.core.log.events import AnyEvent, State, Status, TaskFinished, TasksClaimed, TasksQueued
from peira.core.log.rows import Run
from peira.engine.streams.declaration import Declaration, last_opening, stream_names, traffic_document
from peira.engine.streams.jobs import SHADOW, class_of
from peira.stats.intervals.proportions import wilson

WINDOW = 3600.0
"""Seconds of the window of rates, unless another is asked for."""
LONGEST = 86400.0
"""The longest window: what is older is not kept by the minute."""
MOST_EVENTS = 20_000
"""The most events, the last ones, that one look reads."""
MOST_OPEN = 20_000
"""The most jobs whose queueing and start are remembered until their end."""
MINUTE = 60.0
SAMPLE = 32
"""Waiting and running times that are kept of a minute, for quantiles."""
WORTH_KEEPING = 500
"""Events after which what was folded is written down."""
VERSION = 1
"""Of the file; one of another version is not read."""


class TimeSample(msgspec.Struct, array_like=True):
    """Some of many durations, evenly spread over their order: every `step`-th of them."""

    values: list[float] = []
    step: int = 1
    seen: int = 0

    def add(self, value: float) -> None:
        """Add a duration; if there are too many, every other one is dropped."""
        if self.seen % self.step == 0:
            self.values.append(round(value, 6))
            if len(self.values) > SAMPLE:
                self.values, self.step = self.values[::2], 2 * self.step
        self.seen += 1


class MinuteStats(msgspec.Struct, array_like=True):
    """What ended and began within one minute."""

    ended: int = 0
    failed: int = 0
    cost: float = 0.0
    unpriced: int = 0
    waited: TimeSample = msgspec.field(default_factory=TimeSample)
    ran: TimeSample = msgspec.field(default_factory=TimeSample)
    shadows: int = 0
    shadows_failed: int = 0
    shadow_cost: float = 0.0


class StreamFold(msgspec.Struct):
    """The events of one opening, folded up to `seq`; complete from the moment `since` on."""

    stream: str
    run: str
    seq: int = 0
    since: float = 0.0
    version: int = VERSION
    queued: dict[str, float] = {}
    claimed: dict[str, float] = {}
    minutes: dict[int, MinuteStats] = {}

    def add(self, event: AnyEvent, at: float) -> None:
        """Fold an event."""
        jobs, shadows = class_of(self.stream), class_of(self.stream, SHADOW)
        if type(event) is TasksQueued:
            self.queued.update((spec.id, at) for spec in event.tasks if spec.cls == jobs)
        elif type(event) is TasksClaimed and event.cls in (jobs, shadows):
            for task in event.tasks:
                if (queued := self.queued.pop(task, None)) is not None:
                    self._minute(at).waited.add(at - queued)
                self.claimed[task] = at if event.cls == jobs else -at
        elif type(event) is TaskFinished and (began := self.claimed.pop(event.task, None)) is not None:
            minute, failed = self._minute(at), event.state not in (State.succeeded, State.cancelled)
            cost = event.result.metrics.get("cost")
            if began < 0:  # a shadow
                minute.shadows += 1
                minute.shadows_failed += failed
                minute.shadow_cost += cost or 0.0
                return
            minute.ended += 1
            minute.failed += failed
            minute.ran.add(at - began)
            minute.cost += cost or 0.0
            minute.unpriced += cost is None and bool(event.result.metrics.get("calls"))

    def _minute(self, at: float) -> MinuteStats:
        return self.minutes.setdefault(int(at // MINUTE), MinuteStats())

    def trim(self, now: float) -> None:
        """Remove minutes that are too old, and the oldest open jobs if there are too many."""
        oldest = int((now - LONGEST) // MINUTE) - 1
        self.minutes = {minute: found for minute, found in self.minutes.items() if minute >= oldest}
        for open_jobs in (self.queued, self.claimed):
            for task in list(open_jobs)[: max(0, len(open_jobs) - MOST_OPEN)]:
                del open_jobs[task]

    def _within(self, now: float, window: float) -> tuple[float, list[MinuteStats]]:
        """The beginning of the window, at a whole minute, and its minutes."""
        first = int((now - window) // MINUTE)
        found = [one for minute, one in self.minutes.items() if minute >= first]
        return max(first * MINUTE, self.since), found

    def document(self, now: float, window: float) -> dict[str, Any]:
        """The statistics of the last `window` seconds in whole minutes, or of as many as are known
        (`covered`)."""
        begin, found = self._within(now, window)
        ended, failed = sum(one.ended for one in found), sum(one.failed for one in found)
        share = wilson(failed, ended) if ended else None
        length = max(1.0, now - begin)
        return {
            "covered": round(length, 1),
            "ended": ended,
            "per_minute": round(60 * ended / length, 3),
            "waiting": _quantiles([one.waited for one in found]),
            "running": _quantiles([one.ran for one in found]),
            "cost": None if any(one.unpriced for one in found) else round(sum(o.cost for o in found), 6),
            "failed": {
                "n": failed,
                "share": None if share is None else round(failed / ended, 4),
                "low": None if share is None or share.low is None else round(share.low, 4),
                "high": None if share is None or share.high is None else round(share.high, 4),
            },
        }

    def shadow_document(self, now: float, window: float, declaration: Declaration) -> dict[str, Any]:
        """What shadows did within the window, and what they may use."""
        _, found = self._within(now, window)
        return {
            **(declaration.shadows or {}),
            "ended": sum(one.shadows for one in found),
            "failed": sum(one.shadows_failed for one in found),
            "cost": round(sum(one.shadow_cost for one in found), 6),
        }


def _standing(run: Run) -> str:
    """How a stream stands: a host does its jobs, it begins no more, or there is no host."""
    if run.status is Status.paused:
        return "paused"
    return "served" if run.status in UNDER_WAY else "not served"


_decode = msgspec.msgpack.Decoder(StreamFold).decode


def stream_stats(store: OpenStore, name: str, sent: int = 0, window: float = WINDOW) -> dict[str, Any]:
    """The statistics of a stream; `sent` jobs were submitted and are not queued yet.

    Times and rates are of the last `window` seconds of its present opening, at most of a day.
    """
    run, declaration = last_opening(store, name)
    counts = store.job_counts(class_of(name))
    counts[State.queued] = counts.get(State.queued, 0) + sent
    free = declaration.parallel - counts.get(State.running, 0)
    if declaration.places is not None:
        running = (store.job_counts(class_of(one)).get(State.running, 0) for one in stream_names(store))
        free = min(free, declaration.places - sum(running))
    now = time.time()
    fold = folded(store, run, name, now)
    oldest = store.jobs(JobQuery(class_of(name), State.queued, 1, oldest=True, brief=True))
    window = min(window, LONGEST)
    return {
        "stream": name,
        "standing": _standing(with_current_status(run, store)),
        "states": {state.value: n for state, n in counts.items() if n},
        "parallel": declaration.parallel,
        "places": declaration.places,
        "free": max(0, free),
        "oldest": round(max(0.0, now - float(oldest[0].labels.get("at", now))), 3) if oldest else None,
        "window": window,
        **fold.document(now, window),
        **({"shadows": fold.shadow_document(now, window, declaration)} if declaration.shadows else {}),
        **({"experiment": traffic_document(run.traffic, declaration)} if run.traffic else {}),
    }


def folded(store: OpenStore, run: Run, name: str, now: float, most: int = MOST_EVENTS) -> StreamFold:
    """The fold of an opening up to now: the one in the file, and at `most` so many events since then.

    Jobs that began before the first event that is read are not counted.
    """
    file = store_folder(store, "streams") / f"{digest([name])[:24]}.stats"
    fold = _read(file, run.id) or StreamFold(name, run.id, since=run.started or run.planned)
    first = fold.seq
    if run.next_seq - 1 - fold.seq > most:  # nobody looked for long: the last ones must do
        fold = StreamFold(name, run.id, first := run.next_seq - 1 - most, now)
    began = fold.seq == first and not fold.minutes and first > 0
    while records := store.events(run.id, fold.seq, 2000):
        if began:
            fold.since, began = records[0].at, False
        for record in records:
            fold.add(record.event, record.at)
        fold.seq = records[-1].seq
    fold.trim(now)
    if fold.seq - first >= WORTH_KEEPING:
        write_if_possible(file, msgspec.msgpack.encode(fold))
    return fold


def _read(file: Path, run: str) -> StreamFold | None:
    """What was written down of this opening; None if there is nothing, or nothing that can be used."""
    try:
        found = _decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return found if (found.run, found.version) == (run, VERSION) else None


def _quantiles(samples: list[TimeSample]) -> dict[str, float | None]:
    """The median and the 95th percentile; each sample stands for all that its minute has seen."""
    weighted = sorted((value, one.seen / len(one.values)) for one in samples for value in one.values)
    total, found = sum(weight for _, weight in weighted), dict[str, float | None]()
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        reached, at = 0.0, None
        for value, weight in weighted:
            reached, at = reached + weight, round(value, 4)
            if reached > share * total:
                break
        found[name] = at
    return found
