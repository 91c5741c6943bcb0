"""What a store holds of a plan: reused and new trials, and how the plan differs from a frozen one.

A frozen plan is a run that was planned and closed in one stroke, and never started: it has a manifest, a
moment, and the status "frozen". The newest one that a run came after is the one it answers to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol

import msgspec

from peira.core.clock import stamp
from peira.core.contracts import Catalogue, RunQuery, Store
from peira.core.ids import short
from peira.core.log.events import State, Status
from peira.core.log.state import Run, Task
from peira.plan import diff as versions
from peira.plan.expansion import Plan
from peira.plan.manifest import Manifest, read
from peira.plan.trials import Baselines, Place

CHUNK = 500


class Readable(Store, Catalogue, Protocol):
    """A store that can be asked what is in it."""


class StoredCounts(msgspec.Struct, frozen=True):
    """How the planned trials stand in the store."""

    reused: int = 0
    failed: int = 0
    new: int = 0

    @property
    def total(self) -> int:
        return self.reused + self.failed + self.new


def stored_counts(plan: Plan, store: Readable | None) -> StoredCounts:
    """Count the planned trials that have a result, that failed before, and that are new."""
    if store is None or not store.runs(RunQuery(limit=1)):  # nothing was run there, so nothing is looked up
        return StoredCounts(new=len(plan))
    tasks = (task for _, _, task in recorded(plan, store, plan.layout.places()))
    counts = Counter(task.state if task else None for task in tasks)
    reused, failed = counts[State.succeeded], counts[State.failed]
    return StoredCounts(reused, failed, counts.total() - reused - failed)


def recorded(
    plan: Plan, store: Readable | None, places: Iterator[Place]
) -> Iterator[tuple[Place, str, Task | None]]:
    """Each of these places with its trial's id and row: its own, or else that of a trial that lends its
    result; None if there is neither."""
    layout, baselines = plan.layout, Baselines(plan.study.factors, plan.layout)
    while chunk := list(islice(places, CHUNK)):
        ids = [layout.trial_id(place) for place in chunk]
        rows = store.find("task", ids) if store else {}
        former = {id: baselines.former(place) for id, place in zip(ids, chunk, strict=True) if id not in rows}
        wanted = [one for formers in former.values() for one, _ in formers]
        lent = store.find("task", wanted) if store and wanted else {}
        for id, place in zip(ids, chunk, strict=True):
            yield place, id, rows.get(id) or _lender(former[id], lent)


def _lender(former: Iterable[tuple[str, str]], rows: Mapping[str, Task]) -> Task | None:
    """The first of the former identities that has a result to lend for what was added to it."""
    for id, added in former:
        row = rows.get(id)
        if row is not None and row.state is State.succeeded and row.lent in ("", added):
            return row
    return None


def last_manifest(study: str, store: Readable | None) -> Manifest | None:
    """The plan of the newest run of a study of this name."""
    runs = store.runs(RunQuery(study=study, limit=1)) if store else []
    return read(runs[0].manifest, store.get) if runs and store else None


def generation(study: str, store: Readable | None, fresh: bool) -> int:
    """The generation to run: the newest there is, or with `fresh` one beyond it."""
    last = last_manifest(study, store)
    return 0 if last is None else last.generation + fresh


def changes(plan: Plan, before: Manifest | None, store: Readable | None, new: int) -> list[str]:
    """Why trials are new, in plain words, by comparison with the study's newest run."""
    if store is None or not new:
        return []
    if before is None:
        return [f"{why}: {new} of {len(plan)} trials are new"] if (why := _renamed(plan, store)) else []
    share = f"{new} of {len(plan)} trials are new"
    old = versions.PlanVersion(before, store.get)
    found = list(versions.making_new(old, versions.version_of(plan)))
    if not found and len(plan) > len(old.layout):
        found = [f"more of the plan is asked for ({len(old.layout)} trials before)"]
    return [f"{what}: {share}" for what in found]


NEWEST = 20
"""The number of runs of other studies that are searched for a study's former name."""


def _renamed(plan: Plan, store: Readable) -> str:
    """The study with the same cases and factors and another agent that a new study was before; or ""."""
    now = versions.version_of(plan)
    agents = [part.label for part in now.manifest.agents]
    for run in store.runs(RunQuery(limit=NEWEST)):
        then = versions.PlanVersion(read(run.manifest, store.get), store.get)
        cases = {id: case.seen for (_, id), case in then.cases.items()}
        names = [one.name for one in then.factors]
        before = [part.label for part in then.manifest.agents]
        same = cases == {id: case.seen for (_, id), case in now.cases.items()}
        if same and before != agents and names == [one.name for one in now.factors]:
            return (
                f"agent {', '.join(agents)} is new ({run.study}, run {short(run.id)}, has the same cases and "
                f"the agent {', '.join(before)}; an agent with another name is another agent)"
            )
    return ""


MOST = 1_000


def frozen_plan(store: Readable | None, study: str, until: float = 0.0) -> Run | None:
    """The newest frozen plan of a study, or the newest that there was at a time."""
    kept = _frozen(store, study, until) if store else []
    return kept[0] if kept else None


def _frozen(store: Readable, study: str, until: float) -> list[Run]:
    return store.runs(RunQuery(study=study, status=Status.frozen, until=until, limit=MOST))


def frozen_plan_status(store: Readable, kept: Run, version: versions.PlanVersion) -> tuple[str, ...]:
    """How a plan stands to the frozen one, a line each; every result says so."""
    which = f"the plan frozen {moment(kept.planned)} ({short(kept.id)})"
    found = deviations(versions.PlanVersion(read(kept.manifest, store.get), store.get), version)
    said = [f"deviates from {which}: {one}" for one in found] or [f"as in {which}"]
    return (*said, *_history(store, kept))


def deviations(frozen: versions.PlanVersion, version: versions.PlanVersion) -> list[str]:
    """Every difference but those in what is only said about a study."""
    return [change.said for change in versions.compare(frozen, version) if change.part != "about"]


def _history(store: Readable, kept: Run) -> Iterator[str]:
    """What a reader must know before believing in it."""
    earlier = _frozen(store, kept.study, kept.planned)[1:]
    first = earlier[-1] if earlier else kept
    if earlier:
        yield f"the plan was amended {len(earlier)} x since it was first frozen {moment(first.planned)}"
    begun = store.runs(RunQuery(study=kept.study, until=first.planned, limit=MOST))
    if begun:
        yield f"the plan was frozen after {len(begun)} run{'s'[: len(begun) > 1]} of the study had begun"


def moment(at: float) -> str:
    """A time as it is told, in UTC."""
    return stamp(at)[:19].replace("T", " ")
