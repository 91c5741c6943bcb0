"""How the live experiment of a stream stands: its arms, their shares, their differences as jobs came."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from peira.analysis.compare.live import LiveDesign, arm_sequences
from peira.analysis.table.measures import Measured, measure
from peira.app.session import Session
from peira.app.streams.results import stream_results
from peira.core.looks import Traffic
from peira.core.registry import nearest
from peira.engine.streams.declaration import DecidingScore, Declaration, arm_labels, compares, last_opening
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult
from peira.stats.sequential.running_mean import SequencePoint


class ArmStatus(msgspec.Struct, frozen=True):
    """An arm: the share of jobs that it gets now, and what is known of those that it got.

    `jobs` have ended; `values` of them have a value of the score that decides, with this mean; `lost` ended
    without one, and `open` have an outcome that nobody has reported yet.
    """

    arm: str
    levels: dict[str, Any]
    share: float | None
    jobs: int
    values: int
    lost: int
    open: int
    mean: float | None


class ArmDifference(msgspec.Struct, frozen=True):
    """The difference of two arms, valid at every look; `path` is how it came to that, job by job."""

    first: str
    second: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None
    path: list[SequencePoint]


class ExperimentStatus(msgspec.Struct, frozen=True):
    """A live experiment: what is compared, the arms, and the differences of one of them from the others."""

    stream: str
    assign: str
    factors: list[str]
    score: str
    late: bool
    minimize: bool
    stops: bool
    level: float
    least_share: float | None
    winner: str | None
    why: str
    arms: list[ArmStatus]
    differences: list[ArmDifference]
    notes: list[str]


def experiment_status(session: Session, name: str, arm: str = "") -> ExperimentStatus:
    """The experiment of a stream, with the differences of `arm` from the others.

    Without a name it is the winner, or the first arm. Raises Unknown if the stream has nothing to compare or
    there is no such arm.
    """
    with session.reading() as store:
        run, declaration = last_opening(store, name)
    varying, labels = arm_labels(declaration.arms)
    traffic, drawn = run.traffic, run.traffic is not None
    if not compares(run, declaration):
        raise Unknown(f"stream {name!r} compares nothing: it has one arm, or does all jobs under the first")
    reference = _reference(arm, labels, traffic)
    results = stream_results(session, name)
    assert results.live is not None
    live = results.live
    deciding = declaration.deciding or DecidingScore("")
    level = 1 - deciding.alpha / max(1, len(labels) - 1)
    trials = [one for one in results.trials if not drawn or _draw(one, live.experiment)]
    measured, notes = _measured(trials, deciding)
    limits = deciding.range if declaration.deciding is not None else None
    differences = []
    if measured is not None:
        for one in arm_sequences(measured, live, reference, level, limits):
            last = one.points[-1] if one.points else SequencePoint(0, None, None, None)
            first, second = labels[one.first], labels[one.second]
            now = last.mean, last.low, last.high, last.n
            differences.append(ArmDifference(first, second, *now, one.p, list(one.points)))
    return ExperimentStatus(
        stream=name,
        assign=declaration.assign,
        factors=varying,
        score=measured.name if measured is not None else deciding.name,
        late=deciding.late,
        minimize=deciding.minimize,
        stops=deciding.stops,
        level=level,
        least_share=declaration.least_share if drawn else None,
        winner=labels[traffic.winner] if traffic is not None and traffic.winner >= 0 else None,
        why=traffic.why if traffic is not None else "each job is done under all arms; the first answers",
        arms=_arms(declaration, labels, traffic, trials, measured, live),
        differences=differences,
        notes=notes,
    )


def _reference(arm: str, labels: tuple[str, ...], traffic: Traffic | None) -> int:
    if arm:
        if arm not in labels:
            raise Unknown(f"arm: there is no arm {arm!r}{nearest(arm, list(labels))}")
        return labels.index(arm)
    return traffic.winner if traffic is not None and traffic.winner >= 0 else 0


def _draw(trial: TrialResult, experiment: str) -> bool:
    """Whether a job was drawn for this experiment."""
    return trial.draw is not None and trial.draw.experiment == experiment


def _measured(trials: list[TrialResult], deciding: DecidingScore) -> tuple[Measured | None, list[str]]:
    """The values of the deciding score in the order of the jobs, and the notes about them."""
    name = deciding.name or next((name for trial in trials for name in trial.scores), "")
    try:
        measured = measure(trials, name)
    except (Invalid, Unknown):
        return None, [f"no job has a value of {name} yet" if name else "no job has a score yet"]
    known = tuple(one for one in measured.observations if one.value is not None)
    if not known:
        return None, [f"no job has a value of {name} yet"]
    return (replace(measured, observations=known) if deciding.late else measured), []


def _arms(
    declaration: Declaration,
    labels: tuple[str, ...],
    traffic: Traffic | None,
    trials: list[TrialResult],
    measured: Measured | None,
    live: LiveDesign,
) -> list[ArmStatus]:
    """Every arm with its share and its jobs."""
    numbers = {msgspec.json.encode(arm): number for number, arm in enumerate(map(dict, live.arms))}

    def arm_of(trial: TrialResult) -> int:
        if trial.draw is not None:
            return trial.draw.arm
        return numbers.get(msgspec.json.encode({"agent": trial.agent, **trial.condition}), 0)

    jobs, values, lost = ([0] * len(labels) for _ in range(3))
    sums = [0.0] * len(labels)
    for trial in trials:
        jobs[arm_of(trial)] += 1
    for one in measured.observations if measured is not None else ():
        number = arm_of(one.trial)
        if one.value is None:
            lost[number] += 1
        else:
            values[number] += 1
            sums[number] += one.value
    late = declaration.deciding is not None and declaration.deciding.late
    return [
        ArmStatus(
            label,
            dict(declaration.arms[number]),
            traffic.shares[number] if traffic is not None else None,
            jobs[number],
            values[number],
            lost[number],
            jobs[number] - values[number] - lost[number] if late else 0,
            sums[number] / values[number] if values[number] else None,
        )
        for number, label in enumerate(labels)
    ]
