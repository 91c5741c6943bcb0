"""Executing a work plan: its run in a store, its workspaces, its end."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peira.app as app
from peira.app.models import by_model, models_of, problems_of
from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore, remove_work_folder, run_label, store_folder
from peira.app.work.base import BaseFiles, read_base
from peira.app.work.view import TAG, UnitView, WorkView
from peira.core.clock import SystemClock
from peira.core.codec import encode
from peira.core.context import trial_if_any
from peira.core.contracts import Op, Runner, RunQuery
from peira.core.ids import Json, compose, short
from peira.core.log.events import RunFinished, RunNoted, Status
from peira.engine.commands import service_of
from peira.engine.context import CallSettings, RunContext
from peira.engine.execution import Execution
from peira.engine.kinds import UNIT, UNIT_FUNCTION
from peira.engine.run import RunDriver
from peira.engine.run_start import RunDescription, open_run, planned_on
from peira.engine.work.attempt import GRACE, WorkBase, machine_problems
from peira.engine.work.monitor import WorkMonitor
from peira.engine.work.source import WorkSource
from peira.errors import Invalid, RefusedPlan
from peira.plan.expansion import Plan, expand
from peira.plan.manifest import keep
from peira.report.work_progress import work_display
from peira.runners.threads import ThreadRunner
from peira.sandbox.file_tree import ObjectFolder, changes_json
from peira.sandbox.process_tree import end, members
from peira.spec.limits import Budget, Policy
from peira.spec.modules import refuse_while_loading
from peira.spec.study import Study
from peira.spec.work.files import PlanLike, read_plan
from peira.spec.work.plan import WorkPlan


@dataclass(frozen=True)
class WorkOutcome:
    """How a work plan ended: its run, and its units by name.

    `exit_code` is 0 if all units succeeded, 130 if it was interrupted, else 1.
    """

    run_id: str
    status: Status
    units: Mapping[str, UnitView]
    exit_code: int = 0
    reason: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether every unit succeeded."""
        return all(one.state == "succeeded" for one in self.units.values())

    def __getitem__(self, name: str) -> UnitView:
        return self.units[name]

    def document(self) -> dict[str, Json]:
        """The outcome as JSON."""
        return {
            "run": self.run_id,
            "status": self.status.value,
            "units": {name: one.document() for name, one in self.units.items()},
        }


@dataclass(frozen=True)
class WorkOptions:
    """How a plan is executed; None and 0 mean as the plan says."""

    parallel: int | None = None
    fail_fast: bool | None = None
    base: str | None = None
    wait: float | None = 0.0
    progress: bool | None = None
    only: frozenset[str] = frozenset()
    """If given, only these units are executed; others are left out of the plan."""


def execute_plan(
    given: PlanLike,
    session: Session,
    options: WorkOptions,
    on_end: Callable[[WorkView, BaseFiles, ObjectFolder], None] | None = None,
) -> WorkOutcome:
    """Execute a plan to its end. A plan with problems is refused: Invalid, and a refused run in the store.

    `on_end` is called with the ended run while the store and the workspaces' contents are at hand.
    """
    session.project.load_plugins()
    changes = {"parallel": options.parallel, "fail_fast": options.fail_fast, "base": options.base}
    try:
        plan = read_plan(given, **changes)
        models = [model for one in plan.units for model in one.models.values()]
        problems = [*machine_problems(plan.units), *problems_of(session.project, models)]
        if problems:
            raise _refusal(plan.name, problems)
    except RefusedPlan as refused:
        with session.beside_streams(options.wait) as store:
            _record_refusal(refused, store)
        raise
    with session.beside_streams(options.wait) as store:
        folder = store_folder(store, "work") / f"objects-{uuid.uuid4().hex[:12]}"
        try:
            objects = ObjectFolder(folder, store.get)
            try:
                base = read_base(plan, objects, _left_out(plan, session))
            except Invalid as error:
                without_base = _refusal(plan.name, error.problems)
                _record_refusal(without_base, store)
                raise without_base from None
            return _executed(plan, base, objects, session, store, options, on_end)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _refusal(name: str, problems: Any) -> RefusedPlan:
    refused = RefusedPlan(problems)
    refused.name = name
    return refused


def _left_out(plan: WorkPlan, session: Session) -> list[Path]:
    """Files that are no part of a base: the plan itself, and the store."""
    own = [Path(plan.source)] if plan.source else []
    return [*own, *([session.store] if isinstance(session.store, Path) else [])]


def _nothing_planned(name: str) -> Plan:
    """The plan of a run that has no trials: a work plan has units."""
    fields = {"name": name, "agent": _no_agent, "version": "1", "cases": []}
    return expand(Study.assemble(fields, [], lenient=True))


