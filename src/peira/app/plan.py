"""`plan` and `estimate`: what a run would do and cost. Nothing is run.

A plan can be frozen; a frozen plan is never overwritten.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from peira.analysis.results import Results
from peira.app.design import describe
from peira.app.preflight import agent_notes, budget_notes, check_batches, estimate_of
from peira.app.prior_results import recorded_look
from peira.app.run import WORKERS
from peira.app.session import Session, SessionLike
from peira.app.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.contracts import Op
from peira.core.ids import compose, short
from peira.core.log.events import RunFinished, Status
from peira.core.log.state import Run
from peira.core.looks import Look
from peira.core.text.words import counted
from peira.engine.run_start import planned_on, spent_before
from peira.errors import Invalid
from peira.plan.diff.changes import PlanVersion, version_of
from peira.plan.diff.history import deviations, frozen_plan, frozen_plan_status, moment, stored_counts
from peira.plan.estimate.value import RunEstimate
from peira.plan.expansion import Plan
from peira.plan.manifest import keep, read
from peira.plan.preview import Preview, preview
from peira.report.study_document import StudyDocument, study_document
from peira.spec.modules import refuse_while_loading
from peira.spec.project import parallel_problem
from peira.stores.memory import MemoryStore


def freeze_plan(
    study: StudyLike, session: Session, *, note: str = "", amend: bool = False, **part: Any
) -> str:
    """Record the plan of a study as frozen, durably; returns the id of the frozen plan.

    Freezing an equal plan changes nothing. A different one is refused unless it `amend`s the first: then both
    are kept, and every result reports it.
    """
    with session.owned() as opened:
        plan = plan_of(study, opened, session.project, **part)
        before = frozen_plan(opened, plan.study.name)
        if before is not None and _same(before, plan, opened):
            return before.id
        if before is not None and not amend:
            raise Invalid(_refusal(before))
        return _keep(plan, keep(plan, opened.put, store=opened), opened, note)


def _same(before: Run, plan: Plan, store: Any) -> bool:
    """Whether the plan does not deviate from the frozen one."""
    return not deviations(PlanVersion(read(before.manifest, store.get), store.get), version_of(plan))


def _refusal(before: Run) -> str:
    """The message that refuses another plan."""
    return (
        f"the plan of {before.study} is frozen since {moment(before.planned)} ({short(before.id)}), and this "
        "is another one: --amend keeps it beside that; `peira diff` says how they differ"
    )


def _keep(plan: Plan, manifest: str, store: Any, note: str) -> str:
    """Record the frozen plan as a run without trials."""
    planned = planned_on(manifest, len(plan), store, SystemClock().now())
    run = compose("frozen", manifest, uuid.uuid4().hex)
    store.commit([Op(run, (planned, RunFinished(Status.frozen, reason=note)))]).result()
    return run


MOST_DESCRIBED = 2_000
"""Plans up to this many conditions list what constraints took; `peira design` always does."""


def plan(
    study: StudyLike,
    *,
    store: SessionLike = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    earlier: Results | str | None = None,
    freeze: bool = False,
    note: str = "",
    amend: bool = False,
    batch: bool = False,
) -> Preview:
    """What a run would do: conditions, trials, what is reused, what is new and why. Runs nothing.

    `where` may also refer to findings of an `earlier` run, like score.match < 1 (see `run`). With `freeze`
    the plan is recorded in the store, with a `note`: every later result of the study reports its deviations
    from it. A frozen plan is never overwritten; `amend` freezes another one beside it. With `batch` it is
    estimated for calls that are made in batches.
    """
    refuse_while_loading()
    if (note or amend) and not freeze:
        raise Invalid(f"{'note' if note else 'amend'}: is for a plan that is frozen; say freeze, too")
    session = Session.find(store, study)
    project = session.project
    project.load_plugins()
    part: dict[str, Any] = {"where": where, "limit": limit, "fresh": fresh, "earlier": earlier}
    if freeze:
        freeze_plan(study, session, note=note, amend=amend, **part)
    with session.reading_if_any() as opened:
        planned = plan_of(study, opened, project, **part)
        if batch:
            check_batches(planned, project, opened)
        counts, workers = stored_counts(planned, opened), project.parallel or WORKERS
        look = recorded_look(planned, opened)
        spared = counts.new if look and look.answer else 0
        counts = msgspec.structs.replace(counts, new=counts.new - spared)
        expected = estimate_of(planned, opened, project, workers, counts=counts, batch=batch)
        before = spent_before(planned, opened, "") if opened else []
        previewed = preview(planned, opened, counts, expected, before)
        frozen = frozen_plan(opened, planned.study.name)
        status = frozen_plan_status(opened, frozen, version_of(planned)) if frozen else ()
        notes = (
            *previewed.notes,
            *budget_notes(planned, project),
            *_lost(planned),
            *_undecidable(planned),
            *agent_notes(planned, project),
            *status,
        )
        return replace(previewed, notes=notes, stop=_stops(planned, look), spared=spared)


def plan_document(
    study: StudyLike, *, store: SessionLike = None, where: str = "", limit: int | None = None
) -> StudyDocument:
    """The whole study as a document for people: every field, as it is resolved. Runs and writes nothing.

    `where` and `limit` are those of `plan`. Of a run, `peira export -o NAME.study.md` writes the same.
    """
    refuse_while_loading()
    session = Session.find(store, study)
    session.project.load_plugins()
    blobs = MemoryStore()
    with session.reading_if_any() as opened:
        planned = plan_of(study, opened, session.project, where=where, limit=limit)
        return study_document(read(keep(planned, blobs.put), blobs.get), blobs.get, session.project)


def _stops(planned: Plan, look: Look | None) -> str:
    """When the stopping rule will end the run, as text."""
    if (stop := planned.study.stop) is None:
        return ""
    most = f"at most {counted(len(planned), 'trial')}"
    if look is not None and look.answer:
        return f"by its rule ({stop.rule}), which has its answer: {look}"
    return f"by its rule ({stop.rule}): {most}{f'; {look}' if look else ''}"


def _undecidable(planned: Plan) -> list[str]:
    """The hypotheses that no result can decide, and why."""
    return [
        f"hypothesis {one.id} cannot be decided: {why}; name it in its levels"
        for one in planned.study.hypotheses
        if (why := one.missing_levels)
    ]


def _lost(planned: Plan) -> list[str]:
    """The properties that constraints took from the design."""
    if not planned.refusals or len(planned.layout.conditions) > MOST_DESCRIBED:
        return []
    parts = describe(planned.study).parts
    return [f"constraints: {line}" for part in parts for line in part.lost]


def estimate(
    study: StudyLike,
    *,
    store: SessionLike = None,
    parallel: int | None = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    assume: Mapping[str, Any] | None = None,
    batch: bool = False,
) -> RunEstimate:
    """What a run would take: ranges of calls, tokens, cost and time, and their sources. Runs nothing.

    Based on earlier runs of the study, otherwise on the lengths of the prompts. `assume` overrides that:
    `calls` and `seconds` of a trial, `input_tokens` and `output_tokens` of a call, the `model` that is
    called. With `batch`, calls have their batch prices. Unknown values are None, never 0.
    """
    refuse_while_loading()
    if problem := parallel_problem(parallel):
        raise Invalid(problem)
    session = Session.find(store, study)
    project = session.project
    project.load_plugins()
    workers = parallel or project.parallel or WORKERS
    with session.reading_if_any() as opened:
        planned = plan_of(study, opened, project, where=where, limit=limit, fresh=fresh)
        if batch:
            check_batches(planned, project, opened)
        counts = stored_counts(planned, opened)
        return estimate_of(planned, opened, project, workers, assume=assume, counts=counts, batch=batch)
