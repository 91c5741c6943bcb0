"""The outstanding work of a plan: trials to generate and scores to compute.

A large plan is extrapolated from a random sample of its trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from peira.core.log.events import State
from peira.core.log.rows import Task
from peira.plan.diff.history import Readable, StoredCounts, recorded
from peira.plan.estimate.experience import key_of
from peira.plan.expansion import Plan, transform_digest
from peira.plan.order import shuffled
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Condition, Layout, Place

MOST = 500
"""Sample size."""


class Workload(msgspec.Struct, frozen=True):
    """The outstanding work of a plan, extrapolated from a sample of its trials."""

    new: int
    """Trials to generate, failed ones that are retried included."""
    reused: int
    """Trials that have an output."""
    trials: Mapping[str, float]
    """Trials to generate, by condition key."""
    conditions: Mapping[str, Condition]
    """The conditions by key."""
    fresh: Mapping[str, float]
    """Scores that the trials to generate will need, by evaluator digest."""
    missing: Mapping[str, float]
    """Scores that recorded trials lack, by evaluator digest."""
    looked: int
    """The number of trials in the sample."""


def workload(plan: Plan, store: Readable | None, counts: StoredCounts | None = None) -> Workload:
    """The outstanding work; `counts` are exact counts, without which they are extrapolated."""
    seen = _sampled_counts(plan, store)
    share = len(plan) / max(seen.looked, 1)
    new, reused = seen.new * share, seen.done * share
    if counts is not None:
        new = counts.new + counts.failed * plan.study.policy.retry_failed
        reused = counts.reused
    return Workload(
        new=round(new),
        reused=round(reused),
        trials=_trials(plan.layout, seen, new),
        conditions=seen.conditions,
        fresh=_shares(seen.fresh, new / seen.new) if seen.new else dict.fromkeys(plan.common, new),
        missing=_shares(seen.missing, reused / seen.done) if seen.done else {},
        looked=seen.looked,
    )


def _shares(counts: Mapping[str, int], each: float) -> dict[str, float]:
    """The counts scaled by a factor."""
    return {key: n * each for key, n in counts.items()}


def _trials(layout: Layout, seen: _Sample, n: float) -> dict[str, float]:
    """`n` trials distributed over the conditions like the new ones in the sample, or like all."""
    if not n:
        return {}
    if seen.new and (seen.done or layout.chosen is not None or len(layout.conditions) > MOST):
        return _shares(seen.trials, n / seen.new)
    if len(layout.conditions) > MOST:
        return dict.fromkeys(seen.conditions, n / len(seen.conditions))
    sizes: Counter[str] = Counter()
    for condition in layout.conditions:
        sizes[key_of(condition)] += layout.trials_of(condition)
        seen.conditions[key_of(condition)] = condition
    return _shares(sizes, n / sizes.total())


class _Sample(msgspec.Struct):
    """Counts of the sampled trials."""

    looked: int = 0
    done: int = 0
    new: int = 0
    conditions: dict[str, Condition] = msgspec.field(default_factory=dict)
    trials: Counter[str] = msgspec.field(default_factory=Counter)
    fresh: Counter[str] = msgspec.field(default_factory=Counter)
    missing: Counter[str] = msgspec.field(default_factory=Counter)


def _sampled_counts(plan: Plan, store: Readable | None) -> _Sample:
    """Sample the plan and compare it with the store."""
    seen, scores = _Sample(), dict[str, list[str]]()
    takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
    judging = ScoreIds(plan.common, takes, transform_digest(plan.transform))
    done: list[tuple[Place, str, Task]] = []
    again = plan.study.policy.retry_failed
    for place, id, task in recorded(plan, store, _sample(plan.layout)):
        seen.looked += 1
        key = key_of(place.condition)
        seen.conditions.setdefault(key, place.condition)
        if task is not None and task.state is State.succeeded:
            seen.done += 1
            done.append((place, id, task))
        elif task is None or again or task.state is not State.failed:
            seen.new += 1
            seen.trials[key] += 1
            seen.fresh.update({*plan.common, *place.case.judged_by})
    for judge, score in _scores(judging, done, store):
        scores.setdefault(judge, []).append(score)
    seen.missing.update({judge: _missing(ids, store, again) for judge, ids in scores.items()})
    return seen


def _scores(
    judging: ScoreIds, done: Sequence[tuple[Place, str, Task]], store: Readable | None
) -> Iterator[tuple[str, str]]:
    """Each score id of these trials with its evaluator; "" if the answer is not extracted yet."""
    ids = [judging.answer(task.result) for _, _, task in done] if judging.transform else []
    answers = store.find("task", ids) if store and ids else {}
    for at, (place, id, task) in enumerate(done):
        answer = answers.get(ids[at]) if ids else task
        if answer is None or answer.state is not State.succeeded:
            yield from ((judge, "") for judge in judging.judges(place.case))
        else:
            yield from judging.scores(place, id, task.result, answer.result)


def _sample(layout: Layout) -> Iterator[Place]:
    """All trials, or a random sample of `MOST`."""
    if len(layout) <= MOST:
        return layout.places()
    positions = islice(shuffled(len(layout), layout.seed, "estimate"), MOST)
    chosen = layout.chosen
    return (layout.place(at if chosen is None else chosen[at]) for at in positions)


def _missing(scores: list[str], store: Readable | None, again: bool) -> int:
    """The number of these scores that have to be computed."""
    rows = store.find("task", [score for score in scores if score]) if store else {}
    kept = (State.succeeded,) if again else (State.succeeded, State.failed)
    return sum(score not in rows or rows[score].state not in kept for score in scores)
