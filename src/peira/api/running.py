"""Running a study: store, plan, runners and engine brought together, and taken apart again."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peira.api as rooms
import peira.report.telemetry as telemetry
from peira.analysis.results import Results
from peira.api.estimating import estimate_of
from peira.api.finding import is_run_id
from peira.api.models import by_model, models_of
from peira.api.preflight import check_models
from peira.api.results import results_of
from peira.api.stores import AnyStore, StoreLike, beside, exists, incarnation, label, locate, owned
from peira.api.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.contracts import Runner
from peira.core.registry import nearest, registry
from peira.engine.conduct import Conductor, Finished
from peira.engine.control import ControlFolder
from peira.engine.execution import Execution
from peira.engine.log import Log
from peira.engine.log import problems_of as log_problems
from peira.engine.opening import open_run, recorded_before, spent_before
from peira.engine.progress import Progress
from peira.engine.stopping import Stop
from peira.engine.trials import StudySource, class_of
from peira.engine.work import EVALUATE, GENERATE, STAGES, TRANSFORM
from peira.errors import Invalid
from peira.plan.expand import Plan
from peira.plan.manifest import keep, read
from peira.report.live import display
from peira.spec.limits import Policy
from peira.spec.modules import reference
from peira.spec.project import Project
from peira.spec.study import Study
from peira.stores.sqlite import SqliteStore

RUNNERS = ("local", "process")
WORKERS = 8
NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Wishes:
    """How a study is to be run; what is left out comes from the project file, or is the default."""

    store: StoreLike = None
    parallel: int | None = None
    runner: str | None = None
    policy: Policy | Mapping[str, Any] | None = None
    where: str = ""
    limit: int | None = None
    fresh: bool = False
    resources: Mapping[str, Any] = field(default_factory=dict)
    progress: bool | None = None
    wait: float | None = 0.0
    stages: Sequence[str] = STAGES
    log: str | Path | None = None
    batch: bool = False
    earlier: Results | str | None = None
    evaluation: str = ""
    whole: bool = False

    def problems(self) -> list[str]:
        found = []
        if self.parallel is not None and self.parallel < 1:
            found.append(f"parallel: must be at least 1, not {self.parallel}")
        if self.runner is not None and self.runner not in RUNNERS:
            found.append(f"runner: {self.runner!r} is not known{nearest(self.runner, RUNNERS)}")
        if self.runner == "process" and self.resources:
            found.append("resources: cannot be handed to other processes; use runner='local'")
        if self.evaluation and not NAME.fullmatch(self.evaluation):
            found.append(f"name: {self.evaluation!r} does not name an evaluation: letters, digits, . - and _")
        if isinstance(self.policy, Mapping):
            found += policy_problems(self.policy)
        if self.log is not None:
            found += log_problems(self.log)
        return found


def policy_problems(said: Mapping[str, Any]) -> list[str]:
    try:
        Policy(**said)
    except Invalid as problem:
        return [f"policy.{line}" for line in problem.problems]
    return []


@dataclass(frozen=True)
class Outcome:
    """A run that ended: its results and how it ended."""

    results: Results
    finished: Finished


Begun = Callable[[str, Execution], None]


def execute(study: StudyLike, wishes: Wishes, begun: Begun | None = None) -> Outcome:
    """Run a study to its end. `begun` is told the run's id once it is durable."""
    if problems := wishes.problems():
        raise Invalid(problems)
    project = Project.find()
    project.load_plugins()
    where = locate(wishes.store, project)
    select: dict[str, Any] = {
        "where": wishes.where,
        "limit": wishes.limit,
        "fresh": wishes.fresh,
        "earlier": wishes.earlier,
        "agents": GENERATE in wishes.stages,
    }
    # Where there is no store yet, the plan comes first: what is refused makes none.
    planned = None if exists(where, project) else plan_of(study, None, project, **select)
    if planned is not None:
        check_models(planned, project, None, wishes.stages, wishes.batch)
        if (wishes.runner or project.runner) == "process":
            registry.make(
                "runner", "process", agents=_places(planned), label=""
            )  # refuses what cannot travel
    watched = telemetry.telling(True) if project.telemetry == "otel" else nullcontext()
    with watched, owned(where, project, wishes.wait, _compression(study)) as store:
        plan = planned or plan_of(study, store, project, **select)
        if planned is None:
            check_models(plan, project, store, wishes.stages, wishes.batch)
        resumes = str(study) if is_run_id(study) else ""
        with nullcontext() if wishes.log is None else Log(wishes.log) as log:
            run, finished = _conduct(plan, store, project, wishes, begun, resumes, log)
        results = results_of(where, store, run)
    return Outcome(results, finished)


def _compression(study: StudyLike) -> str:
    return study.storage.compression if isinstance(study, Study) else "zstd"


