"""Breaks found in an agent runtime. Each is impossible here, and a test shows it.

Those that need streams, people or triggers are in test_field_c_streams.py.
"""

from __future__ import annotations

import threading
import time

import pytest

import peira
from peira import Case, run, study, submit
from peira.core.log.events import RunFinished, Status, TaskFinished
from peira.errors import StoreInUse
from peira.stores.memory import MemoryStore

SLOW = """
import time
from pathlib import Path
from peira import Case, run, study

@study(cases=[Case(i) for i in range(30)])
def slow(case):
    with open("calls", "a") as file:
        file.write(f"{case.input}\\n")
    while not Path("go").exists():
        time.sleep(0.01)
    return case.input

if __name__ == "__main__":
    run(slow, store="s.db", parallel=2)
"""


@pytest.fixture
def held():
    """A study whose trials wait until they are let go, and who began."""
    free, began = threading.Event(), []

    @study(cases=[Case(i) for i in range(12)])
    def held(case):
        began.append(case.input)
        free.wait(30)
        return case.input

    yield held, free, began
    free.set()


def test_cancel_while_queued_hangs_the_waiter(held, until) -> None:
    """Cancelling work that was still queued hung its waiter, and left it "pending" for ever."""
    asked, _, began = held
    store = MemoryStore()
    handle = submit(asked, store=store, parallel=1, progress=False)
    until(lambda: began)
    done: list[str] = []
    waiter = threading.Thread(target=lambda: done.append(handle.result().status))
    waiter.start()
    assert handle.cancel()
    waiter.join(timeout=10)
    assert done == ["cancelled"]
    counts = dict(handle.result().counts)
    assert counts["planned"] == counts["cancelled"] + counts["left"] == 12
    assert not store.active()
    assert store.find("run", [handle.run_id])[handle.run_id].status is Status.cancelled


def test_stop_with_work_running_hangs_its_waiters(held, until) -> None:
    """Stopping with work under way raised, and four of five waiters were never answered."""
    asked, _, began = held
    handle = submit(asked, store=MemoryStore(), parallel=4, progress=False)
    until(lambda: len(began) == 4)
    answers: list[object] = []
    waiters = [threading.Thread(target=lambda: answers.append(handle.wait(20))) for _ in range(5)]
    for waiter in waiters:
        waiter.start()
    handle.cancel()
    for waiter in waiters:
        waiter.join(timeout=10)
    assert answers == [True] * 5


def test_a_cancelled_execution_is_stored_paused_and_announced_failed(held, until, hooked_ends) -> None:
    """What was stored, what was announced and what the waiter got were three different things."""
    asked, _, began = held
    store = MemoryStore()
    handle = submit(asked, store=store, parallel=2, progress=False)
    until(lambda: len(began) == 2)
    handle.cancel()
    ends = {r.event.task: r.event.state for r in store.history() if isinstance(r.event, TaskFinished)}
    assert set(ends.values()) == {"cancelled"}
    assert {t.id: t.state for t in handle.result().trials if t.id in ends} == ends
    assert {task: state for task, state in hooked_ends.items() if task in ends} == ends
    (finish,) = [r.event for r in store.history() if isinstance(r.event, RunFinished)]
    assert finish.status == handle.result().status == "cancelled"


@pytest.fixture
def hooked_ends():
    from peira.core.registry import registry

    class Ends(dict):
        def trial_ended(self, task, state):
            self[task] = state

        __hash__ = object.__hash__

    ends = Ends()
    registry.hook(ends)
    yield ends
    registry.unhook(ends)


def test_wait_with_timeout_0_blocks(held, until) -> None:
    """wait(timeout=0) waited until the execution was over."""
    asked, free, began = held
    handle = submit(asked, store=MemoryStore(), parallel=2, progress=False)
    until(lambda: began)
    since = time.monotonic()
    assert handle.wait(timeout=0) is False
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)
    assert time.monotonic() - since < 5
    assert not free.is_set()
    handle.cancel()
    assert handle.wait(timeout=0) is True


def test_kill_9_leaves_active_for_ever_and_queued_work_vanishes(folder, written, spawned, until) -> None:
    """After kill -9 an execution stayed "active" for ever, and what was queued had vanished."""
    written(SLOW)
    process = spawned()
    until(lambda: (folder / "calls").exists())
    look = peira.open("s.db")
    assert look.run().status is Status.running
    process.kill()
    process.wait()
    assert look.run().status is Status.interrupted
    assert look.results().status == "interrupted"
    assert [r.status for r in look.runs(status="running")] == []
    assert [r.status for r in look.runs(status="interrupted")] == [Status.interrupted]
    (folder / "go").touch()
    again = run("s.py", store="s.db", progress=False)
    assert (again.status, len(again.trials)) == ("completed", 30)
    assert all(t.state == "succeeded" for t in again.trials)


def test_resuming_a_running_session_runs_it_twice(folder, written, spawned, until) -> None:
    """Resuming what was already running started it a second time beside itself."""
    written(SLOW)
    process = spawned()
    until(lambda: (folder / "calls").exists())
    running = peira.open("s.db").run().id
    with pytest.raises(StoreInUse):
        run(running, store="s.db", progress=False)
    (folder / "go").touch()
    assert process.wait(timeout=30) == 0
    calls = (folder / "calls").read_text().split()
    assert sorted(map(int, calls)) == list(range(30))


@pytest.mark.parametrize("parallel", [1, 3])
def test_concurrency_declared_and_never_read(parallel) -> None:
    """A limit on concurrency was declared and never looked at."""
    lock, now, most = threading.Lock(), [0], [0]

    @study(cases=[Case(i) for i in range(12)])
    def agent(case):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        return case.input

    assert run(agent, store=MemoryStore(), parallel=parallel, progress=False).ok
    assert most[0] == parallel


def test_async_concurrency_is_the_one_asked_for() -> None:
    import asyncio

    now, most = [0], [0]

    @study(cases=[Case(i) for i in range(12)])
    async def agent(case):
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.02)
        now[0] -= 1
        return case.input

    assert run(agent, store=MemoryStore(), parallel=3, progress=False).ok
    assert most[0] == 3
