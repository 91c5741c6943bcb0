"""What earlier runs of a study used: calls, tokens, cost and time, also in batches.

Only a sample is read, from the newest runs that finished work: events from the middle of a run's log, because
quick trials are over-represented at its beginning and slow ones at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from peira.core.contracts import RunQuery
from peira.core.log.events import IMPORTED, CallIntended, Record, Result, State, TaskFinished, TasksClaimed
from peira.core.log.state import Run
from peira.core.models import NamedModel
from peira.plan.conditions import agents_of
from peira.plan.diff.history import Readable
from peira.plan.expansion import Plan
from peira.plan.manifest import Manifest, read
from peira.plan.trials import Condition, Layout

# Batches


SAMPLE = 50
"""Number of finished tasks checked first; if none was in a batch, none is assumed to be."""
WAITS = "batches are answered when their provider gets to them, usually within a day"


def batched_shares(results: Mapping[str, Result], store: Readable) -> dict[str, float]:
    """The share of calls answered in a batch, for each task that has any."""
    calls_of = {task: result.calls for task, result in results.items() if result.calls}
    sample = list(calls_of)[:: max(1, len(calls_of) // SAMPLE)]
    if not any(_batched(store, (key for task in sample for key in calls_of[task])).values()):
        return {}
    known = _batched(store, (key for keys in calls_of.values() for key in keys))
    shares = {task: sum(known.get(key, False) for key in keys) / len(keys) for task, keys in calls_of.items()}
    return {task: share for task, share in shares.items() if share}


def _batched(store: Readable, keys: Iterable[str]) -> dict[str, bool]:
    return {key: bool(call.batch) for key, call in store.find("call", list(keys)).items()}


def batch_price_note(models: Iterable[Sequence[NamedModel]]) -> str:
    """A line that states the batch price of each model, as far as known."""
    known = {model.name: model.price.batch for some in models for model in some if model.price}
    shares = [f"{name} at {share:.0%} of its price" for name, share in known.items()]
    return f"in batches: {', '.join(shares) or 'the share of the price that is paid is not known'}"


# Finished work


GENERATE, EVALUATE = "generate", "evaluate"
LISTED, READ, RECORDS, ENOUGH = 50, 5, 2000, 300
"""Numbers of runs queried, of runs read, of events read per run, and of finished tasks that are enough."""
MANY, HANDLING = 200, 1e-4
"""Tasks needed to measure peira's own overhead per task, and its default in seconds."""
MOST_TRACED = 20_000
"""Maximum number of trials that are traced to their conditions, at about 2 µs each."""


class PastWork(msgspec.Struct, frozen=True, gc=False):
    """The usage of a finished trial or score."""

    stage: str
    """"generate" or "evaluate"."""
    under: str
    """The condition key of a trial, or the evaluator of a score; "" if unknown."""
    calls: float
    input: float
    output: float
    cost: float | None
    """In US dollars; None if a price was unknown."""
    seconds: float
    """Duration, waiting for batches included."""
    served: frozenset[str]
    """The names of the models that answered."""
    batched: float = 0.0
    """The share of the calls that were answered in batches."""


class PastUsage(msgspec.Struct, frozen=True):
    """The usage observed in earlier runs.

    `evaluators` are the names of their evaluators. `replays` is true if calls in the same scopes were
    recorded with other agent code, so that the current code may replay them. `overhead` is the time in
    seconds between tasks beyond their own duration.
    """

    trials: Sequence[PastWork] = ()
    scores: Sequence[PastWork] = ()
    evaluators: frozenset[str] = frozenset()
    replays: bool = False
    overhead: float = HANDLING

    @property
    def asks(self) -> bool:
        """Whether any finished work made model calls."""
        return any(one.calls for one in (*self.trials, *self.scores))


def key_of(condition: Condition) -> str:
    """A key for a condition that does not depend on the agent's code."""
    return f"{condition.agent} {condition.digest}"