def _conduct(
    plan: Plan,
    store: AnyStore,
    project: Project,
    wishes: Wishes,
    begun: Begun | None,
    resumes: str,
    log: Log | None,
) -> tuple[str, Finished]:
    workers = wishes.parallel or project.parallel or WORKERS
    runners = _runners(plan, store, wishes.runner or project.runner, workers)
    policy = _policy(plan.study, wishes)
    clock, number = SystemClock(), incarnation(store)
    control = ControlFolder(store.control_path) if isinstance(store, SqliteStore) else None
    if control:
        control.clear()
    work_root = beside(store, "work")
    shutil.rmtree(work_root, ignore_errors=True)
    manifest = keep(plan, store.put, _otherwise(policy, plan.study.policy))
    every = len(wishes.stages) == len(STAGES)
    stops = every and plan.study.stop is not None and not wishes.whole
    recorded = recorded_before(manifest, plan.study.name, store) if every and not stops else {}
    how: dict[str, Any] = {"stages": wishes.stages, "batch": wishes.batch}
    expected = None if recorded else estimate_of(plan, store, project, workers, **how)
    run = open_run(
        plan, manifest, store, str(number), number, clock.now(), resumes, expected, wishes.evaluation
    )
    own = StudySource(plan, store, wishes.stages, wishes.resources, done=bool(recorded))
    source = rooms.allocated(plan, read(manifest, store.get), own, store) if stops else own
    execution = Execution(
        run,
        source,
        store,
        policy,
        owner=str(number),
        work_root=work_root,
        inline=plan.study.storage.inline,
        models=models_of(project),
        batch=wishes.batch,
        budget=by_model(project, plan.study.budget),
        before=spent_before(plan, store, run),
        recorded=recorded,
        clock=clock,
    )
    if log:
        log.follow(store, run)
    if begun:
        begun(run, execution)
    try:
        with display(plan.study.name, _shown(wishes.progress, project)) as show:
            conductor = Conductor(
                execution,
                runners,
                control=control,
                time_limit=plan.study.budget.time,
                on_progress=show,
                on_notice=show.notice,
            )
            return run, conductor.conduct()
    finally:
        shutil.rmtree(work_root, ignore_errors=True)


def _shown(wanted: bool | None, project: Project) -> bool | None:
    return False if wanted is None and project.progress == "none" else wanted


def _policy(study: Study, wishes: Wishes) -> Policy:
    """The study's policy, with what the caller says instead."""
    if wishes.policy is None:
        return study.policy
    said = (
        wishes.policy if isinstance(wishes.policy, Mapping) else wishes.policy.model_dump(exclude_unset=True)
    )
    return Policy(**{**study.policy.model_dump(exclude_unset=True), **said})


def _otherwise(policy: Policy, own: Policy) -> dict[str, Any]:
    """What a policy says otherwise than the study's own."""
    return {key: value for key, value in policy.model_dump().items() if value != getattr(own, key)}


def _runners(plan: Plan, store: AnyStore, name: str, workers: int) -> dict[str, tuple[Runner, int]]:
    """Who executes each class of work. Evaluators run here, whatever the agents run in."""
    awaiting = all(agent.asynchronous for agent in plan.agents.values())
    subject: Runner
    if name == "process":
        mark = label(store, incarnation(store))
        subject = registry.make("runner", name, agents=_places(plan), label=mark)
    else:
        subject = _local(awaiting)
    runners: dict[str, tuple[Runner, int]] = {class_of(GENERATE, awaiting): (subject, workers)}
    if plan.transform is not None:
        runners[TRANSFORM] = (_local(False), workers)
    for asynchronous in sorted({e.asynchronous for e in plan.evaluators.values()}):
        runners[class_of(EVALUATE, asynchronous)] = (_local(asynchronous), workers)
    return runners


def _places(plan: Plan) -> dict[str, str | None]:
    """Where each agent's code is, for other processes."""
    return {agent: reference(plan.study.agents[agent]) for agent in plan.agents}


def _local(asynchronous: bool) -> Runner:
    """In this process: an event loop for what awaits, threads for what blocks."""
    runner: Runner = registry.make("runner", "loop" if asynchronous else "threads")
    return runner


class Handle:
    """A run under way in the background of this process."""

    def __init__(self, study: StudyLike, wishes: Wishes) -> None:
        self._began = threading.Event()
        self._over = threading.Event()
        self._outcome: Outcome | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(
            target=self._serve, args=(study, wishes), name="peira-run", daemon=True
        )
        self._thread.start()
        self._began.wait()
        if self._problem is not None:
            raise self._problem

    def _serve(self, study: StudyLike, wishes: Wishes) -> None:
        try:
            self._outcome = execute(study, wishes, self._begin)
        except BaseException as problem:  # handed to whoever waits
            self._problem = problem
        finally:
            self._over.set()
            self._began.set()

    def _begin(self, run: str, execution: Execution) -> None:
        self.run_id, self._execution = run, execution
        self._began.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is over, waiting at most so long; 0 only looks."""
        return self._over.wait(timeout)

    def progress(self) -> Progress:
        return self._execution.progress()

    def cancel(self) -> bool:
        """Stop now, running trials too; returns once that is done. False if it was over already."""
        if self._over.is_set():
            return False
        self._execution.request(Stop.cancelled("its handle"))
        self._over.wait()
        return True

    def result(self, timeout: float | None = None) -> Results:
        """The results, once it is over; TimeoutError if that takes longer. Raises what the run raised."""
        if not self._over.wait(timeout):
            raise TimeoutError(f"run {self.run_id[:12]} is not over after {timeout} s")
        if self._problem is not None:
            raise self._problem
        assert self._outcome is not None
        return self._outcome.results
