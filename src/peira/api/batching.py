"""Looking after batches without running the study: where each stands, and fetching what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from peira.api.models import models_of
from peira.api.stores import AnyStore, StoreLike, incarnation, owned, reading
from peira.core.models import BatchState, CallFailed, Named
from peira.core.state import Task
from peira.engine.batches import OpenBatches
from peira.engine.budget import Reserve
from peira.engine.buying import Buyer
from peira.engine.journal import Journal
from peira.engine.slips import BATCH, Told, batches_of, name_in, read_slip, step_key
from peira.errors import Invalid, Unknown
from peira.report.telemetry import telling
from peira.spec.limits import Budget, Policy
from peira.spec.project import Project


@dataclass(frozen=True)
class OpenBatch:
    """A batch that was handed in and is not collected. `name` is the provider's own for it, "" as long as it
    is not known whether it was taken."""

    id: str
    model: str
    calls: int
    run: str
    name: str = ""
    state: BatchState = field(default_factory=lambda: BatchState(over=False))


def open_batches(store: StoreLike = None) -> list[OpenBatch]:
    """The batches that are not collected yet, as the store knows them. Asks nobody."""
    with reading(store, Project.find()) as opened:
        return [_known(task, opened) for task in _open(opened)]


def batches(store: StoreLike = None) -> list[OpenBatch]:
    """The batches that are not collected yet, with what their providers say of them now."""
    project = Project.find()
    project.load_plugins()
    return asyncio.run(_looked(_Models(project), open_batches(store)))


def collect(store: StoreLike = None) -> list[OpenBatch]:
    """Record the answers of the batches that are over; all that were open, as they stand now.

    A later run uses the answers. StoreInUse if somebody is running: a run collects its own batches."""
    project = Project.find()
    project.load_plugins()
    if not open_batches(store):
        return []
    with telling(project.telemetry == "otel"), owned(store, project) as ours:
        return asyncio.run(_collected(_Models(project), ours))


class _Models:
    """The models of a project, each made once; Invalid or Unknown if one cannot be asked."""

    def __init__(self, project: Project) -> None:
        self._make, self._made = models_of(project), dict[str, Named]()

    def __call__(self, name: str) -> Named:
        if name not in self._made:
            named = self._make(name)
            named.model.check()
            self._made[name] = named
        return self._made[name]

    async def close(self) -> None:
        for named in self._made.values():
            await named.model.close()


def _open(store: AnyStore) -> list[Task]:
    running = [task for task in store.active() if task.kind == BATCH]
    return [*running, *store.queued(BATCH)]


def _known(task: Task, store: AnyStore) -> OpenBatch:
    slip = read_slip(store.get(task.payload))
    step = store.find("call", [step_key(task.id)]).get(step_key(task.id))
    return OpenBatch(task.id, slip.model, len(slip.calls), task.run, name_in(step))


async def _looked(models: _Models, known: Sequence[OpenBatch]) -> list[OpenBatch]:
    found = [replace(batch, state=await _said(_look(models, batch))) for batch in known]
    await models.close()
    return found


async def _look(models: _Models, batch: OpenBatch) -> BatchState:
    if not batch.name:
        return BatchState(over=False, said="not known to have been taken")
    return await batches_of(models(batch.model)).look(batch.name)


async def _said(looking: Awaitable[BatchState]) -> BatchState:
    """What is said of a batch, if only why it cannot be looked at."""
    try:
        return await looking
    except (CallFailed, Invalid, Unknown) as problem:
        return BatchState(over=False, said="cannot be looked at", failure=str(problem))


async def _collected(models: _Models, store: Any) -> list[OpenBatch]:
    found = []
    for task in _open(store):
        journal = Journal(store)
        out = Buyer(task.run, journal, Policy(), Reserve(Budget()), lambda why: None)
        opened = OpenBatches(task.run, str(incarnation(store)), store, out, models, Told(), searches=1)
        state = await _said(_taken_up(opened, task.id))
        await opened.close()
        journal.drain()
        found.append(replace(_known(task, store), state=state))
    await models.close()
    return found


async def _taken_up(opened: OpenBatches, batch: str) -> BatchState:
    await opened.adopt(batch, watch=False)
    return await opened.look(batch)
