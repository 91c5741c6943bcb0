"""What a run with a stopping rule starts from: the rule's answer, if what is recorded has it already.

Before anything begins, recorded trials are shown to the rule in the planned order, up to the first unit that
is not complete. So a run that was killed after its answer was clear, or is run again, begins nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from peira.analysis.collect import CHUNK, Collector
from peira.analysis.trials import TrialResult
from peira.core.contracts import Store
from peira.core.events import State
from peira.core.ids import Json
from peira.core.looks import Look
from peira.engine.allocation import Allocated, Settled
from peira.engine.evidence import Evidence
from peira.engine.trials import StudySource
from peira.plan.expand import Plan
from peira.plan.layout import Place
from peira.plan.manifest import Manifest
from peira.plan.question import Asked, asked
from peira.plan.version import version_of


def settled(plan: Plan, store: Store | None) -> Look | None:
    """What the plan's rule says of what is recorded; None without a rule, or if it has not looked."""
    question = asked(plan)
    if question is None or store is None:
        return None
    return _replayed(question, plan, version_of(plan).manifest, store)[0].look


def allocated(plan: Plan, manifest: Manifest, source: StudySource, store: Store) -> StudySource | Allocated:
    """The study's source, with its rule before it if it has one."""
    question = asked(plan)
    if question is None:
        return source
    evidence, trials = _replayed(question, plan, manifest, store)
    if evidence.decided:
        return Settled(source, evidence, store, trials)
    return Allocated(source, Evidence(question), store)


def _replayed(question: Asked, plan: Plan, manifest: Manifest, store: Store) -> tuple[Evidence, int]:
    """What the rule says of what is recorded, and how many trials of the order of the run led to it."""
    evidence, led = Evidence(question), 0
    for place, trial in _recorded(plan, manifest, store):
        if place.number < question.anchored:
            cell = evidence.plan(place)
            evidence.drain()
            value, over = _value(trial, question.score)
            needed = cell.number not in evidence.given_up
            if evidence.decided or evidence.problem or (needed and not over):
                return evidence, led
            if over:
                evidence.count(cell, value, _asked_for(trial, question.score[0]))
        led += 1
    evidence.close()
    return evidence, led


def _recorded(plan: Plan, manifest: Manifest, store: Store) -> Iterator[tuple[Place, TrialResult]]:
    """Trials with their results, in the order of the run."""
    collector = Collector(manifest, store, "", layout=plan.layout)
    order = plan.layout.in_run_order()
    while chunk := [plan.layout.place(index) for index in islice(order, CHUNK)]:
        yield from zip(chunk, collector.of(chunk), strict=True)


def _value(trial: TrialResult, score: tuple[str, str]) -> tuple[Json, bool]:
    """The number that the rule follows, None if it has none, and whether it is settled: what failed is, what
    was cut off or never ended is not."""
    evaluator, part = score
    if trial.state is not State.succeeded:
        return None, trial.state is State.failed
    if not evaluator:
        return trial.metrics.get(part), True
    found = trial.scores.get(evaluator)
    if found is None or found.state is not State.succeeded:
        return None, found is None or found.state in (State.failed, State.blocked)
    return (found.value.get(part) if part and isinstance(found.value, dict) else found.value), True


def _asked_for(trial: TrialResult, evaluator: str) -> bool:
    """Whether a value was to be had: what was never asked for has not been lost."""
    return trial.state is State.failed or not evaluator or evaluator in trial.scores
