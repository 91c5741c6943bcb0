"""A work plan inside a trial: the trial waits for the units, which are tasks of the same run.

The units belong to the trial: no other trial shares what they made, so repeats are repeats. A trial that is
continued, after a wait or in a later run, finds the same units again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peira.app.work.base import BaseFiles, read_base
from peira.app.work.view import UnitView, unit_views
from peira.core.codec import decode
from peira.core.context import Trial
from peira.core.ids import canonical, compose, digest
from peira.engine.context import RunContext
from peira.engine.work.attempt import WorkBase, machine_problems
from peira.engine.work.record import unit_task
from peira.engine.work.source import WorkSource
from peira.errors import Invalid
from peira.sandbox.file_tree import ObjectFolder
from peira.spec.work.files import PlanLike, read_plan
from peira.spec.work.plan import WorkPlan

OF_RUNS = ("parallel", "retries", "fail_fast", "money")
"""Fields of a plan that are the study's own in a trial."""


def units_in_trial(given: PlanLike, trial: Trial) -> dict[str, UnitView]:
    """Execute a plan as part of a trial; raises Waiting until all of its units have ended."""
    context = getattr(trial.channel, "context", None)
    if not isinstance(context, RunContext):
        raise Invalid("fanout: works in agents that run in the process of the run (runner local)")
    plan = read_plan(given)
    problems = [
        f"{name}: is that of the study, for all its trials"
        for name in OF_RUNS
        if name in plan.model_fields_set
    ]
    if problems := [*problems, *machine_problems(plan.units)]:
        raise Invalid(problems)
    scope, tables = _scope(plan, trial), plan.written()["units"]
    _open(plan, scope, trial, context)
    while True:
        units = unit_views(context.store, scope, tables)
        open_units = [unit_task(scope, name) for name, one in units.items() if not one.ended]
        if not open_units:
            break
        trial.channel.await_tasks(open_units)  # returns only if they have all ended by now
    costs = [one.cost for one in units.values() if one.cost]
    if costs:
        trial.channel.report({"cost": sum(costs)}, {})
    return units


def _scope(plan: WorkPlan, trial: Trial) -> str:
    """What the tasks of these units belong to: the trial, the plan, and which of equal plans it is."""
    same = digest([plan.base, [[one.name, one.digest] for one in plan.units]])
    trial.ordinals[f"fanout {same}"] += 1
    return compose("work", trial.id, same, trial.ordinals[f"fanout {same}"])


def _open(plan: WorkPlan, scope: str, trial: Trial, context: RunContext) -> None:
    """Let the run have the units. Their base is read once for a trial, however often it goes on."""
    if scope in context.hosted:
        return
    objects = ObjectFolder(context.work_root / "objects", context.store.get)
    base = read_base(plan, objects, _store_files(context.store))
    key = compose("step", scope, "base")
    known = trial.channel.recall(key)
    if known is None:
        trial.channel.record(key, "base of a work plan", canonical(base.digest)).result()
    elif decode(known) != base.digest:
        raise Invalid("base: it has changed since this trial began, so its units cannot go on")
    context.hosted.open(scope, lambda: _source(plan, base, objects, context, scope, trial))


def _store_files(store: Any) -> list[Path]:
    """Where the store is: its files are no part of a base."""
    folder = store.folder("work")
    return [] if folder is None else [folder.with_name(folder.name.removesuffix(".work"))]


def _source(
    plan: WorkPlan, base: BaseFiles, objects: ObjectFolder, context: RunContext, scope: str, trial: Any
) -> WorkSource:
    files = WorkBase(base.files, base.digest, objects)
    return WorkSource(plan, files, context.store, scope, salt=f"{trial.id} {scope}")