def experience(plan: Plan, store: Readable | None) -> PastUsage:
    """The usage of the newest runs of this study."""
    runs = _busy(store.runs(RunQuery(study=plan.study.name, limit=LISTED))) if store else []
    if store is None or not runs:
        return PastUsage()
    done: list[PastWork] = []
    manifests: list[Manifest] = []
    overheads: dict[int, float] = {}
    for run in runs:
        manifests.append(read(run.manifest, store.get))
        records = store.events(run.id, max(0, (run.next_seq - RECORDS) // 2), RECORDS)
        more = _done(records, manifests[-1], plan, store)
        overheads[len(more)] = _overhead(records, more)
        done += more
        if len(done) >= ENOUGH:
            break
    return PastUsage(
        trials=[one for one in done if one.stage == GENERATE],
        scores=[one for one in done if one.stage == EVALUATE],
        evaluators=frozenset(part.name for manifest in manifests for part in manifest.evaluators),
        replays=any(one.calls for one in done) and any(_recoded(plan, manifest) for manifest in manifests),
        overhead=overheads[max(overheads)],
    )


def _busy(runs: Iterable[Run]) -> list[Run]:
    """The runs that finished something; an interrupted run has no counts and is included."""
    return [r for r in runs if not r.counts or any(key.endswith(".succeeded") for key in r.counts)][:READ]


def _recoded(plan: Plan, before: Manifest) -> bool:
    """Whether only the agents' code changed, so that unchanged calls can be replayed."""
    now = agents_of(plan.layout.conditions)
    changed = any(now.get(part.label, part.digest) != part.digest for part in before.agents)
    return changed and (before.seed, before.generation) == (plan.layout.seed, plan.layout.generation)


def _overhead(records: Sequence[Record], done: Sequence[PastWork]) -> float:
    """Seconds per task that passed beyond the tasks' own duration."""
    if len(done) < MANY:
        return HANDLING
    elapsed = records[-1].at - records[0].at
    return max(0.0, (elapsed - sum(one.seconds for one in done)) / len(done))


def _done(records: Iterable[Record], manifest: Manifest, plan: Plan, store: Readable) -> list[PastWork]:
    """The finished work in these events."""
    kinds: dict[str, str] = {}
    judges: dict[str, str] = {}
    ends: dict[str, Result] = {}
    for event in (record.event for record in records):
        if isinstance(event, TasksClaimed):
            kinds.update(dict.fromkeys(event.tasks, event.task_kind))
        elif isinstance(event, CallIntended):
            judges[event.task] = event.place.removeprefix(f"{EVALUATE} ")
        elif isinstance(event, TaskFinished) and event.state is State.succeeded:
            if IMPORTED in event.result.about and not event.result.took:
                continue  # how long it took, and what it cost, is not known
            ends[event.task] = event.result
    asks = any(result.metrics.get("calls") for result in ends.values())
    batched = batched_shares(ends, store)
    under = {GENERATE: _traced(ends if asks else {}, manifest, plan), EVALUATE: judges}
    return [
        _did(kind, under[kind].get(task, ""), result, batched.get(task, 0.0))
        for task, result in ends.items()
        if (kind := kinds.get(task, "")) in under
    ]


def _did(stage: str, under: str, result: Result, batched: float) -> PastWork:
    """The usage of one finished task."""
    metrics = result.metrics
    calls = metrics.get("calls", 0.0)
    return PastWork(
        stage,
        under,
        calls,
        metrics.get("input_tokens", 0.0),
        metrics.get("output_tokens", 0.0),
        metrics.get("cost", None if calls else 0.0),
        result.took,
        frozenset(filter(None, result.about.get("served", "").split(", "))),
        batched,
    )


def _traced(trials: Collection[str], manifest: Manifest, plan: Plan) -> dict[str, str]:
    """The condition keys of the trials whose cases are still in the plan."""
    sets = plan.layout.case_sets
    if not trials or len(manifest.conditions) > MOST_TRACED:
        return {}
    conditions = [condition for condition in manifest.conditions if condition.cases in sets]
    layout = Layout(conditions, sets, manifest.repeats, manifest.seed, manifest.generation)
    if layout.size > MOST_TRACED:
        return {}
    ids = ((layout.trial_id(place), place) for place in layout.places())
    return {id: key_of(place.condition) for id, place in ids if id in trials}
