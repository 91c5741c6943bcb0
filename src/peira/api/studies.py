"""Which study is meant: a Study, a file, or the id of a stored run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from peira.api.stores import beside
from peira.core.contracts import RunQuery
from peira.core.ids import resolve, short
from peira.core.state import Run
from peira.errors import Invalid, Unknown
from peira.plan.expand import Plan, expand
from peira.plan.history import generation
from peira.plan.manifest import read
from peira.plan.rebuild import rebuild
from peira.spec.load import load
from peira.spec.project import Project
from peira.spec.study import Study

RUN_ID = re.compile(r"[0-9a-f]{4,64}")


def is_run_id(text: object) -> bool:
    return isinstance(text, str) and RUN_ID.fullmatch(text) is not None


def find_run(store: Any, prefix: str) -> Run:
    """The run whose id starts so."""
    if not is_run_id(prefix):
        raise Unknown(f"{prefix!r} is not a run id: use four or more of its digits (see `peira runs`)")
    runs = {run.id: run for run in store.runs(RunQuery(prefix=prefix, limit=10))}
    found: Run = runs[resolve(prefix, runs, "run")]
    return found


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
) -> Plan:
    """The plan of what is asked for, against what the store knows (None: nothing).

    `agents=False` does without the code of a stored run's agents, for scoring."""
    if limit is not None and limit < 1:
        raise Invalid(f"limit: must be at least 1, not {limit}")
    if isinstance(study, Plan):
        return study
    if is_run_id(study):
        if store is None:
            raise Unknown(f"no run {study!r}: there is no store")
        return _of_run(str(study), store, where, limit, fresh, agents)
    live = project.apply(study if isinstance(study, Study) else load(study))
    return expand(live, generation=generation(live.name, store, fresh), where=where, limit=limit)


def _of_run(prefix: str, store: Any, where: str, limit: int | None, fresh: bool, agents: bool) -> Plan:
    """A stored run's plan; without further wishes, exactly that plan."""
    run = find_run(store, prefix)
    code = beside(store, "code") / short(run.manifest)
    plan = rebuild(read(run.manifest, store.get), store.get, code, agents=agents)
    if not (where or limit or fresh):
        return plan
    number = generation(plan.study.name, store, fresh) if fresh else plan.layout.generation
    return expand(plan.study, generation=number, where=where or plan.where, limit=limit or plan.limit)
