"""The results of a stream: its ended jobs as trials, over a window of time.

What is reported of a job later stands among its scores. Jobs are in the order in which they came.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from peira.analysis.compare.live import LiveDesign
from peira.analysis.results import Results
from peira.app.session import Session
from peira.app.store.results import background_of
from peira.core.clock import stamp
from peira.core.contracts import JobQuery, OpenStore, PayloadRemoval, TaskOutcome
from peira.core.ids import Json
from peira.core.log.events import TERMINAL, State, Status
from peira.core.log.rows import Run, Task
from peira.engine.streams.declaration import Declaration, declaration_of, last_opening
from peira.engine.streams.jobs import Job, case_of, class_of, job_id, job_of
from peira.plan.conditions import Condition
from peira.plan.manifest import Manifest, read
from peira.plan.trials import Place
from peira.results.aims import Aims
from peira.results.reader import FoundTrial, ResultReader
from peira.results.slices import marked
from peira.results.trials import FoundAnswer, JobDraw, Score, TrialResult, end_word

MOST = 1_000_000
NOT_NOW = "jobs under conditions that the stream has no more are left out: {n}"


class JobArms:
    """The conditions of jobs, by the opening that did each: arms may have been others then."""

    def __init__(self, store: OpenStore, declaration: Declaration, conditions: Sequence[Condition]) -> None:
        self._store, self._conditions = store, conditions
        self._arms = [msgspec.json.encode(arm) for arm in declaration.arms]
        self._known: dict[str, dict[int, int]] = {}

    def number(self, task: Task, job: Job) -> int | None:
        """The number of a job's condition among the present ones; None if it is none of them."""
        if task.run not in self._known:
            self._known[task.run] = self._read(task.run)
        return self._known[task.run].get(job.arm)

    def _read(self, run: str) -> dict[int, int]:
        """The present number of each arm of an opening; arms beyond its last are the last."""
        opening: Run | None = self._store.find("run", [run]).get(run)
        if opening is None or not opening.stream:
            return {arm: arm for arm in range(len(self._conditions))}
        arms = [msgspec.json.encode(arm) for arm in declaration_of(self._store, opening).arms]
        return {arm: self._arms.index(one) for arm, one in enumerate(arms) if one in self._arms}


class JobLayout:
    """Ended jobs, oldest first, as the places of trials; with the shadows of each if there are any."""

    def __init__(
        self,
        store: OpenStore,
        conditions: tuple[Condition, ...],
        jobs: Iterable[Task],
        arms: JobArms,
        shadows: bool,
    ) -> None:
        self._conditions, self._shadows = conditions, shadows
        self.jobs: dict[str, tuple[Task, Job]] = {}
        self._numbers: dict[str, int] = {}
        self.left_out = 0
        for task in jobs:
            job = job_of(store.get(task.payload))
            if (number := arms.number(task, job)) is None:
                self.left_out += 1
                continue
            self.jobs[task.id], self._numbers[task.id] = (task, job), number
        self._arms = {id(condition): arm for arm, condition in enumerate(conditions)}

    def places(self) -> Iterator[Place]:
        """Each job under its condition; shadows are trials of the same case."""
        number = 0
        for task, job in self.jobs.values():
            for arm in range(len(self._conditions)) if self._shadows else [self._numbers[task.id]]:
                trial = job_id(job.stream, job.key, arm) if self._shadows else task.id
                case = msgspec.structs.replace(case_of(trial, job), id=task.id)
                yield Place(number, self._conditions[arm], case, 0)
                number += 1

    @property
    def anchored(self) -> int:
        """The number of the first anchor: there are none."""
        return len(self.jobs) * len(self._conditions)

    def trial_id(self, place: Place) -> str:
        """The task of the job, or of its shadow."""
        if not self._shadows:
            return place.case.id
        _, job = self.jobs[place.case.id]
        return job_id(job.stream, job.key, self._arms[id(place.condition)])


