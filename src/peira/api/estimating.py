"""Estimates: what a run of a plan will take, what was expected of a run when it was opened, what it spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from peira.api.models import is_model, named
from peira.api.preflight import models_in
from peira.core.models import Named
from peira.plan.assumptions import assumptions
from peira.plan.estimate import Estimate
from peira.plan.estimating import STAGES, estimate
from peira.plan.expand import Plan
from peira.plan.experience import experience
from peira.plan.history import Found, Readable, found
from peira.plan.layout import Condition
from peira.plan.loads import Asked
from peira.plan.workload import workload
from peira.spec.project import Project


def estimate_of(
    plan: Plan,
    store: Readable | None,
    project: Project,
    parallel: int,
    *,
    assume: Mapping[str, Any] | None = None,
    stages: Sequence[str] = STAGES,
    counts: Found | None = None,
    batch: bool = False,
) -> Estimate:
    """What a run of the plan will take, from a bounded look at the store. Every trial is counted only if
    `counts` are given, or models are asked: what is paid for is worth the time."""
    said = assumptions(assume)
    known = experience(plan, store)
    work = workload(plan, store, counts)
    asked = replace(models_asked(plan, work.conditions, project, said.model), batch=batch)
    if counts is None and (asked or known.asks):
        sure: dict[str, Any] = {"counts": found(plan, store), "batch": batch}
        return estimate_of(plan, store, project, parallel, assume=assume, stages=stages, **sure)
    return estimate(plan, work, known, asked, parallel, said, stages)


def models_asked(
    plan: Plan, conditions: Mapping[str, Condition], project: Project, model: str | None = None
) -> Asked:
    """The models that are known to be asked under these conditions and by each evaluator; `model`, if it is
    given, under every condition instead."""
    make = cache(lambda name: named(project, name))
    is_name = cache(lambda value: is_model(project, value))
    written = cache(lambda agent: _written(plan, agent, project))

    def under(condition: Condition) -> Iterable[str]:
        if model:
            return [model]
        levels = [value for value in condition.factors.values() if isinstance(value, str) and is_name(value)]
        return dict.fromkeys([*levels, *written(condition.agent)])

    def by(evaluator: object) -> list[Named]:
        return [make(name) for name in getattr(evaluator, "models", ()) if is_name(name)]

    return Asked(
        {key: [make(name) for name in under(condition)] for key, condition in conditions.items()},
        {digest: by(evaluator) for digest, evaluator in plan.evaluators.items()},
    )


def _written(plan: Plan, agent: str, project: Project) -> list[str]:
    """The models that are written out in an agent's own code."""
    bare = Condition(agent, "", {}, "")
    return models_in(replace(plan, evaluators={}, layout=replace(plan.layout, conditions=[bare])), project)
