"""Sources that stay open, and tasks that wait for other tasks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from peira.app.session import Session
from peira.core.contracts import Channel, Ended, Offer, Op
from peira.core.ids import digest
from peira.core.log.events import RunPlanned, RunStarted, State, TaskSpec, TasksWoken, TaskWaiting
from peira.engine.context import RunContext
from peira.engine.execution import IDLE, Execution
from peira.engine.run import RunDriver
from peira.runners.threads import ThreadRunner
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify


class Job:
    """Work that waits for the tasks it names, and fails if it is told to."""

    stage, asynchronous, reader = "job", False, ""

    def __init__(self, name: str, awaits: Sequence[str] = (), fails: bool = False, nap: float = 0.0) -> None:
        self.name, self.awaits, self.fails, self.nap = name, awaits, fails, nap
        self.started = threading.Event()

    def scope(self) -> str:
        return digest(self.name)

    def perform(self, channel: Channel, epoch: int) -> Any:
        self.started.set()
        time.sleep(self.nap)
        if self.awaits:
            channel.await_tasks([digest(name) for name in self.awaits])
        if self.fails:
            raise ValueError("no")
        return self.name

    def message(self) -> dict[str, Any]:
        raise NotImplementedError

    def copy(self) -> Job:
        return self


class Jobs:
    """A source to which jobs are added from outside."""

    unit, size = "job", None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: list[Offer] = []
        self._closing, self.asked = False, 0

    @property
    def closed(self) -> bool:
        return self._closing and not self._queue

    def watch(self, grown: Callable[[], None]) -> None:
        self._grown = grown

    def performs(self, kind: str) -> bool:
        return True

    def more(self, n: int) -> list[Offer]:
        with self._lock:
            self.asked += 1
            chosen, self._queue = self._queue[:n], self._queue[n:]
            return chosen

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        return []

    def add(self, *jobs: Job) -> None:
        with self._lock:
            self._queue += [Offer(TaskSpec(digest(job.name), "job", "job"), job) for job in jobs]
        self._grown()

    def close(self) -> None:
        self._closing = True
        self._grown()


@contextmanager
def running(store: Any, jobs: Jobs, workers: int = 3) -> Iterator[Execution]:
    run = digest("run")
    store.commit([Op(run, (RunPlanned(store.put(b"{}"), "jobs", 0), RunStarted("1", 1)))]).result()
    execution = Execution(RunContext(run, "1", store), jobs)
    driver = RunDriver(execution, {"job": (ThreadRunner(), workers)})
    thread = threading.Thread(target=driver.conduct)
    thread.start()
    try:
        yield execution
    finally:
        jobs.close()
        thread.join(30)
        assert not thread.is_alive()


def test_an_open_source_is_left_alone_until_it_has_grown(tmp_path: Path) -> None:
    jobs = Jobs()
    with Session.find(tmp_path / "s.db").owned() as store, running(store, jobs):
        time.sleep(0.2)
        before, since = jobs.asked, time.monotonic()
        time.sleep(1.0)
        assert jobs.asked - before <= 2 + (time.monotonic() - since) / IDLE
        for n in range(20):
            job = Job(str(n))
            jobs.add(job)
            assert job.started.wait(10)
        jobs.close()


def test_a_task_waits_for_tasks_whatever_their_end_and_goes_on_by_replay(tmp_path: Path) -> None:
    store, jobs = MemoryStore(), Jobs()
    with running(store, jobs) as execution:
        parent = Job("parent", ("good", "bad"))
        jobs.add(parent, Job("good", nap=0.05), Job("bad", fails=True, nap=0.1))
    rows = store.find("task", [digest(name) for name in ("parent", "good", "bad")])
    assert {rows[digest(n)].state for n in ("parent", "good")} == {State.succeeded}
    assert rows[digest("bad")].state is State.failed
    assert (rows[digest("parent")].attempts, rows[digest("parent")].interruptions) == (1, 0)
    events = [record.event for record in store.events(execution.run)]
    waits = [e for e in events if isinstance(e, TaskWaiting)]
    assert len(waits) == sum(isinstance(e, TasksWoken) for e in events) <= 1
    assert verify(store) == []


def test_tasks_that_ended_before_need_not_be_waited_for() -> None:
    store, jobs = MemoryStore(), Jobs()
    with running(store, jobs) as execution:
        first = Job("first")
        jobs.add(first)
        while not execution.tally.of("job", "succeeded"):
            time.sleep(0.01)
        jobs.add(Job("second", ("first",)))
    assert store.find("task", [digest("second")])[digest("second")].state is State.succeeded
    assert not [r for r in store.events(execution.run) if isinstance(r.event, TaskWaiting)]


@pytest.mark.parametrize("seed", range(4))
def test_no_wake_up_is_lost_among_many_that_wait_for_each_other(seed: int) -> None:
    """A random graph in which each waits for some that come before or after it, at several workers."""
    rng, store, jobs = random.Random(seed), MemoryStore(), Jobs()
    n = 40
    names = [str(i) for i in range(n)]
    order = list(range(n))
    rng.shuffle(order)
    with running(store, jobs, workers=4):
        for i in order:
            awaits = rng.sample(names[:i], min(i, rng.randrange(3)))
            jobs.add(Job(names[i], awaits, fails=rng.random() < 0.2, nap=rng.choice([0, 0, 0.01])))
    rows = store.find("task", list(map(digest, names)))
    assert {row.state for row in rows.values()} <= {State.succeeded, State.failed}
    assert len(rows) == n
    assert all(row.attempts == 1 and row.interruptions == 0 for row in rows.values())
    assert verify(store) == []
