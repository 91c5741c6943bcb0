"""After a crash: what a dead owner left running is interrupted, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira import Case, run, study
from peira.core.contracts import Op, RunQuery
from peira.core.log import events as ev
from peira.core.log.events import State, Status
from peira.engine.recovery import GROUP, recover
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def opened(store: MemoryStore, name: str, *events: Any) -> str:
    planned = ev.RunPlanned(store.put(b"{}"), "study", 1)
    outcomes = store.commit([Op(name, (event,)) for event in (planned, *events)]).result()
    assert outcomes == [None] * (len(events) + 1)
    return name


def claim(*tasks: str, epoch: int = 1) -> ev.TasksClaimed:
    return ev.TasksClaimed("work", "x", "1", tasks, (epoch,) * len(tasks))


def test_a_running_run_is_interrupted_and_its_tasks_are_given_back(store: MemoryStore) -> None:
    opened(store, "r", ev.RunStarted("1", 1), claim("a", "b"), ev.TaskFinished("a", 1, State.succeeded))
    assert [dead.id for dead in recover(store, 2)] == ["r"]
    [found] = store.runs(RunQuery())
    assert found.status is Status.interrupted
    rows = store.find("task", ["a", "b"])
    assert (rows["a"].state, rows["a"].interruptions) == (State.succeeded, 0)
    assert (rows["b"].state, rows["b"].interruptions, rows["b"].owner) == (State.queued, 1, "")
    assert verify(store) == []


def test_a_planned_run_that_never_started_is_interrupted_too(store: MemoryStore) -> None:
    opened(store, "r")
    assert [dead.id for dead in recover(store, 2)] == ["r"]


def test_recovering_again_changes_nothing(store: MemoryStore) -> None:
    opened(store, "r", ev.RunStarted("1", 1), claim("a"))
    recover(store, 2)
    before = list(store.history())
    assert recover(store, 3) == []
    assert list(store.history()) == before


def test_a_finished_run_is_left_alone(store: MemoryStore) -> None:
    opened(store, "r", ev.RunStarted("1", 1), ev.RunFinished(Status.cancelled))
    assert recover(store, 2) == []
    assert store.runs(RunQuery())[0].status is Status.cancelled


def test_more_tasks_than_one_event_holds(store: MemoryStore) -> None:
    names = [str(i) for i in range(2 * GROUP + 1)]
    opened(store, "r", ev.RunStarted("1", 1), claim(*names))
    recover(store, 2)
    assert store.active() == []
    interrupted = [r.event for r in store.history() if isinstance(r.event, ev.TasksInterrupted)]
    assert sorted(name for event in interrupted for name in event.tasks) == sorted(names)
    assert max(len(event.tasks) for event in interrupted) <= GROUP


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["claim", "end", "retry", "back"]), max_size=8), st.booleans())
def test_whatever_was_under_way_nothing_is_after(acts: list[str], finished: bool) -> None:
    """In two runs, one after the other; the first may have ended properly."""
    store, epoch, held = MemoryStore(), 0, False
    opened(store, "r", ev.RunStarted("1", 1))
    for act in acts:
        event: Any = {
            "claim": claim("a", epoch=epoch + 1),
            "end": ev.TaskFinished("a", epoch, State.failed),
            "retry": ev.TaskRetried("a", epoch, ev.Result()),
            "back": ev.TasksReleased(("a",)),
        }[act]
        [refusal] = store.commit([Op("r", (event,))]).result()
        if refusal is None:
            held = act == "claim"
            epoch += act == "claim"
    if finished and not held:
        store.commit([Op("r", (ev.RunFinished(Status.completed),))]).result()
    opened(store, "q", ev.RunStarted("2", 2))
    recover(store, 3)
    assert store.active() == []
    assert {r.status for r in store.runs(RunQuery())} <= {Status.interrupted, Status.completed}
    assert [p for p in verify(store) if "second time" not in p] == []
    row = store.find("task", ["a"]).get("a")
    assert (row.interruptions if row else 0) == int(held)


def test_a_run_that_died_is_finished_by_the_next(store: MemoryStore) -> None:
    """Claimed and lost: tried again at the next epoch, and its one interruption is forgotten."""

    @study(cases=[Case(i) for i in range(3)])
    def agent(case: Any) -> Any:
        return case.input

    first = run(agent, store=store, limit=1, progress=False)
    ids = [t.id for t in run(agent, store=MemoryStore(), progress=False).trials]
    lost = [name for name in ids if name != first.trials[0].id]
    claimed = ev.TasksClaimed("generate", "generate", "1", tuple(lost), (1, 1))
    opened(store, "0" * 64, ev.RunStarted("1", 1), claimed)
    results = run(agent, store=store, progress=False)
    assert results.ok
    rows = store.find("task", lost)
    assert {(row.epoch, row.attempts, row.interruptions) for row in rows.values()} == {(2, 2, 0)}
    assert verify(store) == []
