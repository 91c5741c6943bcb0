"""Commands about a shared run that other members execute: they hear of what was recorded."""

from __future__ import annotations

from collections import defaultdict

from peira.core.codec import encode
from peira.core.contracts import Op
from peira.core.log.events import (
    AnyEvent,
    CommandTaken,
    RunAdjusted,
    RunCancelling,
    RunPaused,
    RunResumed,
    State,
    TasksCancelling,
)
from peira.engine.attempts.cancellation import cancelled_elsewhere
from peira.engine.control import ADJUST, CANCEL, PAUSE, RESUME, Command, StopRequest
from peira.engine.execution import Execution
from peira.engine.workers.membership import BEAT, StopNotice
from peira.stores.sharing import ListsSharedRuns, SharedStore


def executed_elsewhere(store: object, run: str) -> bool:
    """Whether other members of this store execute a run."""
    return isinstance(store, ListsSharedRuns) and any(one.members for one in store.shared_runs(run))


def obey_elsewhere(store: SharedStore, command: Command, now: float) -> None:
    """Record what a command decides about a run; its members heed it when they next renew their leases."""
    by, id = command.by, command.id
    if command.tasks:
        owner = str(store.incarnation)
        ops = cancelled_elsewhere(store, command.run, owner, command.tasks, by, now)
        store.commit([Op(command.run, (CommandTaken(command.command, id, by),)), *ops]).result()
        return
    decided: dict[str, AnyEvent] = {
        CANCEL: RunCancelling(by, id),
        PAUSE: RunPaused(by, id),
        RESUME: RunResumed(by, id),
        ADJUST: RunAdjusted(
            int(command.body.get("parallel") or 0),
            {name: float(most) for name, most in dict(command.body.get("budget") or {}).items()},
            by,
            id,
        ),
    }
    events = (CommandTaken(command.command, id, by), decided[command.command])
    [refusal] = store.commit([Op(command.run, events)]).result()
    if refusal is None and command.command == CANCEL:
        stop = StopRequest.cancelled(by)
        notice = StopNotice(stop.status, stop.reason, stop.now, stop.exit_code)
        store.sharing.stop(command.run, encode(notice))


class CancelledAttempts:
    """Attempts of this process whose tasks other members have recorded as being cancelled: they are ended.

    Looked for in the rows of those that take long; who executes a command knows no more of them.
    """

    def __init__(self, store: SharedStore, execution: Execution) -> None:
        self._store, self._execution = store, execution
        self._looked, self._started = execution.context.clock.monotonic(), frozenset[str]()

    def look(self) -> None:
        """End them; called often, and looks at tasks that were under way when it last looked."""
        state, now = self._execution.state, self._execution.context.clock.monotonic()
        if now - self._looked < BEAT:
            return
        before, self._looked = self._started, now
        with state.changed:
            self._started = frozenset(state.scheduler.started)
        if lasting := sorted(before & self._started):
            rows = self._store.find("task", lasting).values()
            if found := [row.id for row in rows if row.state is State.cancelling]:
                self._cancel(found)

    def _cancel(self, tasks: list[str]) -> None:
        asked = defaultdict(set)
        for record in self._store.about(tasks):
            if isinstance(record.event, TasksCancelling):
                asked[record.event.by].update(set(tasks).intersection(record.event.tasks))
        for by, some in asked.items():
            self._execution.cancel_tasks(some, by)
