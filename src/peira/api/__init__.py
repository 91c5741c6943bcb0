"""The wiring: the only place that opens stores, and where rooms that do not know each other meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from peira.analysis.results import Results
from peira.api.comparing import diff
from peira.api.designing import describe
from peira.api.estimating import estimate_of
from peira.api.freezing import freeze as keep_frozen
from peira.api.look import Opened
from peira.api.rescoring import with_evaluators
from peira.api.running import WORKERS, Handle, Wishes, execute
from peira.api.stores import StoreLike, exists, reading
from peira.api.studies import StudyLike, plan_of
from peira.core.events import Status
from peira.engine.opening import spent_before
from peira.engine.trials import EVALUATE, GENERATE
from peira.errors import Invalid
from peira.plan.estimate import Estimate
from peira.plan.expand import Plan
from peira.plan.frozen import frozen, standing
from peira.plan.history import found
from peira.plan.preview import Preview, preview
from peira.plan.version import version_of
from peira.spec.limits import Policy
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
) -> Preview:
    """What a run would do: conditions, trials, what is reused and what is new, and why. Runs nothing.

    `where` may also name what an `earlier` run found, like score.match < 1 (see `run`).
    With `freeze` the plan is kept in the store, with a `note`: every later result of the study says how it
    deviates from it. A frozen plan is never written over; `amend` freezes another one beside it.
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
        counts, workers = found(planned, opened), project.parallel or WORKERS
        expected = estimate_of(planned, opened, project, workers, counts=counts)
        before = spent_before(planned, opened, "") if opened else []
        seen = preview(planned, opened, counts, expected, before)
        kept = frozen(opened, planned.study.name)
        said = standing(opened, kept, version_of(planned)) if kept else ()
        return replace(seen, notes=(*seen.notes, *_lost(planned), *said))


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
) -> Estimate:
    """What a run would take: calls, tokens, cost and time, each from low to high, and where that is from.

    From what earlier runs of the study took, else from the lengths of the prompts. `assume` says it better:
    `calls` and `seconds` of a trial, `input_tokens` and `output_tokens` of a call, the `model` that is asked.
    What is not known is None, and never 0. Runs nothing.
    """
    refuse_while_loading()
    if parallel is not None and parallel < 1:
        raise Invalid(f"parallel: must be at least 1, not {parallel}")
    project = Project.find()
    project.load_plugins()
    workers = parallel or project.parallel or WORKERS
    with _looking(store, project) as opened:
        planned = plan_of(study, opened, project, where=where, limit=limit, fresh=fresh)
        counts = found(planned, opened)
        return estimate_of(planned, opened, project, workers, assume=assume, counts=counts)


def _looking(store: StoreLike, project: Project) -> AbstractContextManager[Any]:
    """The store, to be looked at; None if there is none yet."""
    return reading(store, project) if exists(store, project) else nullcontext()


def run(
    study: StudyLike,
    *,
    store: StoreLike = None,
    parallel: int | None = None,
    runner: str | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    resources: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    log: str | Path | None = None,
    earlier: Results | str | None = None,
    batch: bool = False,
) -> Results:
    """Run a study through all its stages, and return its results.

    Resumes by itself: what is in the store is not done again. `runner` is "local" (threads, or an event
    loop for `async def`) or "process". `where` and `limit` run a part; `fresh` asks everything anew,
    beside what there is. `resources` are handed to agents and are no part of identity. A first Ctrl-C
    lets running trials finish, a second cancels them; either way KeyboardInterrupt follows, all recorded.
    `log` is a file to which each event is appended as it happens, as a line of JSON. With an `earlier` run
    (its results, or its id), `where` may name what that found for the same case and the same levels: the mean
    `score.NAME`, and the counts `earlier.trials` and `earlier.failed`. With `batch`, calls are handed in as
    batches: answered later, for half the price.
    """
    wishes = Wishes(
        store,
        parallel,
        runner,
        policy,
        where,
        limit,
        fresh,
        resources or {},
        progress,
        log=log,
        earlier=earlier,
        batch=batch,
    )
    return _run(study, wishes)


def generate(study: StudyLike, **wishes: Any) -> Results:
    """Only the outputs: `run` without evaluation. Takes what `run` takes."""
    return _run(study, Wishes(stages=(GENERATE,), **wishes))


def evaluate(study: StudyLike | Results, evaluators: Sequence[Any] | None = None, **wishes: Any) -> Results:
    """Only the scores of what has outputs; never calls the agent. Takes what `run` takes.

    With `evaluators`, a study or stored results are judged by those instead of the study's own.
    """
    refuse_while_loading()
    return _run(_judged_by(study, evaluators, wishes), Wishes(stages=(EVALUATE,), **wishes))


def _judged_by(
    study: StudyLike | Results, evaluators: Sequence[Any] | None, wishes: dict[str, Any]
) -> StudyLike:
    if isinstance(study, Results):
        wishes.setdefault("store", study.store)
        study = study.run_id
    return study if evaluators is None else with_evaluators(study, evaluators, wishes.get("store"))


def _run(study: StudyLike, wishes: Wishes) -> Results:
    refuse_while_loading()
    outcome = execute(study, wishes)
    if outcome.finished.status is Status.interrupted:
        raise KeyboardInterrupt("the run was interrupted; run it again to go on where it stopped")
    return outcome.results


def submit(study: StudyLike, **wishes: Any) -> Handle:
    """Start a run in the background and return at once. Takes what `run` takes, and `wait`."""
    refuse_while_loading()
    return Handle(study, Wishes(**wishes))


def open(store: StoreLike = None) -> Opened:
    """Look at stored work: `.runs()`, `.results(run)`, `.events(run, after=)`, `.calls(run=)`."""
    refuse_while_loading()
    return Opened(store)


__all__ = [
    "Handle",
    "Opened",
    "StudyLike",
    "diff",
    "estimate",
    "evaluate",
    "execute",
    "generate",
    "open",
    "plan",
    "run",
    "submit",
]
