"""Model calls in a store: list them, show one, and settle those in doubt or with bad answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore
from peira.app.store.runs import UNDER_WAY, find_run, is_run_id, names_run, with_current_status
from peira.core.contracts import CallQuery, CallTotals, Op, RunQuery
from peira.core.ids import Json, resolve, short
from peira.core.log.events import TERMINAL, CallIntended, CallSettled, Record, RunReopened, Status
from peira.core.log.rows import CALL_STATES
from peira.core.log.state import Call, Run, Task, replace, touched_calls
from peira.core.models import Answer
from peira.core.registry import nearest
from peira.engine.batch.batcher import in_batch
from peira.engine.control import requester
from peira.engine.transcripts import WORDS as WORDS
from peira.engine.transcripts import request_of
from peira.errors import Invalid, NotKept, Unknown

CHUNK, LATE = 5000, 1000
DIGITS = re.compile(r"[0-9a-f]{4,64}")
Found = TypeVar("Found", bound=Run | Call)
_read_answer = msgspec.json.Decoder(Answer).decode


class ModelCall(msgspec.Struct, frozen=True):
    """A model call. Unknown tokens and costs are None.

    `run` is the last run that asked it, for `task`: a trial, or one of its scores (see `stage`). `served` is
    the model that answered, if it is another. `under_way`: an answer may still arrive; `batch`: the id of the
    batch it waits in.
    """

    key: str
    model: str
    state: str
    stage: str
    task: str
    run: str
    sends: int
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    served: str = ""
    why: str = ""
    under_way: bool = False
    batch: str = ""

    @property
    def resends(self) -> int:
        """How often the call was sent again."""
        return max(0, self.sends - 1)

    @property
    def status(self) -> str:
        """Its state, as shown to users."""
        if self.batch:
            return "in a batch"
        return "under way" if self.under_way else WORDS[self.state]


@dataclass(frozen=True)
class CallRecord:
    """Everything recorded about a call; `answer` is the raw answer, None if there is none."""

    call: ModelCall
    request: Json
    answer: Answer | None
    records: tuple[Record, ...]


def calls_of(store: Any, query: CallQuery) -> list[ModelCall]:
    """The calls that match the query, last asked first; `run` may be a prefix of an id."""
    return model_calls(store, store.calls(checked_query(store, query)))


def tally_of(store: Any, query: CallQuery) -> CallTotals:
    """The totals of all calls that match the query."""
    tally: CallTotals = store.tally(checked_query(store, query))
    return tally


def checked_query(store: Any, query: CallQuery) -> CallQuery:
    """The query with the run's full id; Invalid with every problem."""
    problems = []
    if query.state and query.state not in CALL_STATES:
        problems.append(f"state: {query.state!r} is not known{nearest(query.state, CALL_STATES)}")
    for name, digits in (("task", query.task), ("key", query.prefix)):
        if digits and not DIGITS.fullmatch(digits):
            problems.append(f"{name}: {digits!r} is no id: use four or more digits of one")
    if query.limit < 1:
        problems.append(f"limit: must be at least 1, not {query.limit}")
    if problems:
        raise Invalid(problems)
    return replace(query, run=find_run(store, query.run).id) if query.run else query


def find_call(store: Any, prefix: str) -> Call:
    """The call whose key has this prefix; Unknown if there is none, or several."""
    return _found(prefix, _with_prefix(store, prefix), "call", store)


def find_run_or_call(store: Any, prefix: str) -> Run | Call:
    """The run of this name, or the run or call whose id has this prefix."""
    if not is_run_id(prefix) and names_run(prefix, store):
        return find_run(store, prefix)
    known: dict[str, Run | Call] = {**_with_prefix(store, prefix)}
    known.update((run.id, run) for run in store.runs(RunQuery(prefix=prefix, limit=10)))
    return _found(prefix, known, "run or call", store)


def _with_prefix(store: Any, prefix: str) -> dict[str, Call]:
    """The calls whose keys have this prefix."""
    if not DIGITS.fullmatch(prefix):
        raise Unknown(f"{prefix!r} is no key of a call: use four or more of its digits (see `peira calls`)")
    return {call.key: call for call in store.calls(CallQuery(prefix=prefix, limit=10))}


def _found(prefix: str, known: Mapping[str, Found], what: str, store: Any) -> Found:
    """The one with this prefix; Unknown, with a similar key, if there is none."""
    if not known:
        raise Unknown(f"no {what} {prefix!r} in this store{_similar_key(store, prefix)}")
    return known[resolve(prefix, known, what)]


def _similar_key(store: Any, prefix: str) -> str:
    """A hint for a message about an unknown key: a recent key that is similar, or ""."""
    known = {call.key[: len(prefix)] for call in store.calls(CallQuery(limit=LATE))}
    close = nearest(prefix, known)
    return close if "did you mean" in close else ""


def model_calls(store: AnyStore, calls: Sequence[Call]) -> list[ModelCall]:
    """Calls as shown to users; those of runs under way may still be answered."""
    runs = store.find("run", sorted({call.run for call in calls if call.state == "intended"}))
    alive = {id for id, run in runs.items() if with_current_status(run, store).status in UNDER_WAY}
    return [_model_call(call, call.state == "intended" and call.run in alive) for call in calls]


def _model_call(call: Call, under_way: bool) -> ModelCall:
    """A call as shown to users."""
    return ModelCall(
        key=call.key,
        model=call.model,
        state=call.state,
        stage=call.name,
        task=call.task,
        run=call.run,
        sends=call.sends,
        input=None if call.input < 0 else call.input,
        output=None if call.output < 0 else call.output,
        cost=None if call.cost < 0 else call.cost,
        served="" if call.served in (call.model, call.model.partition(":")[2]) else call.served,
        why=call.why,
        under_way=under_way or in_batch(call),
        batch=call.batch if in_batch(call) else "",
    )