class JobReader(ResultReader):
    """Reads jobs as trials, with how they were drawn and what was reported of them later."""

    def __init__(self, manifest: Manifest, store: Any, run: str, layout: JobLayout) -> None:
        anything: Any = layout
        super().__init__(manifest, store, run, layout=anything)
        self._jobs = layout.jobs

    def _trial(
        self,
        place: Place,
        id: str,
        task: TaskOutcome | None,
        found: FoundAnswer | None,
        scores: Mapping[str, Score],
    ) -> TrialResult:
        row, job = self._jobs[place.case.id]
        later = {n: Score(n, State.succeeded, value, reported=True) for n, value in row.outcomes.items()}
        mine = {**scores, **later} if id == row.id else scores
        trial = super()._trial(place, id, task, found, mine)
        draw = JobDraw(job.experiment, job.arm, job.shares) if job.experiment else None
        return msgspec.structs.replace(trial, draw=draw, submitted=job.at)


class StreamRecord:
    """What a store has of a stream, at its last opening: its declaration, its jobs as trials."""

    def __init__(self, store: OpenStore, name: str) -> None:
        self.store, self.name = store, name
        self.run, self.declaration = last_opening(store, name)
        self.manifest = read(self.run.manifest, store.get)

    def ended(self, since: float | None = None) -> tuple[Task, ...]:
        """The jobs that have ended and were submitted since then, oldest first."""
        found = self.store.jobs(JobQuery(class_of(self.name), limit=MOST, since=since or 0.0))
        gone = set(self.store.forgotten()) if isinstance(self.store, PayloadRemoval) else set()
        return tuple(one for one in reversed(found) if one.state in TERMINAL and one.payload not in gone)

    def layout(self, jobs: Iterable[Task]) -> JobLayout:
        """These jobs as places of trials."""
        conditions = tuple(self.manifest.conditions)
        arms = JobArms(self.store, self.declaration, conditions)
        return JobLayout(self.store, conditions, jobs, arms, self.declaration.assign == "all")

    def reader(self, layout: JobLayout) -> JobReader:
        """The reader of these jobs."""
        return JobReader(self.manifest, self.store, self.run.id, layout)

    def unscored(self, run: str) -> Iterator[Task]:
        """Jobs that succeeded in this opening and have scores that are missing, or have not ended."""
        mine = [task for task in self.ended() if task.run == run and task.state is State.succeeded]
        for found in self.reader(self.layout(mine)).found():
            if found.task is not None and not self._is_scored(found):
                yield found.task

    def _is_scored(self, found: FoundTrial) -> bool:
        ids = [id for _, id in found.scores if id]
        rows = self.store.find("task", ids) if ids else {}
        return len(ids) == len(found.scores) and all(id in rows and rows[id].state in TERMINAL for id in ids)


def stream_results(session: Session, name: str, since: float | None = None) -> Results:
    """The results of a stream's jobs that have ended, of the last `since` seconds or of all times."""
    begin = None if since is None else time.time() - since
    with session.reading() as store:
        record = StreamRecord(store, name)
        jobs = record.ended(begin)
        layout = record.layout(jobs)
        run, manifest, live = record.run, record.manifest, live_design(record, begin)

    def load() -> Iterator[TrialResult]:
        with session.reading() as opened:
            yield from marked(manifest.snapshot, JobReader(manifest, opened, run.id, layout))

    left = [NOT_NOW.format(n=layout.left_out)] if layout.left_out else []
    return Results(
        load,
        run_id=run.id,
        study=name,
        status=Status.running.value,
        counts=dict(Counter(end_word(task.state) for task, _ in layout.jobs.values())),
        notes=(*manifest.notes, *left, *live.notes),
        store=session.store,
        aims=Aims.of(manifest.snapshot),
        conditions=manifest.conditions,
        look=run.look,
        background=partial(background_of, session, run, manifest, ()),
        live=live,
    )


def live_design(record: StreamRecord, since: float | None = None) -> LiveDesign:
    """How the jobs of a stream get their conditions, as analyses need it."""
    labels = JobReader(record.manifest, record.store, record.run.id, record.layout(())).labels
    arms: list[dict[str, Json]] = [
        {"agent": one.agent, **labels.shown(one.shown)} for one in record.manifest.conditions
    ]
    traffic = record.run.traffic
    return LiveDesign(
        record.declaration.assign,
        tuple(arms),
        traffic.experiment if traffic else "",
        record.declaration.least_share,
        "the first" if since is None else stamp(since)[:16].replace("T", " "),
    )
