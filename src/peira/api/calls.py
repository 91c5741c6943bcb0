"""The ledger as people look at it: which models were asked what, what came back, what it cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from peira.api.finding import find_run
from peira.api.seen import UNDER_WAY, as_seen
from peira.api.stores import AnyStore
from peira.core.contracts import CallQuery, RunQuery, Tally
from peira.core.events import CallIntended, Record
from peira.core.ids import Json, resolve
from peira.core.models import Answer
from peira.core.queries import CALL_STATES
from peira.core.registry import nearest
from peira.core.state import Call, Run, replace, touched_call
from peira.engine.batching import in_batch
from peira.errors import Invalid, Unknown

CHUNK, LATE = 5000, 1000
DIGITS = re.compile(r"[0-9a-f]{4,64}")
WORDS = {
    "answered": "answered",
    "in_doubt": "in doubt",
    "intended": "cut off",
    "lost": "no answer",
    "void": "discarded",
}
Found = TypeVar("Found", bound=Run | Call)
_read_answer = msgspec.json.Decoder(Answer).decode


class ModelCall(msgspec.Struct, frozen=True):
    """A call of a model. What is not known, of tokens and cost, is None.

    `run` asked it last, for `task`: a trial, or the score of one, as `stage` says. `served` is the model that
    answered, where that is another. `under_way`: its answer may still come; `batch`: with others, in the
    batch of this id."""

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
        return max(0, self.sends - 1)

    @property
    def status(self) -> str:
        """Where it stands, in plain words."""
        if self.batch:
            return "in a batch"
        return "under way" if self.under_way else WORDS[self.state]


@dataclass(frozen=True)
class CallRecord:
    """All that is recorded of a call: `answer` is as it was received, None if there is none."""

    call: ModelCall
    request: Json
    answer: Answer | None
    records: tuple[Record, ...]


def calls_of(store: Any, query: CallQuery) -> list[ModelCall]:
    """The calls that are meant, last asked first; `run` may be the first digits of its id."""
    return shown(store, store.calls(meant(store, query)))


def tally_of(store: Any, query: CallQuery) -> Tally:
    """What they come to, all of them."""
    tally: Tally = store.tally(meant(store, query))
    return tally


def meant(store: Any, query: CallQuery) -> CallQuery:
    """The query with the run's whole id; Invalid names all that is wrong with it."""
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
    """The call whose key starts so."""
    return _found(prefix, _starting(store, prefix), "call", store)


def find_run_or_call(store: Any, prefix: str) -> Run | Call:
    """What has an id that starts so."""
    known: dict[str, Run | Call] = {**_starting(store, prefix)}
    known.update((run.id, run) for run in store.runs(RunQuery(prefix=prefix, limit=10)))
    return _found(prefix, known, "run or call", store)


def _starting(store: Any, prefix: str) -> dict[str, Call]:
    if not DIGITS.fullmatch(prefix):
        raise Unknown(f"{prefix!r} is no key of a call: use four or more of its digits (see `peira calls`)")
    return {call.key: call for call in store.calls(CallQuery(prefix=prefix, limit=10))}


def _found(prefix: str, known: Mapping[str, Found], what: str, store: Any) -> Found:
    if not known:
        raise Unknown(f"no {what} {prefix!r} in this store{_near(store, prefix)}")
    return known[resolve(prefix, known, what)]


def _near(store: Any, prefix: str) -> str:
    """The end of a message about a key that there is not: one of late that looks like it."""
    known = {call.key[: len(prefix)] for call in store.calls(CallQuery(limit=LATE))}
    close = nearest(prefix, known)
    return close if "did you mean" in close else ""


def shown(store: AnyStore, calls: Sequence[Call]) -> list[ModelCall]:
    runs = store.find("run", sorted({call.run for call in calls if call.state == "intended"}))
    alive = {id for id, run in runs.items() if as_seen(run, store).status in UNDER_WAY}
    return [_model_call(call, call.state == "intended" and call.run in alive) for call in calls]


def _model_call(call: Call, under_way: bool) -> ModelCall:
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
    """Everything there is about a call."""
    raw = store.get(call.blob) if call.blob else bytes(call.value)
    return CallRecord(
        shown(store, [call])[0],
        msgspec.json.decode(store.get(call.request)),
        _read_answer(raw) if raw else None,
        tuple(_records(store, call)),
    )


def _records(store: Any, call: Call) -> list[Record]:
    """Its events in order: from its first send to the last run that had to do with its task."""
    last = store.find("task", [call.task])[call.task].run
    until = store.find("run", [last])[last].planned
    found: list[Record] = []
    for run in store.runs(RunQuery(until=until, limit=1_000_000)):
        found = [*_about(store, run.id, call.key), *found]
        if any(isinstance(r.event, CallIntended) and r.event.send == 1 for r in found):
            break
    return found


def _about(store: Any, run: str, key: str) -> Iterator[Record]:
    after = 0
    while records := store.events(run, after, CHUNK):
        after = records[-1].seq
        yield from (record for record in records if touched_call(record.event) == key)
