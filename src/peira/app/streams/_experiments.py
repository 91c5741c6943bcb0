"""Opening the experiment of a stream: its traffic goes on, and recorded results are counted again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from peira.app.streams.results import StreamRecord
from peira.core.contracts import Op, OpenStore, RunQuery
from peira.core.log.events import TrafficSplit
from peira.core.log.rows import Run
from peira.core.verdicts import part_of
from peira.engine.streams.declaration import TAG
from peira.engine.streams.experiment import ExperimentPlan, LiveExperiment
from peira.results.trials import FAILED, TrialResult

OPENING = "opening"
"""Who decided about the traffic with which an opening begins."""


def opening_before(store: OpenStore, name: str) -> Run | None:
    """The last opening of a stream; None if it was never opened."""
    found = store.runs(RunQuery(study=name, tag=TAG, limit=1))
    return found[0] if found else None


def opened_experiment(
    store: OpenStore,
    stream: str,
    planned: ExperimentPlan | None,
    run: str,
    before: Run | None,
    pending: Collection[str],
) -> LiveExperiment | None:
    """The experiment of a stream that was just opened as `run`; None if it draws no arms.

    `pending` are jobs that will be offered again, and are not counted yet.
    """
    if planned is None:
        return None
    traffic = planned.begun(before.traffic if before else None)
    store.commit([Op(run, (TrafficSplit(traffic, OPENING),))]).result()
    experiment = LiveExperiment(planned, traffic, store)
    if planned.follows and traffic.winner < 0:
        _count(experiment, planned, StreamRecord(store, stream), pending)
    return experiment


def _count(
    experiment: LiveExperiment, planned: ExperimentPlan, record: StreamRecord, pending: Collection[str]
) -> None:
    """Count the recorded results, in the order of the jobs."""
    layout = record.layout(record.ended())
    for trial in record.reader(layout):
        if trial.id in pending:
            continue
        value = _value(trial, planned)
        if planned.late and value is None:
            continue
        experiment.count(layout.jobs[trial.id][1], value, trial.state in FAILED or bool(trial.scores))


def _value(trial: TrialResult, planned: ExperimentPlan) -> Any:
    """The value that decides, of a job that has ended; None if it has none."""
    evaluator, part = planned.score
    if not planned.late and not evaluator:
        return trial.metrics.get(part)
    score = trial.scores.get(planned.late or evaluator)
    if score is None or score.no_verdict:
        return None
    return part_of(score.value, part)
