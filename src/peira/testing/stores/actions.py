"""Helpers of the store suite: short functions that plan, commit, claim and read."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from peira.core.contracts import Op, OpenStore, Outcome
from peira.core.ids import canonical, compose, digest
from peira.core.log import events as ev
from peira.core.log.events import AnyEvent, Result, State, TaskSpec
from peira.core.log.state import Call, Run, Task
from peira.errors import Fenced

KIND, CLS = "work", "work"
_runs = count()


AnyStore = OpenStore
"""A store as the suite uses it."""


def commit(store: AnyStore, run: str, *events: AnyEvent, blobs: tuple[bytes, ...] = ()) -> Outcome:
    """The outcome of one op with these events."""
    [outcome] = store.commit([Op(run, events, blobs)]).result()
    return outcome


REQUEST = canonical("request")
"""The request of all calls in the suite."""


def accept(store: AnyStore, run: str, *events: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
    """Commit the events, and assert that they are accepted."""
    assert commit(store, run, *events, blobs=blobs) is None


def refuse(store: AnyStore, run: str, *events: AnyEvent) -> None:
    """Commit the events, and assert that they are refused and nothing has changed."""
    before = everything(store)
    assert isinstance(commit(store, run, *events), Fenced)
    assert everything(store) == before


def everything(store: AnyStore) -> tuple[list[Any], list[Any]]:
    """All rows and all records."""
    rows = sorted(store.rows(), key=lambda row: (type(row).__name__, msgspec.json.encode(row)))
    return rows, list(store.history())


def plan_run(store: AnyStore, **fields: Any) -> str:
    """A run that is planned and started; its id."""
    run = plan_only(store, **fields)
    accept(store, run, ev.RunStarted("owner", 1))
    return run


def plan_only(store: AnyStore, **fields: Any) -> str:
    """A run that is planned; its id."""
    run = compose("run", next(_runs))
    planned = {"manifest": store.put(b"{}"), "study": "study", "trials": 0, **fields}
    store.put(REQUEST)
    accept(store, run, ev.RunPlanned(**planned))
    return run


def spec(name: str, **fields: Any) -> TaskSpec:
    """A task of this name."""
    return TaskSpec(**{"id": digest(name), "kind": KIND, "cls": CLS, **fields})


def queued(*specs: TaskSpec) -> ev.TasksQueued:
    """The event that queues tasks."""
    return ev.TasksQueued(specs)


def claimed(*names: str, epoch: int = 1) -> ev.TasksClaimed:
    """The event that claims tasks."""
    return ev.TasksClaimed(KIND, CLS, "owner", tuple(map(digest, names)), (epoch,) * len(names))


def finished(name: str, epoch: int = 1, state: State = State.succeeded, value: str = "1") -> ev.TaskFinished:
    """The event that finishes a task."""
    return ev.TaskFinished(digest(name), epoch, state, Result(0.5, msgspec.Raw(value.encode())))


def retried(name: str, epoch: int = 1, not_before: float = 0.0) -> ev.TaskRetried:
    """The event that ends an attempt and schedules another."""
    result = Result(failure=ev.Failure("ValueError", "no"))
    return ev.TaskRetried(digest(name), epoch, result, not_before)


def recorded(name: str, key: str, epoch: int = 1) -> ev.StepRecorded:
    """The event that records a step."""
    return ev.StepRecorded(digest(name), epoch, digest(key), key, msgspec.Raw(b"[1,2]"))


def find_task(store: AnyStore, name: str) -> Task:
    """The row of a task."""
    task: Task = store.find("task", [digest(name)])[digest(name)]
    return task


def find_call(store: AnyStore, key: str) -> Call:
    """The row of a call or step."""
    call: Call = store.find("call", [digest(key)])[digest(key)]
    return call


def find_run(store: AnyStore, run: str) -> Run:
    """The row of a run."""
    found: Run = store.find("run", [run])[run]
    return found
