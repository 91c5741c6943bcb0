"""Cancelling tasks of a run under way, in whatever state they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from peira.core.contracts import Offer, Op, Store
from peira.core.log.events import (
    AnyEvent,
    Failure,
    QuestionClosed,
    Result,
    State,
    TaskFinished,
    TasksCancelling,
    TasksClaimed,
    TasksWoken,
)
from peira.core.log.rows import ASKED
from peira.core.log.state import Task
from peira.engine.attempts.active_attempts import ActiveAttempts
from peira.engine.attempts.dispatch import Dispatch
from peira.engine.attempts.waits import Waits
from peira.engine.kinds import GENERATE
from peira.engine.run_state import RunState
from peira.errors import Abandoned

AGAIN = 0.01
"""How long a task that begins to wait just now is left alone before cancelling it is tried again."""


def _belongs(offer: Offer, tasks: frozenset[str]) -> bool:
    """Whether a task is one of these, or follows from one."""
    return offer.spec.id in tasks or getattr(offer.work, "trial", None) in tasks


def cancelled_elsewhere(
    store: Store, run: str, owner: str, tasks: Collection[str], by: str, now: float
) -> list[Op]:
    """The ops that cancel trials of a shared run which `owner` does not have, whoever has them, if anybody.

    Who executes one is told to end it. One that is not begun ends at the epoch of its next attempt: who has
    it, or gets it later, cannot begin it any more, and finds how it ended. Those that have ended stay as they
    are. An op is refused if its trial is begun, or put back, just now: cancel it again then.
    """
    rows = store.find("task", list(tasks))
    ops = []
    for task in tasks:
        row = rows.get(task)
        if row is not None and row.state is State.running:
            ops.append(Op(run, (TasksCancelling((task,), by),)))
        elif row is None or row.state in (State.queued, State.waiting):
            woken = _woken(store, row, now) if row is not None and row.state is State.waiting else ()
            kind, cls, epoch = (row.kind, row.cls, row.epoch + 1) if row else (GENERATE, GENERATE, 1)
            claim = TasksClaimed(kind, cls, owner, (task,), (epoch,))
            result = Result(failure=Failure(Abandoned.__name__, f"cancelled by {by}"))
            ops.append(Op(run, (*woken, claim, TaskFinished(task, epoch, State.cancelled, result))))
    return ops


def _woken(store: Store, row: Task, now: float) -> tuple[AnyEvent, ...]:
    """The events after which a waiting task waits no more: its open questions are void."""
    calls = store.find("call", list(row.questions))
    mine = [key for key, call in calls.items() if call.state == ASKED and call.task == row.id]
    void = tuple(QuestionClosed(row.id, key, "void", now) for key in mine)
    return void if not row.awaits and set(mine) == set(row.questions) else (*void, TasksWoken((row.id,)))


class TaskCancellation:
    def __init__(
        self,
        state: RunState,
        dispatch: Dispatch,
        active: ActiveAttempts,
        waits: Waits,
        settle: Callable[[], None],
    ) -> None:
        """`settle` settles ended attempts, with the lock held."""
        self._state, self._dispatch, self._active, self._waits = state, dispatch, active, waits
        self._settle = settle

    def cancel(self, tasks: Collection[str], by: str, taken: AnyEvent | None = None) -> None:
        """Cancel these tasks, and what follows from them; durable when it returns. `taken` is recorded first.

        Those that have ended stay as they are.
        """
        state, wanted = self._state, frozenset(tasks)
        if taken is not None:
            state.journal.queue([Op(state.context.run, (taken,))])
        failure = Failure(Abandoned.__name__, f"cancelled by {by}")
        while True:
            state.journal.drain()
            with state.changed:
                self._settle()
                chosen = set(state.scheduler.belonging(lambda offer: _belongs(offer, wanted)))
                if not self._waits.beginning(chosen):
                    started = self._cancel_now(wanted, chosen, failure, by)
                    break
            time.sleep(AGAIN)
        state.journal.drain()
        self._active.cancel(started, by)

    def _cancel_now(self, wanted: frozenset[str], chosen: set[str], failure: Failure, by: str) -> set[str]:
        """End what is not started, and mark what is; returns the latter. With the lock held."""
        state, scheduler = self._state, self._state.scheduler
        self._dispatch.return_ahead(chosen)  # what no worker has begun need not wait for one
        started = chosen & scheduler.started.keys()
        for entry in scheduler.remove(chosen - started):
            state.admission.cancel(entry, failure)
        unknown = [task for task in wanted - chosen if not scheduler.knows(task)]
        if unknown and state.context.shared:
            context, now = state.context, state.context.clock.now()
            ops = cancelled_elsewhere(context.store, context.run, context.owner, unknown, by, now)
            state.journal.queue(ops)
        else:
            rows = state.context.store.find("task", unknown) if unknown else {}
            for task in unknown:
                state.admission.cancel_unknown(task, rows.get(task), failure)
        claimed = [task for task in sorted(started) if scheduler.started[task].claimed]
        state.journal.queue([Op(state.context.run, (TasksCancelling((task,), by),)) for task in claimed])
        self._active.to_cancel.update(dict.fromkeys(started, by))
        self._dispatch.call_workers()
        return started

    def cancel_waiting(self, by: str) -> None:
        """The run is cancelled: so is everything that waits, and its questions are void."""
        state, failure = self._state, Failure(Abandoned.__name__, f"cancelled by {by}")
        with state.changed:
            self._settle()
            for entry in state.scheduler.remove(list(state.scheduler.waiting)):
                state.admission.cancel(entry, failure)
        state.journal.drain()
