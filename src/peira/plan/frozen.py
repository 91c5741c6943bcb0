"""Frozen plans: what was decided before anything was seen, and how later runs stand to it.

A frozen plan is a run that was planned and closed in one stroke, and never started: it has a manifest, a
moment, and the status "frozen". The newest one that a run came after is the one it answers to.
"""

from __future__ import annotations

from collections.abc import Iterator

from peira.core.clock import stamp
from peira.core.contracts import RunQuery
from peira.core.events import Status
from peira.core.ids import short
from peira.core.state import Run
from peira.plan.changes import compare
from peira.plan.history import Readable
from peira.plan.manifest import read
from peira.plan.version import Version

MOST = 1_000


def frozen(store: Readable | None, study: str, until: float = 0.0) -> Run | None:
    """The newest frozen plan of a study, or the newest that there was at a time."""
    kept = _frozen(store, study, until) if store else []
    return kept[0] if kept else None


def _frozen(store: Readable, study: str, until: float) -> list[Run]:
    return store.runs(RunQuery(study=study, status=Status.frozen, until=until, limit=MOST))


def standing(store: Readable, kept: Run, version: Version) -> tuple[str, ...]:
    """How a plan stands to the frozen one, a line each; every result says so."""
    which = f"the plan frozen {moment(kept.planned)} ({short(kept.id)})"
    found = deviations(Version(read(kept.manifest, store.get), store.get), version)
    said = [f"deviates from {which}: {one}" for one in found] or [f"as in {which}"]
    return (*said, *_history(store, kept))


def deviations(frozen: Version, version: Version) -> list[str]:
    """Every difference but those in what is only said about a study."""
    return [change.said for change in compare(frozen, version) if change.part != "about"]


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
