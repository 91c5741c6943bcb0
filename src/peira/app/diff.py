"""`diff`: compare two studies, stored runs or frozen plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from peira.app.session import Session, SessionLike
from peira.app.store.runs import find_run, names_run
from peira.app.studies import StudyLike, plan_of
from peira.core.ids import short
from peira.core.log.events import State
from peira.errors import Unknown
from peira.plan.diff.changes import PlanVersion, version_of
from peira.plan.diff.reuse import Diff
from peira.plan.diff.reuse import diff as compare_versions
from peira.plan.expansion import Plan
from peira.plan.manifest import read
from peira.plan.trials import Layout
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.study import Study

CHUNK = 500


def diff(a: StudyLike, b: StudyLike, *, store: SessionLike = None) -> Diff:
    """What changed from `a` to `b`, and which trials are reused, run again (and why), or only rescored.

    Each is a study, its file, or the id of a stored run or frozen plan. Runs nothing.
    """
    refuse_while_loading()
    session = Session.find(store)
    session.project.load_plugins()
    with session.reading_if_any() as opened:
        one, other = (_side(study, opened, session.project) for study in (a, b))
        found = compare_versions(one.version, other.version, one.name, other.name)
        if opened is None or found.shared is None:
            return found
        return replace(found, recorded=_recorded(other.version.layout, opened))


@dataclass(frozen=True)
class _Side:
    """One of the two versions, with the name to show."""

    name: str
    version: PlanVersion


def _side(study: StudyLike, store: Any, project: Project) -> _Side:
    """A version; a stored plan is read from the store and needs none of the study's code."""
    if not names_run(study, store):
        return _Side(_name(study), version_of(plan_of(study, store, project)))
    if store is None:
        raise Unknown(f"no run {study!r}: there is no store")
    run = find_run(store, str(study))
    return _Side(f"{run.study} ({short(run.id)})", PlanVersion(read(run.manifest, store.get), store.get))


def _name(study: StudyLike) -> str:
    if isinstance(study, Plan):
        return study.study.name
    return study.name if isinstance(study, Study) else str(study)


def _recorded(layout: Layout, store: Any) -> int:
    """The number of trials that have an output of their own."""
    ids = [layout.trial_id(place) for place in layout.places()]
    return sum(_succeeded(store, ids[at : at + CHUNK]) for at in range(0, len(ids), CHUNK))


def _succeeded(store: Any, ids: Sequence[str]) -> int:
    return sum(task.state is State.succeeded for task in store.find("task", ids).values())
