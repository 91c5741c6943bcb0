"""What a store already holds of a plan: what is reused, what is new, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from peira.core.contracts import Catalogue, RunQuery, Store
from peira.core.events import State
from peira.core.state import Task
from peira.plan.baseline import Baselines
from peira.plan.changes import making_new
from peira.plan.expand import Plan
from peira.plan.layout import Place
from peira.plan.manifest import Manifest, read
from peira.plan.version import Version, version_of

CHUNK = 500


class Readable(Store, Catalogue, Protocol):
    """A store that can be asked what is in it."""


@dataclass(frozen=True)
class Found:
    """How the planned trials stand in the store."""

    reused: int = 0
    failed: int = 0
    new: int = 0

    @property
    def total(self) -> int:
        return self.reused + self.failed + self.new


def found(plan: Plan, store: Readable | None) -> Found:
    """Count the planned trials that have a result, that failed before, and that are new."""
    if store is None:
        return Found(new=len(plan))
    tasks = (task for _, _, task in recorded(plan, store, plan.layout.places()))
    counts = Counter(task.state if task else None for task in tasks)
    reused, failed = counts[State.succeeded], counts[State.failed]
    return Found(reused, failed, counts.total() - reused - failed)


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
    if before is None or store is None or not new:
        return []
    share = f"{new} of {len(plan)} trials are new"
    old = Version(before, store.get)
    found = list(making_new(old, version_of(plan)))
    if not found and len(plan) > len(old.layout):
        found = [f"more of the plan is asked for ({len(old.layout)} trials before)"]
    return [f"{what}: {share}" for what in found]
