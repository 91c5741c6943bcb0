"""Submitted batches outside of a run: list them, and collect their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from peira.app.models import models_of
from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore
from peira.core.log.state import Task
from peira.core.models import BatchState, NamedModel
from peira.engine.batch.open_batches import OpenBatches
from peira.engine.batch.record import BATCH, NoBatchCallbacks, batches_of, name_in, read_record, step_key
from peira.engine.calls.budget import RunAccounts
from peira.engine.calls.purchase import Buyer
from peira.engine.context import NoCallbacks, RunContext
from peira.errors import CallFailed, Invalid, Unknown
from peira.report.telemetry import telling
from peira.spec.limits import Budget
from peira.spec.project import Project


@dataclass(frozen=True)
class OpenBatch:
    """A batch that was submitted and is not collected.

    `name` is the provider's id of it, "" while it is not known whether the provider accepted it.
    """

    id: str
    model: str
    calls: int
    run: str
    name: str = ""
    state: BatchState = field(default_factory=lambda: BatchState(over=False))


def open_batches(store: SessionLike = None) -> list[OpenBatch]:
    """The batches that are not collected, as recorded in the store; no provider is asked."""
    with Session.find(store).reading() as opened:
        return [_recorded(task, opened) for task in _open(opened)]


def batches(store: SessionLike = None) -> list[OpenBatch]:
    """The batches that are not collected, with the state that their providers report now."""
    session = Session.find(store)
    session.project.load_plugins()
    return asyncio.run(_with_states(_Models(session.project), open_batches(session)))


def collect(store: SessionLike = None) -> list[OpenBatch]:
    """Record the answers of all batches that are over; returns all open batches with their states.

    A later run uses the answers. Raises StoreInUse while a run owns the store: it collects its own batches.
    """
    session = Session.find(store)
    project = session.project
    project.load_plugins()
    if not open_batches(session):
        return []
    with telling(project.telemetry == "otel"), session.owned() as ours:
        return asyncio.run(_collect(_Models(project), ours))


class _Models:
    """The models of a project by name, each made and checked once; raises Invalid or Unknown."""

    def __init__(self, project: Project) -> None:
        self._find_model, self._made = models_of(project), dict[str, NamedModel]()

    def __call__(self, name: str) -> NamedModel:
        """The model of this name."""
        if name not in self._made:
            named = self._find_model(name)
            named.model.check()
            self._made[name] = named
        return self._made[name]

    async def close(self) -> None:
        """Close all models that were made."""
        for named in self._made.values():
            await named.model.close()


def _open(store: AnyStore) -> list[Task]:
    """The tasks of batches that are claimed or queued."""
    running = [task for task in store.active() if task.kind == BATCH]
    return [*running, *store.queued(BATCH)]


def _recorded(task: Task, store: AnyStore) -> OpenBatch:
    """A batch as recorded in the store."""
    record = read_record(store.get(task.payload))
    step = store.find("call", [step_key(task.id)]).get(step_key(task.id))
    return OpenBatch(task.id, record.model, len(record.calls), task.run, name_in(step))


async def _with_states(models: _Models, known: Sequence[OpenBatch]) -> list[OpenBatch]:
    """The batches with their providers' states; runs on an event loop of its own."""
    found = [replace(batch, state=await _state_or_problem(_look(models, batch))) for batch in known]
    await models.close()
    return found


async def _look(models: _Models, batch: OpenBatch) -> BatchState:
    if not batch.name:
        return BatchState(over=False, said="not known to have been taken")
    return await batches_of(models(batch.model)).look(batch.name)


async def _state_or_problem(looking: Awaitable[BatchState]) -> BatchState:
    """The state, or a state that says why the batch cannot be looked at."""
    try:
        return await looking
    except (CallFailed, Invalid, Unknown) as problem:
        return BatchState(over=False, said="cannot be looked at", failure=str(problem))


async def _collect(models: _Models, store: Any) -> list[OpenBatch]:
    """Adopt each open batch under its own run, look at it once, and record its answers if it is over."""
    found = []
    for task in _open(store):
        context = RunContext(task.run, str(store.incarnation), store)
        out = Buyer(context, RunAccounts(Budget()), NoCallbacks())
        opened = OpenBatches(context, out, models, NoCallbacks(), NoBatchCallbacks(), searches=1)
        state = await _state_or_problem(_adopt_and_look(opened, task.id))
        await opened.close()
        context.journal.drain()
        context.hooks.close()
        found.append(replace(_recorded(task, store), state=state))
    await models.close()
    return found


async def _adopt_and_look(opened: OpenBatches, batch: str) -> BatchState:
    """The state of a batch after adopting and polling it once."""
    await opened.adopt(batch, watch=False)
    return await opened.look(batch)
