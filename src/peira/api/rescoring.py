"""Judging stored work by other evaluators, without editing the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from peira.api.stores import StoreLike, exists, reading
from peira.api.studies import StudyLike, plan_of
from peira.plan.expand import Plan, evaluator_digest
from peira.spec.evaluators import as_evaluator
from peira.spec.project import Project


def with_evaluators(study: StudyLike, evaluators: Sequence[Any], store: StoreLike) -> Plan:
    """The plan of a study or a stored run, with these evaluators in place of the study's own."""
    project = Project.find()
    if exists(store, project):
        with reading(store, project) as opened:
            plan = plan_of(study, opened, project, agents=False)
    else:
        plan = plan_of(study, None, project)
    given = {evaluator_digest(e): e for e in map(as_evaluator, evaluators)}
    return replace(plan, evaluators={**plan.evaluators, **given}, common=tuple(given))
