"""Before a run: what it would do, and what that would take. Nothing is run; only a frozen plan is kept."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from peira.analysis.results import Results
from peira.api.deciding import settled
from peira.api.designing import describe
from peira.api.estimating import estimate_of
from peira.api.freezing import freeze as keep_frozen
from peira.api.preflight import check_batches
from peira.api.running import WORKERS
from peira.api.stores import StoreLike, exists, reading
from peira.api.studies import StudyLike, plan_of
from peira.core.looks import Look
from peira.core.words import counted
from peira.engine.opening import spent_before
from peira.errors import Invalid
from peira.plan.estimate import Estimate
from peira.plan.expand import Plan
from peira.plan.frozen import frozen, standing
from peira.plan.history import found
from peira.plan.preview import Preview, preview
from peira.plan.version import version_of
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project

MOST_DESCRIBED = 2_000
"""Conditions up to which a plan says what constraints took from its design; `peira design` always does."""


def plan(
    study: StudyLike,
    *,
    store: StoreLike = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    earlier: Results | str | None = None,
    freeze: bool = False,
    note: str = "",
    amend: bool = False,
    batch: bool = False,
) -> Preview:
    """What a run would do: conditions, trials, what is reused and what is new, and why. Runs nothing.

    `where` may also name what an `earlier` run found, like score.match < 1 (see `run`).
    With `freeze` the plan is kept in the store, with a `note`: every later result of the study says how it
    deviates from it. A frozen plan is never written over; `amend` freezes another one beside it. With `batch`
    it is estimated for calls that are handed in as batches.
    """
    refuse_while_loading()
    if (note or amend) and not freeze:
        raise Invalid(f"{'note' if note else 'amend'}: is for a plan that is frozen; say freeze, too")
    project = Project.find()
    project.load_plugins()
    part: dict[str, Any] = {"where": where, "limit": limit, "fresh": fresh, "earlier": earlier}
    if freeze:
        keep_frozen(study, store, project, note=note, amend=amend, **part)
    with _looking(store, project) as opened:
        planned = plan_of(study, opened, project, **part)
        if batch:
            check_batches(planned, project, opened)
        counts, workers = found(planned, opened), project.parallel or WORKERS
        look = settled(planned, opened)
        spared = counts.new if look and look.answer else 0
        counts = replace(counts, new=counts.new - spared)
        expected = estimate_of(planned, opened, project, workers, counts=counts, batch=batch)
        before = spent_before(planned, opened, "") if opened else []
        seen = preview(planned, opened, counts, expected, before)
        kept = frozen(opened, planned.study.name)
        said = standing(opened, kept, version_of(planned)) if kept else ()
        notes = (*seen.notes, *_lost(planned), *said)
        return replace(seen, notes=notes, stop=_stops(planned, look), spared=spared)


def _stops(planned: Plan, look: Look | None) -> str:
    """When the run will end before its plan does."""
    if (stop := planned.study.stop) is None:
        return ""
    most = f"at most {counted(len(planned), 'trial')}"
    if look is not None and look.answer:
        return f"by its rule ({stop.rule}), which has its answer: {look}"
    return f"by its rule ({stop.rule}): {most}{f'; {look}' if look else ''}"


def _lost(planned: Plan) -> list[str]:
    """The properties that constraints took from the design."""
    if not planned.refusals or len(planned.layout.conditions) > MOST_DESCRIBED:
        return []
    parts = describe(planned.study).parts
    return [f"constraints: {line}" for part in parts for line in part.lost]


def estimate(
    study: StudyLike,
    *,
    store: StoreLike = None,
    parallel: int | None = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    assume: Mapping[str, Any] | None = None,
    batch: bool = False,
) -> Estimate:
    """What a run would take: calls, tokens, cost and time, each from low to high, and where that is from.

    From what earlier runs of the study took, else from the lengths of the prompts. `assume` says it better:
    `calls` and `seconds` of a trial, `input_tokens` and `output_tokens` of a call, the `model` that is asked.
    With `batch` calls are priced as providers price batches. What is not known is None, and never 0. Runs
    nothing.
    """
    refuse_while_loading()
    if parallel is not None and parallel < 1:
        raise Invalid(f"parallel: must be at least 1, not {parallel}")
    project = Project.find()
    project.load_plugins()
    workers = parallel or project.parallel or WORKERS
    with _looking(store, project) as opened:
        planned = plan_of(study, opened, project, where=where, limit=limit, fresh=fresh)
        if batch:
            check_batches(planned, project, opened)
        counts = found(planned, opened)
        return estimate_of(planned, opened, project, workers, assume=assume, counts=counts, batch=batch)


def _looking(store: StoreLike, project: Project) -> AbstractContextManager[Any]:
    """The store, to be looked at; None if there is none yet."""
    return reading(store, project) if exists(store, project) else nullcontext()
