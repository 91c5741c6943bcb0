"""What earlier runs of a study took: calls, tokens, money and time of the trials and scores they finished.

Only a part is read, however much there is: events from the middle of a run's log (its beginning has more than
its share of quick trials, its end of slow ones), of the newest runs that did something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from peira.core.contracts import RunQuery
from peira.core.events import CallIntended, Record, Result, State, TaskFinished, TasksClaimed
from peira.core.state import Run
from peira.plan.batched import in_batches
from peira.plan.conditions import agents_of
from peira.plan.expand import Plan
from peira.plan.history import Readable
from peira.plan.layout import Condition, Layout
from peira.plan.manifest import Manifest, read

GENERATE, EVALUATE = "generate", "evaluate"
LISTED, READ, RECORDS, ENOUGH = 50, 5, 2000, 300
"""Runs that are listed; those of them that are read, and events of each; finished work after which no further
run is read."""
MANY, HANDLING = 200, 1e-4
"""Finished work that shows how long peira itself takes over each piece; what that is taken for before."""
MOST_TRACED = 20_000
"""Trials of a layout up to which each is traced to its condition: that takes some 2 µs a trial."""


class Did(msgspec.Struct, frozen=True, gc=False):
    """What a finished trial or score took. `under` is the key of a trial's condition, or the evaluator that
    made a score; "" where that is not known. `cost` is None where a price was not known, and `batched` is the
    share of the calls that were answered in batches."""

    stage: str
    under: str
    calls: float
    input: float
    output: float
    cost: float | None
    seconds: float
    served: frozenset[str]
    batched: float = 0.0


@dataclass(frozen=True)
class Experience:
    """What was seen of earlier runs. `evaluators` are the names of those that judged in them. `replays` says
    that calls of the same scopes are recorded, made by other code: the code of now may find them there.
    `overhead` are seconds from one end to the next beyond what a piece of work takes itself."""

    trials: Sequence[Did] = ()
    scores: Sequence[Did] = ()
    evaluators: frozenset[str] = frozenset()
    replays: bool = False
    overhead: float = HANDLING

    @property
    def asks(self) -> bool:
        return any(one.calls for one in (*self.trials, *self.scores))


def key_of(condition: Condition) -> str:
    """A condition whatever the code of its agent."""
    return f"{condition.agent} {condition.digest}"


def experience(plan: Plan, store: Readable | None) -> Experience:
    """What the newest runs of this study took."""
    done: list[Did] = []
    manifests: list[Manifest] = []
    overheads: dict[int, float] = {}
    for run in _busy(store.runs(RunQuery(study=plan.study.name, limit=LISTED))) if store else []:
        assert store is not None
        manifests.append(read(run.manifest, store.get))
        records = store.events(run.id, max(0, (run.next_seq - RECORDS) // 2), RECORDS)
        more = _done(records, manifests[-1], plan, store)
        overheads[len(more)] = _overhead(records, more)
        done += more
        if len(done) >= ENOUGH:
            break
    return Experience(
        trials=[one for one in done if one.stage == GENERATE],
        scores=[one for one in done if one.stage == EVALUATE],
        evaluators=frozenset(part.name for manifest in manifests for part in manifest.evaluators),
        replays=any(one.calls for one in done) and any(_recoded(plan, manifest) for manifest in manifests),
        overhead=overheads[max(overheads)] if overheads else HANDLING,
    )


def _busy(runs: Iterable[Run]) -> list[Run]:
    """Those that finished something; one that was cut off may have, and has no counts."""
    return [r for r in runs if not r.counts or any(key.endswith(".succeeded") for key in r.counts)][:READ]


def _recoded(plan: Plan, before: Manifest) -> bool:
    """Whether it is the same but for the agents' code: then calls that did not change are recorded."""
    now = agents_of(plan.layout.conditions)
    changed = any(now.get(part.label, part.digest) != part.digest for part in before.agents)
    return changed and (before.seed, before.generation) == (plan.layout.seed, plan.layout.generation)


def _overhead(records: Sequence[Record], done: Sequence[Did]) -> float:
    """Seconds a piece that went by while these were done, less what each took."""
    if len(done) < MANY:
        return HANDLING
    went_by = records[-1].at - records[0].at
    return max(0.0, (went_by - sum(one.seconds for one in done)) / len(done))


def _done(records: Iterable[Record], manifest: Manifest, plan: Plan, store: Readable) -> list[Did]:
    kinds: dict[str, str] = {}
    judges: dict[str, str] = {}
    ends: dict[str, Result] = {}
    for event in (record.event for record in records):
        if isinstance(event, TasksClaimed):
            kinds.update(dict.fromkeys(event.tasks, event.task_kind))
        elif isinstance(event, CallIntended):
            judges[event.task] = event.place.removeprefix(f"{EVALUATE} ")
        elif isinstance(event, TaskFinished) and event.state is State.succeeded:
            ends[event.task] = event.result
    asks = any(result.metrics.get("calls") for result in ends.values())
    batched = in_batches(ends, store)
    under = {GENERATE: _traced(ends if asks else {}, manifest, plan), EVALUATE: judges}
    return [
        _did(kind, under[kind].get(task, ""), result, batched.get(task, 0.0))
        for task, result in ends.items()
        if (kind := kinds.get(task, "")) in under
    ]


def _did(stage: str, under: str, result: Result, batched: float) -> Did:
    said = result.metrics
    calls = said.get("calls", 0.0)
    return Did(
        stage,
        under,
        calls,
        said.get("input_tokens", 0.0),
        said.get("output_tokens", 0.0),
        said.get("cost", None if calls else 0.0),
        result.took,
        frozenset(filter(None, result.about.get("served", "").split(", "))),
        batched,
    )


def _traced(trials: Collection[str], manifest: Manifest, plan: Plan) -> dict[str, str]:
    """The conditions of those trials whose cases are still the plan's."""
    sets = plan.layout.case_sets
    if not trials or len(manifest.conditions) > MOST_TRACED:
        return {}
    conditions = [condition for condition in manifest.conditions if condition.cases in sets]
    layout = Layout(conditions, sets, manifest.repeats, manifest.seed, manifest.generation)
    if layout.size > MOST_TRACED:
        return {}
    ids = ((layout.trial_id(place), place) for place in layout.places())
    return {id: key_of(place.condition) for id, place in ids if id in trials}
