"""Judging stored work by other evaluators, without editing the study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peira.api.stores import StoreLike, reading
from peira.api.studies import is_run_id, plan_of
from peira.spec.evaluators import as_evaluator
from peira.spec.load import load
from peira.spec.project import Project
from peira.spec.study import Study


def with_evaluators(
    study: Study | str | Path, evaluators: Sequence[Any], store: StoreLike, wishes: dict[str, Any]
) -> Study:
    """The study with these evaluators in place of its own; a stored run's part of the plan is kept."""
    given = {"evaluators": tuple(map(as_evaluator, evaluators))}
    if not is_run_id(study):
        return (study if isinstance(study, Study) else load(study)).model_copy(update=given)
    project = Project.find()
    with reading(store, project) as opened:
        plan = plan_of(study, opened, project)
    wishes.setdefault("where", plan.where)
    wishes.setdefault("limit", plan.limit)
    return plan.study.model_copy(update=given)
