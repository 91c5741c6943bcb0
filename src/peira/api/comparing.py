"""`diff`: two studies, stored runs or frozen plans, held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from peira.api.finding import find_run, is_run_id
from peira.api.stores import StoreLike, exists, reading
from peira.api.studies import StudyLike, plan_of
from peira.core.events import State
from peira.core.ids import short
from peira.errors import Unknown
from peira.plan.diff import Diff
from peira.plan.diff import diff as held_against
from peira.plan.expand import Plan
from peira.plan.layout import Layout
from peira.plan.manifest import read
from peira.plan.version import Version, version_of
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.study import Study

CHUNK = 500


def diff(a: StudyLike, b: StudyLike, *, store: StoreLike = None) -> Diff:
    """What changed from `a` to `b`, which trials can be reused, which must be run again and why, and which
    are only scored again.

    Each is a study, its file, or the id of a stored run or frozen plan. Runs nothing."""
    refuse_while_loading()
    project = Project.find()
    project.load_plugins()
    with reading(store, project) if exists(store, project) else nullcontext() as opened:
        one, other = (_side(said, opened, project) for said in (a, b))
        found = held_against(one.version, other.version, one.name, other.name)
        if opened is None or found.shared is None:
            return found
        return replace(found, recorded=_recorded(other.version.layout, opened))


@dataclass(frozen=True)
class _Side:
    name: str
    version: Version


def _side(said: StudyLike, store: Any, project: Project) -> _Side:
    """A stored plan is read as it is: none of its code is needed."""
    if not is_run_id(said):
        return _Side(_name(said), version_of(plan_of(said, store, project)))
    if store is None:
        raise Unknown(f"no run {said!r}: there is no store")
    run = find_run(store, str(said))
    return _Side(f"{run.study} ({short(run.id)})", Version(read(run.manifest, store.get), store.get))


def _name(said: StudyLike) -> str:
    if isinstance(said, Plan):
        return said.study.name
    return said.name if isinstance(said, Study) else str(said)


def _recorded(layout: Layout, store: Any) -> int:
    """How many of the trials have an output of their own."""
    ids = [layout.trial_id(place) for place in layout.places()]
    return sum(_succeeded(store, ids[at : at + CHUNK]) for at in range(0, len(ids), CHUNK))


def _succeeded(store: Any, ids: Sequence[str]) -> int:
    return sum(task.state is State.succeeded for task in store.find("task", ids).values())
