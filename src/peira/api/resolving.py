"""Settling calls: one in doubt may be sent again, or a recorded answer is bad and void.

Everything that is asked for is checked first, and all that is wrong with it is said; only then is the store
taken and anything written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peira.api.calls import ModelCall, find_call, shown
from peira.api.stores import StoreLike, owned, reading
from peira.core.contracts import CallQuery, Op, RunQuery
from peira.core.events import TERMINAL, CallSettled, RunReopened, Status
from peira.core.ids import short
from peira.core.registry import nearest
from peira.core.state import Call, Task
from peira.engine.batching import in_batch
from peira.engine.control import who
from peira.errors import Invalid, Unknown
from peira.spec.project import Project

RESEND, DISCARD = "resend", "discard"
DOUBTFUL = ("in_doubt", "intended")
ALL = 1_000_000
REFUSALS = {
    (RESEND, "answered"): "is answered: only a call in doubt is sent again (a bad answer can be discarded)",
    (RESEND, "lost"): "is free to be sent again already: the next run does so",
    (RESEND, "void"): "is discarded already: the next run asks it anew",
    (DISCARD, "in_doubt"): "has no answer to discard: it is in doubt, and can be sent again",
    (DISCARD, "intended"): "has no answer to discard: it was cut off, and can be sent again",
    (DISCARD, "lost"): "has no answer to discard",
    (DISCARD, "void"): "is discarded already: the next run asks it anew",
}
IN_BATCH = "is in a batch, and waits for its answer: `peira batch collect` fetches it"


@dataclass(frozen=True)
class Settled:
    """What was settled: the calls as they were before, the runs to go on with, and the tasks (trials and
    scores) that are done again, as they were before: all that used a voided answer, in whichever study."""

    how: str
    by: str
    calls: tuple[ModelCall, ...] = ()
    runs: tuple[str, ...] = ()
    again: tuple[Task, ...] = ()


def doubtful(store: Any, model: str = "") -> list[ModelCall]:
    """Every call that may have been billed and whose answer is unknown; not those still under way."""
    return [call for call in shown(store, _doubtful(store, model)) if not call.under_way]


def _doubtful(store: Any, model: str = "") -> list[Call]:
    found = [
        call for state in DOUBTFUL for call in store.calls(CallQuery(model=model, state=state, limit=ALL))
    ]
    return [call for call in found if not in_batch(call)]


def settle(
    how: str,
    keys: Sequence[str] = (),
    *,
    model: str = "",
    by: str = "",
    store: StoreLike = None,
    wait: float | None = 0.0,
) -> Settled:
    """Let calls be sent again (`resend`), or void their answers (`discard`), by the beginnings of their keys.

    Without keys, `resend` means all that are in doubt (of this model). The trials that used a voided answer,
    of whichever study, are done again by its next run, all other answers replayed. All or nothing; StoreInUse
    if another process owns the store."""
    project, by = Project.find(), by or who()
    with reading(store, project) as opened:
        if not _chosen(opened, how, keys, model):
            return Settled(how, by)
    with owned(store, project, wait) as ours:
        calls = _chosen(ours, how, keys, model)
        tasks = _concerned(ours, calls, how)
        again = tuple(task for task in tasks.values() if how == DISCARD and task.state in TERMINAL)
        settled = Settled(how, by, tuple(shown(ours, calls)), _runs(ours, tasks.values()), again)
        for refusal in ours.commit(_ops(ours, calls, tasks, how, by)).result():
            if refusal:
                raise refusal
        return settled


def _chosen(store: Any, how: str, keys: Sequence[str], model: str) -> list[Call]:
    """The calls that are meant; Invalid says everything that stands in the way."""
    if how not in (RESEND, DISCARD):
        raise Invalid(f"how: {how!r} is not known{nearest(how, (RESEND, DISCARD))}")
    if not keys and how == RESEND:
        return _doubtful(store, model)
    if not keys:
        raise Invalid("an answer is discarded by the key of its call: name the calls")
    problems, found = [], {}
    for key in keys:
        try:
            call = find_call(store, key)
            if refusal := IN_BATCH if in_batch(call) else REFUSALS.get((how, call.state)):
                problems.append(f"call {short(call.key)} {refusal}")
            found[call.key] = call
        except Unknown as problem:
            problems.append(str(problem))
    if problems:
        raise Invalid(problems)
    return list(found.values())


def _runs(store: Any, tasks: Iterable[Task]) -> tuple[str, ...]:
    """The runs that had to do with these tasks last, newest first."""
    runs = store.find("run", sorted({task.run for task in tasks})).values()
    return tuple(run.id for run in sorted(runs, key=lambda run: -run.planned))


def _concerned(store: Any, calls: Sequence[Call], how: str) -> dict[str, Task]:
    """The tasks that asked last, and those that used an answer which is to be void."""
    tasks: dict[str, Task] = store.find("task", sorted({call.task for call in calls}))
    users = store.using([call.key for call in calls]) if how == DISCARD else []
    return tasks | {task.id: task for task in users}


def _ops(store: Any, calls: Sequence[Call], tasks: Mapping[str, Task], how: str, by: str) -> list[Op]:
    def settled(call: Call) -> CallSettled:
        used = (task.id for task in tasks.values() if call.key in task.result.calls)
        others = tuple(id for id in used if id != call.task and how == DISCARD)
        return CallSettled(call.task, call.key, how, by, others)

    ops = [Op(tasks[call.task].run, (settled(call),)) for call in calls]
    if how == RESEND:
        return ops
    # Whatever run counted this work as done must not be taken for all done again.
    done = store.runs(RunQuery(status=Status.completed, limit=ALL))
    return ops + [Op(run.id, (RunReopened(calls[0].key),)) for run in done if not run.reopened]
