"""Opening a run: its plan is stored, its provenance noted, its first two events written."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

import peira.engine.batch as batch
from peira.core.codec import encode
from peira.core.contracts import Op, RunQuery, Store
from peira.core.failpoints import reach
from peira.core.ids import compose, digest_bytes
from peira.core.log.events import (
    AnyEvent,
    CallAnswered,
    CallBilled,
    CallIntended,
    CallLost,
    CallRead,
    RunPlanned,
    RunStarted,
    Spent,
    Status,
)
from peira.core.log.state import Run
from peira.engine.control import requester
from peira.engine.kinds import BATCH
from peira.engine.progress import LEFT, REUSED, SPARED
from peira.engine.stages import EVALUATE, TRANSFORM
from peira.plan.diff.history import Readable
from peira.plan.estimate.value import RunEstimate
from peira.plan.expansion import Plan
from peira.plan.manifest import read
from peira.plan.provenance import provenance
from peira.spec.limits import Budget

MOST_RUNS = 10_000


class RunDescription(NamedTuple):
    """What is recorded of a run as it is opened, beside its plan.

    `resumes` is the run it goes on with, `evaluation` the name under which outputs are judged otherwise,
    `tags` are added to the study's, and `stream` is the blob with the declaration of a stream or work plan.
    """

    resumes: str = ""
    estimate: RunEstimate | None = None
    evaluation: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    stream: str = ""


UNDESCRIBED = RunDescription()


def open_run(
    plan: Plan,
    manifest: str,
    store: Store,
    incarnation: int,
    now: float,
    about: RunDescription = UNDESCRIBED,
) -> str:
    """Write the opening events, durably; returns the new run's id. The store's `incarnation` is its owner."""
    run = compose("run", manifest, uuid.uuid4().hex)
    planned = planned_on(manifest, len(plan), store, now, about)
    store.commit([Op(run, (planned,)), Op(run, (RunStarted(str(incarnation), incarnation),))]).result()
    reach("engine.after_plan")
    return run


def planned_on(
    manifest: str, trials: int, store: Store, now: float, about: RunDescription = UNDESCRIBED
) -> RunPlanned:
    """The event that opens a run on a manifest, with its provenance."""
    plan = read(manifest, store.get)
    study, own = digest_bytes(encode(plan.snapshot)), plan.snapshot.get("tags", ())
    origin = provenance(study, manifest, plan.seed, plan.generation, Path.cwd(), now, about.estimate)
    return RunPlanned(
        manifest=manifest,
        study=plan.study,
        trials=trials,
        tags=(*own, *(tag for tag in about.tags if tag not in own)),
        provenance=store.put(encode(origin)),
        resumes=about.resumes,
        generation=plan.generation,
        evaluation=about.evaluation,
        name=about.name,
        stream=about.stream,
        by=requester(),
    )


class RecordedBefore(NamedTuple):
    """What an earlier run of a plan has recorded: its counts, all as reused, without those of `trials`, which
    are the indices of the trials that are to be looked at."""

    counts: dict[str, int]
    trials: tuple[int, ...] = ()


def recorded_before(plan: Plan, manifest: str, store: Readable) -> RecordedBefore | None:
    """What a run of this very plan has recorded that went through all of it; None if none did.

    Equal plans have equal trials and scores, and what has succeeded stays so: nothing else needs a look."""
    last = EVALUATE if plan.evaluators else TRANSFORM if plan.transform else ""
    for status in (Status.completed, Status.failures):
        for run in store.runs(RunQuery(study=plan.study.name, status=status, limit=100)):
            if run.manifest == manifest and not run.reopened and _whole(run.counts, last):
                if status is Status.completed:
                    return RecordedBefore(_all_reused(run.counts))
                if run.unsuccessful is not None:
                    kept = _without(_all_reused(run.counts), run.unsuccessful.counts)
                    return RecordedBefore(kept, run.unsuccessful.trials)
    return None


def _without(counts: Mapping[str, int], fewer: Mapping[str, int]) -> dict[str, int]:
    return {key: n - fewer.get(key.partition(".")[0], 0) for key, n in counts.items()}


def _whole(counts: Mapping[str, int], last: str) -> bool:
    """Whether a run that ended well went through all stages up to the last, and left nothing out."""
    through = not last or any(key.startswith(f"{last}.") for key in counts)
    undone = (f".{LEFT}", f".{SPARED}")
    return through and not any(n for key, n in counts.items() if key.endswith(undone))


def _all_reused(counts: Mapping[str, int]) -> dict[str, int]:
    reused: Counter[str] = Counter()
    for key, n in counts.items():
        kind, dot, _ = key.partition(".")
        if dot and kind != BATCH:
            reused[f"{kind}.{REUSED}"] += n
    return dict(reused)


def died_before(plan: Plan, store: Readable) -> bool:
    """Whether the last run of the study ended with its process. What killed it may do so again: then every
    task is claimed before it begins, so that the store knows which ones were under way."""
    last = store.runs(RunQuery(study=plan.study.name, limit=1))
    return bool(last) and last[0].status is Status.interrupted and not last[0].counts


def spent_before(
    plan: Plan, store: Readable, run: str, tag: str = "", apart: Sequence[Budget] = ()
) -> list[Spent]:
    """What earlier runs of the study spent, in this generation; only looked up if a budget counts it.

    With `tag`, only runs that have it; `apart` are budgets beside that of the study.
    """
    budgets = (plan.study.budget, *apart)
    if not any(one.bounded for budget in budgets for one in (budget, *budget.per_model.values())):
        return []
    statuses = ("", Status.deleted.value)  # what a deleted run spent was spent
    earlier = [
        one
        for status in statuses
        for one in store.runs(RunQuery(study=plan.study.name, status=status, tag=tag, limit=MOST_RUNS))
    ]
    ours = [one for one in earlier if one.id != run and one.generation == plan.layout.generation]
    spent = [spent for one in ours for spent in _spent(store, one)]
    return [*spent, *_handed_in(store, {one.id for one in ours})]


def _handed_in(store: Readable, runs: Container[str]) -> Iterator[Spent]:
    """What is set aside for calls in batches that these runs left open."""
    for task in store.queued(BATCH):
        if task.run in runs:
            record = batch.read_record(store.get(task.payload))
            for key, call in store.find("call", list(record.calls)).items():
                if batch.in_batch(call) and call.batch == task.id:
                    handed = record.calls[key]
                    yield Spent.in_doubt(call.model, handed.tokens, handed.money)


def _spent(store: Readable, run: Run) -> Sequence[Spent]:
    return spent_by_calls(store, run.id) if run.status is Status.interrupted else run.spent


def spent_by_calls(store: Readable, run: str) -> list[Spent]:
    """The spending of an interrupted run.

    Calls without an answer are in doubt, and so are reservations for answers without usage; calls of a batch
    count when they are answered.
    """
    return _billed(_call_events(store, run), store)


def spent_by_owner(store: Readable, run: str, owner: str) -> list[Spent]:
    """What one process of a shared run has spent, at most."""
    return _billed(_events_of(owner, _call_events(store, run)), store)


def _call_events(store: Readable, run: str) -> Iterator[AnyEvent]:
    after = 0
    while records := store.events(run, after):
        after = records[-1].seq
        yield from (record.event for record in records)


def _events_of(owner: str, events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Those about sends of this process, up to the next send of each call by another."""
    ours: set[str] = set()
    for event in events:
        if isinstance(event, CallIntended):
            (ours.add if event.owner == owner else ours.discard)(event.key)
        elif not isinstance(event, (CallRead, CallAnswered, CallLost)):
            continue
        if event.key in ours:
            yield event


