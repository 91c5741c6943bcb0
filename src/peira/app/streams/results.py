"""The results of a stream: its ended jobs as trials, over a window of time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from peira.analysis.results import Results
from peira.app.session import Session
from peira.core.contracts import Forgets, JobQuery
from peira.core.log.events import TERMINAL, Status
from peira.core.log.rows import Task
from peira.engine.streams.declaration import Declaration, last_opening
from peira.engine.streams.jobs import case_of, class_of, job_id, job_of
from peira.plan.conditions import Condition
from peira.plan.manifest import Manifest, read
from peira.plan.trials import Place
from peira.results.aims import Aims
from peira.results.reader import ResultReader
from peira.results.trials import TrialResult, end_word

MOST = 1_000_000
ONE_LOOK = "jobs go on arriving: these intervals hold for one look, not for looking until they please"


@dataclass(frozen=True)
class JobLayout:
    """Ended jobs, oldest first, as the places of trials; with the shadows of each if there are any."""

    store: Any
    conditions: tuple[Condition, ...]
    jobs: tuple[Task, ...]
    shadows: bool

    def places(self) -> Iterator[Place]:
        """Each job under its condition."""
        number = 0
        for task in self.jobs:
            job = job_of(self.store.get(task.payload))
            arms = range(len(self.conditions)) if self.shadows else [min(job.arm, len(self.conditions) - 1)]
            for arm in arms:
                id = job_id(job.stream, job.key, arm) if self.shadows else task.id
                yield Place(number, self.conditions[arm], case_of(id, job), 0)
                number += 1

    @property
    def anchored(self) -> int:
        """The number of the first anchor: there are none."""
        return len(self.jobs) * len(self.conditions)

    def trial_id(self, place: Place) -> str:
        """The task of the job, or of its shadow."""
        return place.case.id


def stream_results(session: Session, name: str, since: float | None = None) -> Results:
    """The results of a stream's jobs that have ended, of the last `since` seconds or of all times."""
    with session.reading() as store:
        run, declaration = last_opening(store, name)
        manifest = read(run.manifest, store.get)
        jobs = _ended(store, name, since)

    def load() -> Iterator[TrialResult]:
        with session.reading() as opened:
            yield from _reader(opened, manifest, declaration, jobs, run.id)

    return Results(
        load,
        run_id=run.id,
        study=name,
        status=Status.running.value,
        counts=dict(Counter(end_word(task.state) for task in jobs)),
        notes=(*manifest.notes, ONE_LOOK),
        store=session.store,
        aims=Aims.of(manifest.snapshot),
        conditions=manifest.conditions,
    )


def _ended(store: Any, name: str, since: float | None) -> tuple[Task, ...]:
    """The jobs that have ended, were submitted in the window and whose inputs are kept, oldest first."""
    begin = 0.0 if since is None else time.time() - since
    found = store.jobs(JobQuery(class_of(name), limit=MOST))
    gone = set(store.forgotten()) if isinstance(store, Forgets) else set()
    ended = [one for one in found if one.state in TERMINAL and one.payload not in gone]
    ended = [one for one in ended if float(one.labels.get("at", 0)) >= begin]
    return tuple(reversed(ended))


def _reader(
    store: Any, manifest: Manifest, declaration: Declaration, jobs: tuple[Task, ...], run: str
) -> ResultReader:
    layout: Any = JobLayout(store, tuple(manifest.conditions), jobs, declaration.assign == "all")
    return ResultReader(manifest, store, run, layout=layout)