def record_of(store: Any, call: Call) -> CallRecord:
    """Everything recorded about a call."""
    try:
        raw = store.get(call.blob) if call.blob else bytes(call.value)
    except NotKept:
        raw = b""
    return CallRecord(
        model_calls(store, [call])[0],
        request_of(call, store),
        _read_answer(raw) if raw else None,
        tuple(_records(store, call)),
    )


def _records(store: Any, call: Call) -> list[Record]:
    """The call's events in order, from its first send to the last run of its task."""
    last = store.find("task", [call.task])[call.task].run
    until = store.find("run", [last])[last].planned
    found: list[Record] = []
    for run in store.runs(RunQuery(until=until, limit=1_000_000)):
        found = [*_events_of_call(store, run.id, call.key), *found]
        if any(isinstance(r.event, CallIntended) and r.event.send == 1 for r in found):
            break
    return found


def _events_of_call(store: Any, run: str, key: str) -> Iterator[Record]:
    """The events of a run about one call."""
    after = 0
    while records := store.events(run, after, CHUNK):
        after = records[-1].seq
        yield from (record for record in records if key in touched_calls(record.event))


RESEND, DISCARD = "resend", "discard"
DOUBTFUL = ("in_doubt", "intended")
"""States of calls that may have been billed without a known answer."""
ALL = 1_000_000
"""More than any number of calls or runs."""
REFUSALS = {
    (RESEND, "answered"): "is answered: only a call in doubt is sent again (a bad answer can be discarded)",
    (RESEND, "lost"): "is free to be sent again already: the next run does so",
    (RESEND, "void"): "is discarded already: the next run asks it anew",
    (DISCARD, "in_doubt"): "has no answer to discard: it is in doubt, and can be sent again",
    (DISCARD, "intended"): "has no answer to discard: it was cut off, and can be sent again",
    (DISCARD, "lost"): "has no answer to discard",
    (DISCARD, "void"): "is discarded already: the next run asks it anew",
}
"""Why a call in this state cannot be resent or discarded."""
IN_BATCH = "is in a batch, and waits for its answer: `peira batch collect` fetches it"


@dataclass(frozen=True)
class SettledCalls:
    """What was settled: the calls as they were before, and the runs to continue with.

    `again` are the tasks (trials and scores) to be done again, as they were before: all that used a voided
    answer, in any study.
    """

    how: str
    by: str
    calls: tuple[ModelCall, ...] = ()
    runs: tuple[str, ...] = ()
    again: tuple[Task, ...] = ()


def calls_in_doubt(store: Any, model: str = "") -> list[ModelCall]:
    """Calls that may have been billed and whose answer is unknown, without those under way."""
    return [call for call in model_calls(store, _doubtful(store, model)) if not call.under_way]


def _doubtful(store: Any, model: str = "") -> list[Call]:
    """All calls in doubt or cut off (of this model), without those in batches."""
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
    store: SessionLike = None,
    wait: float | None = 0.0,
) -> SettledCalls:
    """Let calls be sent again (`resend`), or void their answers (`discard`), by prefixes of their keys.

    Without keys, `resend` means all calls in doubt (of this model). Trials of any study that used a voided
    answer are done again by its next run, with all other answers replayed. All or nothing; raises StoreInUse
    if another process owns the store.
    """
    session, by = Session.find(store), by or requester()
    with session.reading() as opened:
        if not _chosen(opened, how, keys, model):
            return SettledCalls(how, by)
    with session.owned(wait) as ours:
        calls = _chosen(ours, how, keys, model)
        tasks = _affected_tasks(ours, calls, how)
        again = tuple(task for task in tasks.values() if how == DISCARD and task.state in TERMINAL)
        settled = SettledCalls(how, by, tuple(model_calls(ours, calls)), _runs(ours, tasks.values()), again)
        for refusal in ours.commit(_ops(ours, calls, tasks, how, by)).result():
            if refusal:
                raise refusal
        return settled


def _chosen(store: Any, how: str, keys: Sequence[str], model: str) -> list[Call]:
    """The calls that are meant; Invalid with every problem."""
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
    """The last runs of these tasks, newest first."""
    runs = store.find("run", sorted({task.run for task in tasks})).values()
    return tuple(run.id for run in sorted(runs, key=lambda run: -run.planned))


def _affected_tasks(store: Any, calls: Sequence[Call], how: str) -> dict[str, Task]:
    """The tasks that asked last, and those that used an answer which is to be voided."""
    tasks: dict[str, Task] = store.find("task", sorted({call.task for call in calls}))
    users = store.using([call.key for call in calls]) if how == DISCARD else []
    return tasks | {task.id: task for task in users}


def _ops(store: Any, calls: Sequence[Call], tasks: Mapping[str, Task], how: str, by: str) -> list[Op]:
    """The ops that settle the calls."""

    def settled(call: Call) -> CallSettled:
        used = (task.id for task in tasks.values() if call.key in task.result.calls)
        others = tuple(id for id in used if id != call.task and how == DISCARD)
        return CallSettled(call.task, call.key, how, by, others)

    ops = [Op(tasks[call.task].run, (settled(call),)) for call in calls]
    if how == RESEND:
        return ops
    # Completed runs that counted this work as done must not count as complete any more.
    done = store.runs(RunQuery(status=Status.completed, limit=ALL))
    return ops + [Op(run.id, (RunReopened(calls[0].key),)) for run in done if not run.reopened]
