"""Quick attempts are claimed while others are under way: none begins before its claim is durable."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from peira import Case, current_trial, run, study, submit
from peira.core.contracts import Op, Outcome
from peira.core.log.events import State
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify

N = 3000


class SlowStore(MemoryStore):
    """A store whose commits take a while. What it shows is durable, and nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[tuple[Sequence[Op], Future[list[Outcome]]]] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        done: Future[list[Outcome]] = Future()
        self._queue.put((ops, done))
        return done

    def _write(self) -> None:
        while True:
            ops, done = self._queue.get()
            time.sleep(0.005)
            done.set_result(super().commit(ops).result())


def quick(agent: Callable[[Any], Any]) -> Any:
    return study(cases=[Case(n) for n in range(N)])(agent)


def trials_of(store: MemoryStore) -> list[str]:
    claims = (getattr(record.event, "tasks", ()) for record in store.history())
    return [task for tasks in claims for task in tasks]


@pytest.mark.timeout(60)
def test_no_attempt_begins_before_its_claim_is_durable() -> None:
    store, early = SlowStore(), []

    def agent(case: Case) -> int:
        task = current_trial().id
        if (row := store.find("task", [task]).get(task)) is None or row.state is not State.running:
            early.append(task)
        return 1

    results = run(quick(agent), store=store, parallel=2, progress=False)
    assert results.counts["succeeded"] == N
    assert early == []
    assert list(verify(store)) == []


@pytest.mark.timeout(60)
def test_a_slow_attempt_does_not_hold_what_was_claimed_ahead() -> None:
    ended: list[int] = []
    most = threading.Event()

    def agent(case: Any) -> int:
        ended.append(case.input)
        if len(ended) > N - 500:
            most.set()
        if len(ended) == 600:  # its worker is busy from here on, and claims nothing more
            assert most.wait(30)
        return 1

    assert run(quick(agent), store=SlowStore(), parallel=2, progress=False).counts["succeeded"] == N


@pytest.mark.timeout(60)
def test_what_is_being_claimed_when_a_run_is_stopped_was_no_attempt() -> None:
    store, began = SlowStore(), threading.Event()
    calls: list[int] = []

    def agent(case: Any) -> int:
        calls.append(1)
        if len(calls) == 700:
            began.set()
        return 1

    work = quick(agent)
    handle = submit(work, store=store, parallel=2)
    assert began.wait(30)
    handle.cancel()
    handle.result()
    rows = store.find("task", trials_of(store)).values()
    assert State.running not in {row.state for row in rows}
    begun = {row.id for row in rows if row.state is State.cancelled}
    assert len(begun) <= 2, "what the two workers had in hand"
    assert list(verify(store)) == []
    results = run(work, store=store, parallel=2, progress=False)
    assert results.counts["succeeded"] + results.counts.get("reused", 0) == N
    rows = store.find("task", trials_of(store)).values()
    assert all(row.attempts == 1 + (row.id in begun) and not row.interruptions for row in rows)
    assert list(verify(store)) == []
