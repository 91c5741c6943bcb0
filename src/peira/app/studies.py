"""From a study, a file or a run id to a plan; also with other evaluators or another transform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import peira.app as app
from peira.analysis.results import Results
from peira.app.session import Session, SessionLike
from peira.app.store.access import store_folder
from peira.app.store.runs import find_run, is_run_id, names_run
from peira.core.ids import short
from peira.errors import Invalid, Unknown
from peira.plan.diff.history import generation
from peira.plan.expansion import Plan, evaluator_digest, expand
from peira.plan.manifest import read
from peira.plan.rebuild import rebuild
from peira.plan.subset import EarlierRun
from peira.spec.plugins import as_evaluator, as_transform
from peira.spec.project import Project
from peira.spec.study import Study
from peira.spec.study_files import load

StudyLike = Study | Plan | str | Path
"""A study, the file that defines one, the id or name of a stored run, or a plan."""


def plan_of(
    study: StudyLike,
    store: Any,
    project: Project,
    *,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    agents: bool = True,
    earlier: Results | str | None = None,
) -> Plan:
    """The plan of a study, given what the store has (None: there is no store).

    With `agents=False` the code of a stored run's agents is not loaded; scoring does not need it. `where` may
    refer to findings of the `earlier` run. `fresh` starts a new generation of the study. Raises Invalid with
    all problems, Unknown if a run id is given and is not in the store.
    """
    if limit is not None and limit < 1:
        raise Invalid(f"limit: must be at least 1, not {limit}")
    if earlier is not None and not where:
        raise Invalid("earlier: say in `where` which trials are meant, like score.match < 1")
    if isinstance(study, Plan):
        return study
    past = None if earlier is None else _earlier(earlier, store)
    if store is None and is_run_id(study):
        raise Unknown(f"no run {study!r}: there is no store")
    if names_run(study, store):
        return _of_run(str(study), store, where, limit, fresh, agents, past)
    live = project.apply(study if isinstance(study, Study) else load(study))
    number = generation(live.name, store, fresh)
    return expand(live, generation=number, where=where, limit=limit, earlier=past)


def _earlier(run: Results | str, store: Any) -> EarlierRun:
    """The outcomes of the earlier run, given by results or by id."""
    if isinstance(run, str) and store is None:
        raise Unknown(f"no run {run!r}: there is no store")
    return app.earlier_of(find_run(store, run) if isinstance(run, str) else run, store)


def _of_run(
    prefix: str,
    store: Any,
    where: str,
    limit: int | None,
    fresh: bool,
    agents: bool,
    past: EarlierRun | None,
) -> Plan:
    """The plan of a stored run; with where, limit or fresh, a new plan of its study."""
    run = find_run(store, prefix)
    code = store_folder(store, "code") / short(run.manifest)
    plan = rebuild(read(run.manifest, store.get), store.get, code, agents=agents)
    if not (where or limit or fresh):
        return plan
    number = generation(plan.study.name, store, fresh) if fresh else plan.layout.generation
    past = past if where or not plan.earlier else _earlier(plan.earlier, store)
    return expand(
        plan.study, generation=number, where=where or plan.where, limit=limit or plan.limit, earlier=past
    )


def judged_by(study: StudyLike, evaluators: Sequence[Any] | None, transform: Any, store: SessionLike) -> Plan:
    """The plan of a study or stored run, with these evaluators or this transform instead of its own."""
    session = Session.find(store)
    with session.reading_if_any() as opened:
        plan = plan_of(study, opened, session.project, agents=opened is None)
    if transform is not None:
        study = plan.study.model_copy(update={"transform": transform})
        plan = replace(plan, study=study, transform=as_transform(transform))
    if evaluators is None:
        return plan
    judges = tuple(map(as_evaluator, evaluators))
    given = {evaluator_digest(judge): judge for judge in judges}
    study = plan.study.model_copy(update={"evaluators": judges})
    return replace(plan, study=study, evaluators={**plan.evaluators, **given}, common=tuple(given))
