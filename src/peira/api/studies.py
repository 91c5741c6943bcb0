"""Which study is meant: a Study, a file, or the id of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peira.api as rooms
from peira.analysis.results import Results
from peira.api.finding import find_run, is_run_id
from peira.api.stores import beside
from peira.core.ids import short
from peira.errors import Invalid, Unknown
from peira.plan.earlier import Earlier
from peira.plan.expand import Plan, expand
from peira.plan.history import generation
from peira.plan.manifest import read
from peira.plan.rebuild import rebuild
from peira.spec.load import load
from peira.spec.project import Project
from peira.spec.study import Study

StudyLike = Study | Plan | str | Path
"""A study, the file that holds one, the id of a stored run, or a plan made already."""


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
    """The plan of what is asked for, against what the store knows (None: nothing).

    `agents=False` does without the code of a stored run's agents, for scoring. `where` may name what the
    `earlier` run found."""
    if limit is not None and limit < 1:
        raise Invalid(f"limit: must be at least 1, not {limit}")
    if earlier is not None and not where:
        raise Invalid("earlier: say in `where` which trials are meant, like score.match < 1")
    if isinstance(study, Plan):
        return study
    past = _earlier(earlier, store)
    if is_run_id(study):
        if store is None:
            raise Unknown(f"no run {study!r}: there is no store")
        return _of_run(str(study), store, where, limit, fresh, agents, past)
    live = project.apply(study if isinstance(study, Study) else load(study))
    number = generation(live.name, store, fresh)
    return expand(live, generation=number, where=where, limit=limit, earlier=past)


def _earlier(said: Results | str | None, store: Any) -> Earlier | None:
    if said is None:
        return None
    if isinstance(said, str) and store is None:
        raise Unknown(f"no run {said!r}: there is no store")
    return rooms.earlier_of(find_run(store, said) if isinstance(said, str) else said, store)


def _of_run(
    prefix: str,
    store: Any,
    where: str,
    limit: int | None,
    fresh: bool,
    agents: bool,
    past: Earlier | None,
) -> Plan:
    """A stored run's plan; without further wishes, exactly that plan."""
    run = find_run(store, prefix)
    code = beside(store, "code") / short(run.manifest)
    plan = rebuild(read(run.manifest, store.get), store.get, code, agents=agents)
    if not (where or limit or fresh):
        return plan
    number = generation(plan.study.name, store, fresh) if fresh else plan.layout.generation
    past = past if where else _earlier(plan.earlier or None, store)
    return expand(
        plan.study, generation=number, where=where or plan.where, limit=limit or plan.limit, earlier=past
    )
