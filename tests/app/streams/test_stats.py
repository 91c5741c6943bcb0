"""Statistics of streams: folded from events, kept by the minute, the same however often one looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import open, serve, stream
from peira.app.streams.stats import MINUTE, SAMPLE, StreamFold, TimeSample, folded
from peira.core.log.events import Result, State, TaskFinished, TasksClaimed, TaskSpec, TasksQueued
from peira.engine.streams.declaration import last_opening
from peira.stores.sqlite import SqliteStore

pytestmark = pytest.mark.timeout(120)


def noop(case: Any) -> Any:
    if case.input == 7:
        raise ValueError("not this one")


class NotingStore:
    """A store that notes after which event others are asked for."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self.asked = store, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def events(self, run: str, after: int, limit: int) -> Any:
        self.asked.append(after)
        return self._store.events(run, after, limit)


def test_what_was_folded_is_written_down_and_is_the_same_as_all_events(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with serve(stream(noop, parallel=4), store=path) as host:
        for start in range(0, 400, 100):
            jobs = host.submit_many("noop", [{"input": n} for n in range(start, start + 100)])
            assert all(job.wait(60) for job in jobs)
            host.stream("noop").stats()
    [file] = (tmp_path / "live.db.streams").glob("*.stats")
    store = SqliteStore(path, readonly=True)
    run, _ = last_opening(store, "noop")
    kept = folded(store, run, "noop", run.finished)
    noting = NotingStore(store)
    assert folded(noting, run, "noop", run.finished) == kept  # type: ignore[arg-type]
    assert min(noting.asked) > 0, "only what is new is read"
    file.unlink()
    whole = folded(store, run, "noop", run.finished)
    store.close()
    assert whole == kept
    found = open(path).stream("noop").stats()
    assert (found["ended"], found["failed"]["n"]) == (400, 1)
    file.write_bytes(b"torn")
    assert open(path).stream("noop").stats()["ended"] == 400, "a file that cannot be read is as good as none"


def test_only_the_last_events_are_read_and_the_rate_is_of_their_time(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with serve(stream(noop, parallel=4), store=path) as host:
        for _ in range(3):
            for job in host.submit_many("noop", [{"input": n + 10} for n in range(100)]):
                job.wait(60)
    store = SqliteStore(path, readonly=True)
    run, _ = last_opening(store, "noop")
    found = folded(store, run, "noop", run.finished, most=150)
    store.close()
    assert 0 < sum(one.ended for one in found.minutes.values()) < 200
    assert run.started < found.since < run.finished, "what is told is of the time that was looked at"


def test_quantiles_of_many_durations_are_those_of_all() -> None:
    fold = StreamFold("s", "r")
    for n in range(10_000):
        at = 6000.0 + (n % 3) * MINUTE
        fold.add(TasksQueued((TaskSpec(f"t{n}", "job", "job.s"),)), at)
        fold.add(TasksClaimed("job", "job.s", "1", (f"t{n}",), (1,)), at + (n % 1000) / 1000)
        fold.add(TaskFinished(f"t{n}", 1, State.succeeded, Result()), at + 2)
    document = fold.document(6300.0, 3600.0)
    assert document["ended"] == 10_000
    assert document["waiting"]["p50"] == pytest.approx(0.5, abs=0.08)
    assert document["waiting"]["p95"] == pytest.approx(0.95, abs=0.06)
    assert not fold.queued
    assert not fold.claimed
    sample = TimeSample()
    for n in range(100_000):
        sample.add(n)
    assert len(sample.values) <= SAMPLE + 1
    fold.trim(6300.0 + 2 * 86400)
    assert not fold.minutes