def _billed(events: Iterable[AnyEvent], store: Readable) -> list[Spent]:
    """The bills of these events, with what is in doubt."""
    spent: list[Spent] = []
    sent: dict[str, CallIntended] = {}
    handed: dict[str, CallIntended] = {}
    unread: dict[str, CallIntended] = {}
    accounts: dict[str, str] = {}  # of calls that a budget apart pays for

    def bill(key: str, one: Spent) -> None:
        account = accounts.get(key, "")
        spent.append(msgspec.structs.replace(one, account=account) if account else one)

    for event in events:
        if isinstance(event, CallIntended):
            if event.account:
                accounts[event.key] = event.account
            if (cut_off := sent.pop(event.key, None)) is not None:
                spent.append(cut_off.in_doubt())
            (handed if event.batch else sent)[event.key] = event
        elif isinstance(event, CallRead):
            read = unread.pop(event.key, None)
            model = read.model if read else _asked(event.key, sent, handed, store)
            bill(event.key, event.bill(model))
            if read is not None:
                bill(event.key, _unsaid(event, read))
        elif isinstance(event, CallBilled):
            bill(event.key, event.bill())
        elif isinstance(event, (CallAnswered, CallLost)):
            if isinstance(event, CallAnswered) and not event.known and event.key in sent:
                unread[event.key] = sent[event.key]
            bill(event.key, event.bill(_asked(event.key, sent, handed, store)))
    for event in unread.values():
        bill(event.key, Spent(event.model, doubtful_tokens=event.tokens, doubtful_money=event.money))
    return [*spent, *(event.in_doubt() for event in sent.values())]


def _unsaid(event: CallRead, intent: CallIntended) -> Spent:
    """What was reserved for a call beyond what its answer says: that is in doubt."""
    tokens = intent.tokens - max(0, event.input) - max(0, event.output)
    return Spent(
        intent.model,
        doubtful_tokens=max(0, tokens) if event.input < 0 or event.output < 0 else 0,
        doubtful_money=intent.money if event.cost < 0 else 0.0,
    )


_Intents = dict[str, CallIntended]


def _asked(key: str, sent: _Intents, handed: _Intents, store: Readable) -> str:
    """The model that was asked, here or in a batch of an earlier run."""
    if (event := sent.pop(key, None) or handed.pop(key, None)) is not None:
        return event.model
    return str(store.find("call", [key])[key].model)
