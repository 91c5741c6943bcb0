"""Which study is meant: a Study, a file, or the id of a stored run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import peira.api as rooms
from peira.analysis.results import Results
from peira.api.stores import beside
from peira.core.contracts import RunQuery
from peira.core.ids import resolve, short
from peira.core.registry import nearest
from peira.core.state import Run
from peira.errors import Invalid, Unknown
from peira.plan.earlier import Earlier
from peira.plan.expand import Plan, expand
from peira.plan.history import generation
from peira.plan.manifest import read
from peira.plan.rebuild import rebuild
from peira.spec.load import load
from peira.spec.project import Project
from peira.spec.study import Study

MOST_RUNS = 10_000
RUN_ID = re.compile(r"[0-9a-f]{4,64}(@[\w.-]+)?")


def is_run_id(text: object) -> bool:
    return isinstance(text, str) and RUN_ID.fullmatch(text) is not None


def find_run(store: Any, prefix: str) -> Run:
    """The run whose id starts so; with @NAME after it, the newest evaluation of that name of its study."""
    if not is_run_id(prefix):
        raise Unknown(f"{prefix!r} is not a run id: use four or more of its digits (see `peira runs`)")
    prefix, _, name = prefix.partition("@")
    runs = {run.id: run for run in store.runs(RunQuery(prefix=prefix, limit=10))}
    found: Run = runs[resolve(prefix, runs, "run")]
    return _evaluation(store, found, name) if name else found


def _evaluation(store: Any, run: Run, name: str) -> Run:
    runs = store.runs(RunQuery(study=run.study, limit=MOST_RUNS))
    named = [one for one in runs if one.evaluation and one.generation == run.generation]
    found: list[Run] = [one for one in named if one.evaluation == name]
    if not found:
        raise Unknown(
            f"no evaluation {name!r} of {run.study}{nearest(name, {one.evaluation for one in named})}"
        )
    return found[0]


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
