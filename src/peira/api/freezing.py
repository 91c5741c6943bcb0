"""Freezing a plan: it is kept in the store before anything is run, and never written over."""

from __future__ import annotations

import uuid
from typing import Any

from peira.api.stores import StoreLike, owned
from peira.api.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.contracts import Op
from peira.core.events import RunFinished, Status
from peira.core.ids import compose, short
from peira.core.state import Run
from peira.engine.opening import planned_on
from peira.errors import Invalid
from peira.plan.expand import Plan
from peira.plan.frozen import deviations, frozen, moment
from peira.plan.manifest import keep, read
from peira.plan.version import Version, version_of
from peira.spec.project import Project


def freeze(
    study: StudyLike, store: StoreLike, project: Project, *, note: str = "", amend: bool = False, **part: Any
) -> str:
    """Keep the plan of a study as its frozen one, durably; returns its id.

    Freezing a plan that does not deviate changes nothing. Another one is refused, unless it is to `amend` the
    first: both are kept, and every result says so."""
    with owned(store, project) as opened:
        plan = plan_of(study, opened, project, **part)
        before = frozen(opened, plan.study.name)
        if before is not None and _same(before, plan, opened):
            return before.id
        if before is not None and not amend:
            raise Invalid(_refusal(before))
        return _keep(plan, keep(plan, opened.put), opened, note)


def _same(before: Run, plan: Plan, store: Any) -> bool:
    return not deviations(Version(read(before.manifest, store.get), store.get), version_of(plan))


def _refusal(before: Run) -> str:
    return (
        f"the plan of {before.study} is frozen since {moment(before.planned)} ({short(before.id)}), and this "
        "is another one: --amend keeps it beside that; `peira diff` says how they differ"
    )


def _keep(plan: Plan, manifest: str, store: Any, note: str) -> str:
    planned = planned_on(manifest, len(plan), store, SystemClock().now())
    run = compose("frozen", manifest, uuid.uuid4().hex)
    store.commit([Op(run, (planned, RunFinished(Status.frozen, reason=note)))]).result()
    return run
