"""What pages and the REST interface ask of live experiments, goals, outcomes and decisions of streams."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.app.streams.experiment_status import ExperimentStatus, experiment_status
from peira.app.streams.goals import GoalLook, goal_statuses
from peira.core.clock import stamp
from peira.core.log.rows import Run
from peira.engine.streams.declaration import Declaration, last_opening
from peira.errors import Unknown
from peira.stats.sequential.running_mean import SequencePoint
from peira.web.reader import SiteReader
from peira.web.rest.documents import GoalVerdictEvent, JobDecision, ReportedOutcome, TrafficChange
from peira.web.site import Site


class ExperimentQuery(msgspec.Struct, frozen=True):
    """Which arm the others are compared with: the winner, or the first one, if none is named."""

    arm: str = ""


class ExperimentDecision(msgspec.Struct, frozen=True):
    """The decision of an experiment: when, after how many jobs, and the line that says why."""

    at: str
    jobs: int
    answer: str
    look: str


class ExperimentDocument(ExperimentStatus, frozen=True):
    """A live experiment: arms with their shares, differences valid at every look, and how it came to that."""

    splits: list[TrafficChange]
    decision: ExperimentDecision | None


class GoalDocument(msgspec.Struct, frozen=True):
    """A goal: its verdict, the mean of its window with the confidence sequence, and how it came to that."""

    goal: str
    streams: list[str]
    score: str
    relation: str
    limit: float
    on_missed: str
    verdict: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    lost: int
    since: str
    path: list[SequencePoint]


class GoalList(msgspec.Struct, frozen=True):
    """The goals of a stream, and every change of a verdict, newest first."""

    stream: str
    goals: list[GoalDocument]
    changes: list[GoalVerdictEvent]


class OutcomeList(msgspec.Struct, frozen=True):
    """What was reported of jobs of a stream, newest first; `total` counts all reports."""

    stream: str
    total: int
    outcomes: list[ReportedOutcome]


class DecisionList(msgspec.Struct, frozen=True):
    """What agents decided in jobs of a stream, newest first."""

    stream: str
    decisions: list[JobDecision]


def opening(reader: SiteReader, name: str) -> tuple[Run, Declaration]:
    """The last opening of a stream and its declaration."""
    if not reader.open():
        raise Unknown("there are no streams in this store yet")
    with reader.session.reading() as store:
        return last_opening(store, name)


async def experiment(site: Site, name: str, query: ExperimentQuery) -> ExperimentDocument:
    """The live experiment of a stream."""
    reader = site.reader
    await reader.short(opening, reader, name)

    def compute() -> ExperimentDocument:
        found: ExperimentStatus = experiment_status(reader.slow_session, name, query.arm)
        seen = reader.stream_monitor(name)
        decision = None
        if seen.decided is not None:
            at, look = seen.decided
            decision = ExperimentDecision(at, look.units, look.answer, str(look))
        return ExperimentDocument(
            **msgspec.structs.asdict(found), splits=list(seen.splits), decision=decision
        )

    return await reader.recomputed(("experiment", name, query.arm), compute)


async def goals(site: Site, name: str) -> GoalList:
    """The goals of a stream."""
    reader = site.reader
    await reader.short(opening, reader, name)

    def compute() -> GoalList:
        looks = goal_statuses(reader.slow_session, name, with_path=True)
        seen = reader.stream_monitor(name)
        return GoalList(name, [_goal(look) for look in looks], list(reversed(seen.verdicts)))

    return await reader.recomputed(("goals", name), compute)


def _goal(look: GoalLook) -> GoalDocument:
    shown: dict[str, Any] = look.document()
    one = look.goal
    return GoalDocument(
        **{**shown, "since": stamp(look.status.since)},
        score=one.score,
        relation=one.relation,
        limit=one.limit,
        path=list(look.status.path),
    )


async def outcomes(site: Site, name: str) -> OutcomeList:
    """What was reported of jobs of a stream."""
    reader = site.reader
    await reader.short(opening, reader, name)
    seen = await reader.long(reader.stream_monitor, name)
    return OutcomeList(name, seen.reported, list(reversed(seen.outcomes)))


async def decisions(site: Site, name: str) -> DecisionList:
    """What agents decided in jobs of a stream."""
    reader = site.reader
    await reader.short(opening, reader, name)
    seen = await reader.long(reader.stream_monitor, name)
    return DecisionList(name, list(reversed(seen.decisions)))
