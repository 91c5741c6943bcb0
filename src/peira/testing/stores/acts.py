"""Short words for what the suite does to a store."""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol

import msgspec

from peira.core import events as ev
from peira.core.contracts import Op, Outcome
from peira.core.events import AnyEvent, Result, State, TaskSpec
from peira.core.ids import canonical, compose, digest
from peira.core.state import Call, Run, Task
from peira.errors import Fenced
from peira.stores.verify import Inspectable

KIND, CLS = "work", "work"
_runs = count()


class AnyStore(Inspectable, Protocol):
    """A store as the suite knows it."""

    def close(self) -> None: ...


def commit(store: AnyStore, run: str, *events: AnyEvent, blobs: tuple[bytes, ...] = ()) -> Outcome:
    """What became of one op of these events."""
    [outcome] = store.commit([Op(run, events, blobs)]).result()
    return outcome


REQUEST = canonical("request")
"""What the calls of these stories ask."""


def accept(store: AnyStore, run: str, *events: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
    assert commit(store, run, *events, blobs=blobs) is None


def refuse(store: AnyStore, run: str, *events: AnyEvent) -> None:
    """The op is refused, and nothing at all has changed."""
    before = everything(store)
    assert isinstance(commit(store, run, *events), Fenced)
    assert everything(store) == before


def everything(store: AnyStore) -> tuple[list[Any], list[Any]]:
    rows = sorted(store.rows(), key=lambda row: (type(row).__name__, msgspec.json.encode(row)))
    return rows, list(store.history())


def plan_run(store: AnyStore, **fields: Any) -> str:
    """A run, planned and running."""
    run = plan_only(store, **fields)
    accept(store, run, ev.RunStarted("owner", 1))
    return run


def plan_only(store: AnyStore, **fields: Any) -> str:
    run = compose("run", next(_runs))
    planned = {"manifest": store.put(b"{}"), "study": "study", "trials": 0, **fields}
    store.put(REQUEST)
    accept(store, run, ev.RunPlanned(**planned))
    return run


def spec(name: str, **fields: Any) -> TaskSpec:
    return TaskSpec(**{"id": digest(name), "kind": KIND, "cls": CLS, **fields})


def queued(*specs: TaskSpec) -> ev.TasksQueued:
    return ev.TasksQueued(specs)


def claimed(*names: str, epoch: int = 1) -> ev.TasksClaimed:
    return ev.TasksClaimed(KIND, CLS, "owner", tuple(map(digest, names)), (epoch,) * len(names))


def finished(name: str, epoch: int = 1, state: State = State.succeeded, value: str = "1") -> ev.TaskFinished:
    return ev.TaskFinished(digest(name), epoch, state, Result(0.5, msgspec.Raw(value.encode())))


def retried(name: str, epoch: int = 1, not_before: float = 0.0) -> ev.TaskRetried:
    result = Result(failure=ev.Failure("ValueError", "no"))
    return ev.TaskRetried(digest(name), epoch, result, not_before)


def recorded(name: str, key: str, epoch: int = 1) -> ev.StepRecorded:
    return ev.StepRecorded(digest(name), epoch, digest(key), key, msgspec.Raw(b"[1,2]"))


def find_task(store: AnyStore, name: str) -> Task:
    task: Task = store.find("task", [digest(name)])[digest(name)]
    return task


def find_call(store: AnyStore, key: str) -> Call:
    call: Call = store.find("call", [digest(key)])[digest(key)]
    return call


def find_run(store: AnyStore, run: str) -> Run:
    found: Run = store.find("run", [run])[run]
    return found