def _no_agent(case: Any) -> None:
    """A work run has units, and no agent."""


def _record_refusal(refused: RefusedPlan, store: AnyStore) -> None:
    """Record a run that was refused, with every problem."""
    manifest = keep(_nothing_planned(refused.name), store.put, {})
    run = compose("run", manifest, uuid.uuid4().hex)
    planned = planned_on(manifest, 0, store, SystemClock().now(), RunDescription(tags=(TAG,)))
    notes = [RunNoted(problem) for problem in refused.problems]
    finished = RunFinished(Status.refused, reason="; ".join(refused.problems))
    store.commit([Op(run, (planned, *notes, finished))]).result()


def _executed(
    plan: WorkPlan,
    base: BaseFiles,
    objects: ObjectFolder,
    session: Session,
    store: AnyStore,
    options: WorkOptions,
    on_end: Callable[[WorkView, BaseFiles, ObjectFolder], None] | None,
) -> WorkOutcome:
    """Record the run, execute the units, and say how they ended."""
    if options.only:
        plan = plan.model_copy(update={"units": tuple(u for u in plan.units if u.name in options.only)})
    clock, number = SystemClock(), store.incarnation
    first = not store.runs(RunQuery(tag=TAG, limit=1))
    nothing = _nothing_planned(plan.name)
    declared = {
        **plan.written(),
        "folder": str(Path(plan.folder).absolute()),
        "source": str(Path(plan.source).absolute()) if plan.source else "",
        "files": changes_json(base.files),
        "commit": base.commit,
    }
    run = open_run(
        nothing,
        keep(nothing, store.put, {}),
        store,
        number,
        clock.now(),
        RunDescription(tags=(TAG,), stream=store.put(encode(declared))),
    )
    monitor = WorkMonitor()
    source = WorkSource(plan, WorkBase(base.files, base.digest, objects), store, run, monitor, first=first)
    policy = Policy(retries=plan.retries, fail_fast=plan.fail_fast, retry_failed=False)
    context = RunContext(
        run,
        str(number),
        store,
        policy,
        clock,
        work_root=store_folder(store, "work") / short(run),
        label=run_label(store, run),
    )
    budget = by_model(session.project, Budget(money=plan.money))
    execution = Execution(context, source, CallSettings(models=models_of(session.project), budget=budget))
    try:
        with work_display(plan.name, monitor, options.progress) as show:
            driver = RunDriver(
                execution,
                _runners(plan),
                commands=service_of(store, lambda: app.serve_commands),
                on_progress=show,
                on_notice=show.notice,
            )
            ended = driver.conduct()
    finally:
        if members(context.label):
            end(context.label, grace=GRACE)  # of attempts that were abandoned a moment ago
        remove_work_folder(context.work_root)
    view = WorkView(store, store.find("run", [run])[run])
    if on_end is not None:
        on_end(view, base, objects)
    code = 0 if view.succeeded else 130 if ended.status is Status.interrupted else 1
    return WorkOutcome(run, ended.status, view.units, code, ended.reason)


def _runners(plan: WorkPlan) -> dict[str, tuple[Runner, int]]:
    """Who executes commands and functions: one pool. Only functions alone are taken several at once."""
    commands = any(one.function is None for one in plan.units)
    runner: Runner = ThreadRunner(batch=1) if commands else ThreadRunner()
    return {UNIT: (runner, plan.parallel), UNIT_FUNCTION: (runner, plan.parallel)}


def fanout(
    plan: PlanLike,
    *,
    store: SessionLike = None,
    parallel: int | None = None,
    fail_fast: bool | None = None,
    base: str | None = None,
    progress: bool | None = None,
    wait: float | None = 0.0,
) -> WorkOutcome:
    """Execute a work plan: a file, a table, or units made with `unit`.

    Units that succeeded before from the same content are not executed again. Raises Invalid with every
    problem of the plan, and KeyboardInterrupt if it was interrupted.

    In an agent, the units are part of its trial, which waits for them without a worker: its code before this
    runs again when it goes on, with recorded steps and calls replayed. Of the arguments only `plan` is taken.
    """
    refuse_while_loading()
    if (trial := trial_if_any()) is not None:
        given = {"store": store, "parallel": parallel, "fail_fast": fail_fast, "base": base}
        if problems := [f"{name}: is that of the study" for name, value in given.items() if value]:
            raise Invalid(problems)
        units = app.units_in_trial(plan, trial)
        return WorkOutcome(trial.channel.run, Status.completed, units)  # type: ignore[attr-defined]
    options = WorkOptions(parallel, fail_fast, base, wait, progress)
    outcome = execute_plan(plan, Session.find(store), options)
    if outcome.status is Status.interrupted:
        raise KeyboardInterrupt("the work was interrupted; start it again to go on where it stopped")
    return outcome
