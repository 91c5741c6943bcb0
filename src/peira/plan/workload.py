"""How much of a plan is to be done: trials to be generated, scores to be made. What is recorded is not.

A plan of many trials is judged from a part of them, taken at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from peira.core.events import State
from peira.core.rows import Task
from peira.plan.expand import Plan, transform_digest
from peira.plan.experience import key_of
from peira.plan.history import Found, Readable, recorded
from peira.plan.judging import Judging
from peira.plan.layout import Condition, Layout, Place
from peira.plan.order import shuffled

MOST = 500


@dataclass(frozen=True)
class Workload:
    """`trials` to be generated, by the key of their condition (see `conditions`); the scores that those will
    need (`fresh`) and that recorded ones lack (`missing`), by their evaluator's digest. `looked` trials were
    looked at."""

    new: int
    reused: int
    trials: Mapping[str, float]
    conditions: Mapping[str, Condition]
    fresh: Mapping[str, float]
    missing: Mapping[str, float]
    looked: int


def workload(plan: Plan, store: Readable | None, counts: Found | None = None) -> Workload:
    """What is to be done. `counts` are of all trials; without them they are told from those looked at."""
    seen = _look(plan, store)
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
    return {key: n * each for key, n in counts.items()}


def _trials(layout: Layout, seen: _Seen, n: float) -> dict[str, float]:
    """So many trials, over the conditions as those looked at that are new; if none is, as all are."""
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


@dataclass
class _Seen:
    looked: int = 0
    done: int = 0
    new: int = 0
    conditions: dict[str, Condition] = field(default_factory=dict)
    trials: Counter[str] = field(default_factory=Counter)
    fresh: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)


def _look(plan: Plan, store: Readable | None) -> _Seen:
    seen, scores = _Seen(), dict[str, list[str]]()
    takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
    judging = Judging(plan.common, takes, transform_digest(plan.transform))
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
    judging: Judging, done: Sequence[tuple[Place, str, Task]], store: Readable | None
) -> Iterator[tuple[str, str]]:
    """Each score of these trials, with its evaluator; one of an answer that is not known has no id ("")."""
    ids = [judging.answer(task.result) for _, _, task in done] if judging.transform else []
    answers = store.find("task", ids) if store and ids else {}
    for at, (place, id, task) in enumerate(done):
        answer = answers.get(ids[at]) if ids else task
        if answer is None or answer.state is not State.succeeded:
            yield from ((judge, "") for judge in judging.judges(place.case))
        else:
            yield from judging.scores(place, id, task.result, answer.result)


def _sample(layout: Layout) -> Iterator[Place]:
    if len(layout) <= MOST:
        return layout.places()
    positions = islice(shuffled(len(layout), layout.seed, "estimate"), MOST)
    chosen = layout.chosen
    return (layout.place(at if chosen is None else chosen[at]) for at in positions)


def _missing(scores: list[str], store: Readable | None, again: bool) -> int:
    """How many of the scores are to be made."""
    rows = store.find("task", [score for score in scores if score]) if store else {}
    kept = (State.succeeded,) if again else (State.succeeded, State.failed)
    return sum(score not in rows or rows[score].state not in kept for score in scores)
