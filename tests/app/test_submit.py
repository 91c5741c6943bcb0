"""Runs in the background: waiting, looking, cancelling."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

import peira
from peira import Case, current_trial, exact, step, study, submit
from peira.core.log.events import TERMINAL, Status
from peira.engine.control import CANCEL, Command, ControlFolder
from peira.errors import Invalid
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify


@pytest.fixture
def held():
    """A study whose trials wait until they are let go."""
    free, began = threading.Event(), threading.Semaphore(0)

    @study(cases=[Case(i) for i in range(20)])
    def held(case):
        began.release()
        free.wait(30)
        return case.input

    yield held, free, began
    free.set()


def test_submit_returns_at_once_and_the_result_comes_later(held) -> None:
    asked, free, began = held
    handle = submit(asked, store=MemoryStore(), parallel=4, progress=False)
    assert began.acquire(timeout=10)
    assert handle.wait(timeout=0) is False
    progress = handle.progress()
    assert (progress.total, progress.done) == (20, 0)
    assert 1 <= progress.running <= 4
    free.set()
    assert handle.wait(timeout=30) is True
    assert handle.result().status == "completed"
    assert handle.progress().done == 20
    assert handle.cancel() is False


def test_cancel_stops_queued_and_running_trials_and_answers_every_waiter(held) -> None:
    asked, _, began = held
    store = MemoryStore()
    handle = submit(asked, store=store, parallel=4, progress=False)
    for _ in range(4):
        assert began.acquire(timeout=10)
    answers: list[str] = []
    waiters = [threading.Thread(target=lambda: answers.append(handle.result().status)) for _ in range(5)]
    for waiter in waiters:
        waiter.start()
    assert handle.cancel() is True
    for waiter in waiters:
        waiter.join(timeout=10)
    assert answers == ["cancelled"] * 5
    results = handle.result()
    assert dict(results.counts) == {"planned": 20, "cancelled": 4, "left": 16}
    assert not results.ok
    assert store.find("run", [handle.run_id])[handle.run_id].status is Status.cancelled
    assert not [t for t in store.rows() if getattr(t, "state", None) == "running"]


def test_a_cancelled_run_is_finished_by_the_next(held) -> None:
    asked, free, began = held
    store = MemoryStore()
    handle = submit(asked, store=store, parallel=2, progress=False)
    assert began.acquire(timeout=10)
    handle.cancel()
    free.set()
    again = peira.run(asked, store=store, progress=False)
    assert (again.status, again.counts["succeeded"]) == ("completed", 20)


def test_a_command_of_another_process_cancels_and_is_answered_by_an_event(held, tmp_path) -> None:
    asked, _, began = held
    path = tmp_path / "s.db"
    handle = submit(asked, store=path, parallel=2, progress=False)
    assert began.acquire(timeout=10)
    folder = ControlFolder(tmp_path / "s.db.control")
    folder.send(Command(CANCEL, "another run", by="a stranger"))
    folder.send(command := Command(CANCEL, handle.run_id, by="somebody"))
    assert handle.result(timeout=20).status == "cancelled"
    events = [record.event for record in peira.open(path).events(handle.run_id)]
    assert [e.id for e in events if e.__struct_config__.tag == "run.command"] == [command.id]
    assert peira.open(path).run().reason == "cancelled by somebody"


def test_a_wait_that_is_too_short_says_so(held) -> None:
    asked, _, began = held
    handle = submit(asked, store=MemoryStore(), parallel=2, progress=False)
    assert began.acquire(timeout=10)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)
    handle.cancel()


def test_bad_wishes_are_raised_by_submit_itself(held) -> None:
    with pytest.raises(Invalid, match="parallel"):
        submit(held[0], store=MemoryStore(), parallel=0)


def test_two_runs_on_one_open_store_do_not_disturb_each_other(held) -> None:
    """The second would find the first one's trials "left by a dead owner", and run them again."""
    asked, free, began = held
    store = MemoryStore()
    first = submit(asked, store=store, parallel=2, progress=False)
    assert began.acquire(timeout=10)
    try:
        second = submit(asked, store=store, parallel=2, progress=False)
    except peira.PeiraError:
        second = None  # refusing is fine
    time.sleep(0.1)
    free.set()
    assert first.result(timeout=20).status == "completed"
    if second:
        assert second.result(timeout=20).status == "completed"
    ends = [r.event.task for r in store.history() if r.event.__struct_config__.tag == "task.finished"]
    assert len(ends) == len(set(ends)) == 20
    assert {t.state for t in first.result().trials} <= TERMINAL


@study(
    cases=[Case(i, expected=i) for i in range(30)],
    evaluators=[exact()],
    policy={"timeout": 0.05, "retries": 1, "backoff": 0.001},
)
def restless(case):
    trial = current_trial()
    luck = trial.rng.random()
    step("look", abs, case.input)
    time.sleep(0.08 if luck > 0.9 else 0.001)
    if luck < 0.2:
        raise OSError("no luck")
    return case.input


@study(
    cases=[Case(i, expected=i) for i in range(30)],
    evaluators=[exact()],
    policy={"timeout": 0.05, "retries": 1, "backoff": 0.001},
)
async def restless_async(case):
    luck = current_trial().rng.random()
    await asyncio.sleep(0.08 if luck > 0.9 else 0.001)
    if luck < 0.2:
        raise OSError("no luck")
    return case.input


@pytest.mark.parametrize("asked", [restless, restless_async], ids=["threads", "loop"])
@pytest.mark.parametrize("seed", range(4))
def test_cancelled_at_any_moment_the_books_balance(asked, seed) -> None:
    """Whatever is under way: nothing is left running, and every trial is counted."""
    moments, store = random.Random(seed), MemoryStore()
    for _ in range(3):
        handle = submit(asked, store=store, parallel=moments.choice([1, 3, 8]), progress=False)
        time.sleep(moments.uniform(0, 0.1))
        handle.cancel()
        counts = dict(handle.result(timeout=30).counts)
        ended = {name: n for name, n in counts.items() if name != "planned" and not name.startswith("scores")}
        assert sum(ended.values()) == counts["planned"] == 30
        assert store.active() == []
        assert list(verify(store)) == []
