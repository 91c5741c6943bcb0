"""What earlier runs recorded, for the next one: the answer of a stopping rule, and outcomes to choose trials
by.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from peira.analysis.results import Results
from peira.core.contracts import Store
from peira.core.ids import Json
from peira.core.log.events import TERMINAL, State
from peira.core.log.state import Run
from peira.core.looks import Look
from peira.core.verdicts import part_of
from peira.engine.sources.adaptive import AdaptiveSource, DecidedSource, StoppingEvidence
from peira.engine.sources.study import StudySource
from peira.plan.diff.changes import version_of
from peira.plan.expansion import Plan
from peira.plan.manifest import Manifest, read
from peira.plan.stopping import StopQuestion, stop_question
from peira.plan.subset import EarlierRun, EarlierTrial
from peira.plan.trials import Place
from peira.results.reader import CHUNK, ResultReader
from peira.results.trials import TrialResult, numbers


def recorded_look(plan: Plan, store: Store | None) -> Look | None:
    """What the plan's rule says of what is recorded; None without a rule, or if it has not looked."""
    question = stop_question(plan)
    if question is None or store is None:
        return None
    return _replayed(question, plan, version_of(plan).manifest, store)[0].look


def source_with_rule(
    plan: Plan, manifest: Manifest, source: StudySource, store: Store
) -> AdaptiveSource | None:
    """The study's source with its stopping rule before it; None if it has none."""
    question = stop_question(plan)
    if question is None:
        return None
    if (answer := recorded_answer(plan, manifest, store)) is not None:
        return DecidedSource(source, answer.evidence, store, answer.trials)
    return AdaptiveSource(source, StoppingEvidence(question), store)


class RecordedAnswer(NamedTuple):
    """The answer of a stopping rule from what is recorded, and how many trials of the run order led to it."""

    evidence: StoppingEvidence
    trials: int


def recorded_answer(plan: Plan, manifest: Manifest, store: Store) -> RecordedAnswer | None:
    """The answer of the plan's stopping rule that is recorded already; None if there is none."""
    question = stop_question(plan)
    if question is None:
        return None
    evidence, trials = _replayed(question, plan, manifest, store)
    return RecordedAnswer(evidence, trials) if evidence.decided else None


def _replayed(
    question: StopQuestion, plan: Plan, manifest: Manifest, store: Store
) -> tuple[StoppingEvidence, int]:
    """What the rule says of what is recorded, and how many trials of the order of the run led to it."""
    evidence, led = StoppingEvidence(question), 0
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
    evidence.drain()
    return evidence, led


def _recorded(plan: Plan, manifest: Manifest, store: Store) -> Iterator[tuple[Place, TrialResult]]:
    """Trials with their results, in the order of the run."""
    collector = ResultReader(manifest, store, "", layout=plan.layout)
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
    return (None if found.no_verdict else part_of(found.value, part)), True


def _asked_for(trial: TrialResult, evaluator: str) -> bool:
    """Whether a value was to be had: what was never asked for has not been lost."""
    return trial.state is State.failed or not evaluator or evaluator in trial.scores


def earlier_of(run: Results | Run, store: Any) -> EarlierRun:
    """What a run found: by its results, or as it stands in the store."""
    if isinstance(run, Results):
        return EarlierRun(run.run_id, map(_past, run))
    return EarlierRun(run.id, map(_past, ResultReader(read(run.manifest, store.get), store, run.id)))


def _past(trial: TrialResult) -> EarlierTrial:
    scores = {name: value for score in trial.scores.values() for name, value in numbers(score).items()}
    failed = trial.state in TERMINAL and trial.state is not State.succeeded
    return EarlierTrial(trial.condition, trial.case_id, failed, scores)
