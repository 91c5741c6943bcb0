"""Looking after batches without running the study: where each stands, and fetching what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from peira.api.models import models_of
from peira.api.stores import AnyStore, StoreLike, incarnation, locate, owned, reading
from peira.core.codec import decode
from peira.core.models import BatchState, CallFailed, Named
from peira.core.state import Task
from peira.engine.batching import BATCH, Batcher, Slip, batches_of, step_key
from peira.engine.budget import Reserve
from peira.engine.buying import Buyer
from peira.engine.journal import Journal
from peira.spec.limits import Budget, Policy
from peira.spec.project import Project


@dataclass(frozen=True)
class OpenBatch:
    """A batch that was handed in and is not collected. `name` is the provider's own for it."""

    id: str
    model: str
    calls: int
    run: str
    name: str = ""
    state: BatchState = field(default_factory=lambda: BatchState(over=False))


def batches(store: StoreLike = None) -> list[OpenBatch]:
    """The batches that are not collected yet, with what their providers say of them now."""
    project = Project.find()
    project.load_plugins()
    with reading(locate(store, project), project) as opened:
        known = [_shown(task, opened) for task in _open(opened)]
    return asyncio.run(_looked(project, known))


def collect(store: StoreLike = None) -> list[OpenBatch]:
    """Record the answers of the batches that are over; all that were open, as they stand now.

    A later run uses the answers. StoreInUse if somebody is running: a run collects its own batches."""
    project = Project.find()
    project.load_plugins()
    with owned(locate(store, project), project) as ours:
        return asyncio.run(_collected(project, ours))


def _open(store: AnyStore) -> list[Task]:
    running = [task for task in store.active() if task.kind == BATCH]
    return [*running, *store.queued(BATCH)]


def _shown(task: Task, store: AnyStore) -> OpenBatch:
    slip = msgspec.json.decode(store.get(task.payload), type=Slip)
    step = store.find("call", [step_key(task.id)]).get(step_key(task.id))
    name = str(decode(bytes(step.value))) if step else ""
    return OpenBatch(task.id, slip.model, len(slip.calls), task.run, name)


async def _looked(project: Project, known: Sequence[OpenBatch]) -> list[OpenBatch]:
    make, named = models_of(project), dict[str, Named]()
    found = []
    for batch in known:
        model = named.setdefault(batch.model, make(batch.model))
        state = await _state(model, batch.name)
        found.append(OpenBatch(batch.id, batch.model, batch.calls, batch.run, batch.name, state))
    for model in named.values():
        await model.model.close()
    return found


async def _state(model: Named, name: str) -> BatchState:
    if not name:
        return BatchState(over=False, said="not known to have been handed in")
    try:
        return await batches_of(model).look(name)
    except CallFailed as problem:
        return BatchState(over=False, said=str(problem))


async def _collected(project: Project, store: Any) -> list[OpenBatch]:
    known = {task.id: (task, _shown(task, store)) for task in _open(store)}
    make, made = models_of(project), dict[str, Named]()

    def known_as(name: str) -> Named:
        return made.setdefault(name, make(name))

    found = []
    for task, batch in known.values():
        journal = Journal(store)
        out = Buyer(task.run, journal, Policy(), Reserve(Budget()), lambda why: None)
        batcher = Batcher(task.run, str(incarnation(store)), store, out, known_as)
        taken = await batcher.adopt(task, watch=False)
        state = BatchState(over=True, said="given up: nobody knows whether it was handed in")
        if taken is not None:
            state = await batcher.look(taken[0], task.id, taken[1])
        await batcher.close()
        journal.drain()
        found.append(OpenBatch(batch.id, batch.model, batch.calls, batch.run, batch.name, state))
    for model in made.values():
        await model.model.close()
    return found
