"""Judging stored work otherwise, without editing the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from peira.api.stores import StoreLike, exists, reading
from peira.api.studies import StudyLike, plan_of
from peira.plan.expand import Plan, evaluator_digest
from peira.spec.evaluators import as_evaluator
from peira.spec.project import Project
from peira.spec.transforms import as_transform


def judged_by(study: StudyLike, evaluators: Sequence[Any] | None, transform: Any, store: StoreLike) -> Plan:
    """The plan of a study or a stored run, with these evaluators, or this transform, in place of its own."""
    project = Project.find()
    if exists(store, project):
        with reading(store, project) as opened:
            plan = plan_of(study, opened, project, agents=False)
    else:
        plan = plan_of(study, None, project)
    if transform is not None:
        study = plan.study.model_copy(update={"transform": transform})
        plan = replace(plan, study=study, transform=as_transform(transform))
    if evaluators is None:
        return plan
    judges = tuple(map(as_evaluator, evaluators))
    given = {evaluator_digest(judge): judge for judge in judges}
    study = plan.study.model_copy(update={"evaluators": judges})
    return replace(plan, study=study, evaluators={**plan.evaluators, **given}, common=tuple(given))
