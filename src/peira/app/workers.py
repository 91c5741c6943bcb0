"""Workers: processes on any machine that execute the runs of a shared store together.

A run is submitted (`submit_shared`): its plan is recorded, and its trials are handed out to whoever works.
`work` is one worker: it rebuilds the study from the recorded plan, so it needs none of the user's files.
"""

from __future__ import annotations

import platform
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec.structs import replace

import peira.app as app
import peira.sandbox as sandbox
from peira.app.models import by_model, models_of
from peira.app.preflight import check_models
from peira.app.ray_workers import RayWorkers
from peira.app.run import (
    RAY,
    WORKERS,
    BegunRun,
    OnBegin,
    RunOptions,
    RunOutcome,
    changed_fields,
    policy_of,
    runners_of,
)
from peira.app.session import Session
from peira.app.store.access import AnyStore, environment_of, label, scheme_of, shared, store_folder
from peira.app.store.follower import Follower
from peira.app.store.results import results_of
from peira.app.store.runs import find_run, names_run, refuse_taken
from peira.app.studies import StudyLike, plan_of
from peira.core.clock import Clock, ShiftedClock, SystemClock
from peira.core.codec import encode
from peira.core.contracts import Op
from peira.core.failpoints import reach
from peira.core.ids import compose, short
from peira.core.log.events import RunStarted, Status
from peira.core.log.state import Run
from peira.engine.commands import service_of
from peira.engine.context import CallSettings, RunContext
from peira.engine.execution import Execution
from peira.engine.run import RunEnd
from peira.engine.run_start import RunDescription, planned_on, spent_before
from peira.engine.sources.adaptive import AdaptiveSource, StoppingEvidence
from peira.engine.sources.study import StudySource
from peira.engine.stages import GENERATE, STAGES
from peira.engine.workers.arbiter import Arbiter
from peira.engine.workers.closing import end_of, is_over
from peira.engine.workers.membership import renewed
from peira.engine.workers.ranges import RangeSource
from peira.engine.workers.worker import COMMANDS, DUTY, WorkerDriver
from peira.errors import Invalid
from peira.plan.expansion import Plan
from peira.plan.manifest import keep, read
from peira.plan.provenance import installed, read_provenance
from peira.plan.stopping import stop_question
from peira.report.progress import display
from peira.spec.limits import Policy, Storage
from peira.spec.project import Project
from peira.stores.sharing import ListsSharedRuns, SharedRun, SharedStore, SharingScheme

LEASE = 30.0
"""Seconds after which a worker that was not heard of is dead."""
REST = 0.5
"""Seconds between two looks for a run to work on."""
POLL = 0.2
"""Seconds between two looks of who watches a run."""
MOST_SHOWN = 10
"""Different packages that a refusal names."""


class SharedOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the workers of a shared run execute it."""

    stages: tuple[str, ...] = STAGES
    runner: str = ""
    parallel: int = 0
    rule: bool = False
    """The study's stopping rule is asked while it is executed."""
    wait_for_people: bool = False
    decided: bool = False
    """Its answer was recorded before: only trials that led to it are looked at again."""


_read_options = msgspec.json.Decoder(SharedOptions).decode


def sharing_problems(options: RunOptions) -> list[str]:
    """What workers cannot do, one line each."""
    found = []
    if options.workers is not None and options.workers < 0:
        found.append(f"workers: must be 0 or more, not {options.workers}")
    if options.batch:
        found.append("workers: calls in batches are made by one process; leave out --batch or --workers")
    if options.resources:
        found.append("resources: cannot be handed to other processes")
    return found


def submit_shared(study: StudyLike, options: RunOptions, session: Session) -> str:
    """Record a run that workers are to execute; returns its id. Invalid before anything is written."""
    project = session.project
    project.load_plugins()
    if problems := [*options.problems(), *sharing_problems(options)]:
        raise Invalid(problems)
    with session.reading_if_any() as store:
        if store is not None and options.name:
            refuse_taken(options.name, store)
        plan = plan_of(
            study,
            store,
            project,
            where=options.where,
            limit=options.limit,
            fresh=options.fresh,
            earlier=options.earlier,
            agents=GENERATE in options.stages,
        )
        check_models(plan, project, store, options.stages, options.batch)
        resumes = find_run(store, str(study)).id if names_run(study, store) else ""
    with shared(session.store, project, LEASE, options.wait) as opened:
        return _record(plan, opened, options, resumes)


def _record(plan: Plan, store: SharedStore, options: RunOptions, resumes: str) -> str:
    """Store the plan and open the run, durably."""
    if plan.study.storage != Storage():
        app.apply_storage(store, plan.study.storage)
    policy = policy_of(plan.study, options)
    changed = {} if options.policy is None else changed_fields(policy, plan.study.policy)
    manifest = keep(plan, store.put, changed, store)
    run = compose("run", manifest, uuid.uuid4().hex)
    about = RunDescription(
        resumes, evaluation=options.evaluation, name=options.name, tags=tuple(options.tags)
    )
    planned = planned_on(manifest, len(plan), store, SystemClock().now(), about)
    rule = len(options.stages) == len(STAGES) and plan.study.stop is not None and not options.whole
    answer = app.recorded_answer(plan, read(manifest, store.get), store) if rule else None
    how = SharedOptions(
        tuple(options.stages),
        options.runner or "",
        options.parallel or 0,
        rule=rule and answer is None,
        wait_for_people=options.wait_for_people,
        decided=answer is not None,
    )
    store.sharing.share(run, len(plan) if answer is None else answer.trials, encode(how))
    events = (planned, *(answer.evidence.news() if answer else ()))
    store.commit([Op(run, (event,)) for event in events]).result()
    reach("shared.after_submit")
    return run


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker works: trials at once, and which differences from the submitting machine it accepts.

    It does only these `classes` of work: it executes agents (generate), transforms outputs, or scores them
    (evaluate).
    """

    parallel: int | None = None
    classes: tuple[str, ...] = STAGES
    runner: str | None = None
    allow_different: bool = False
    stay: bool = False
    run: str = ""
    lease: float = LEASE
    wait: float | None = 0.0
    clock: Clock = field(default_factory=SystemClock)

    def problems(self) -> list[str]:
        """What is wrong with these options, one line each."""
        found = [
            f"classes: there is no class {name!r}; the classes are {', '.join(STAGES)}"
            for name in self.classes
            if name not in STAGES
        ]
        return found if self.classes else ["classes: name at least one"]


def work(
    session: Session,
    options: WorkerOptions,
    on_begin: Callable[[Run], None] | None = None,
    on_end: Callable[[Run, RunEnd], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> RunEnd | None:
    """Work on the shared runs of a store, oldest first, until none is left; the end of the last one.

    With `stay`, wait for further runs; with `run`, work on this one only. Ends early if it is interrupted.
    """
    if problems := options.problems():
        raise Invalid(problems)
    session.project.load_plugins()
    ended: RunEnd | None = None
    refused: set[str] = set()
    with shared(session.store, session.project, options.lease, options.wait) as store:
        while True:
            found = [one for one in store.sharing.runs() if one.run not in refused]
            if len(options.classes) < len(STAGES):
                found = [one for one in found if store.sharing.may_take(one.run, options.classes)]
            if options.run:
                found = [one for one in found if one.run == find_run(store, options.run).id]
            if found:
                run = store.find("run", [found[0].run])[found[0].run]
                try:
                    with renewed(store.sharing):  # a study may take longer than the lease to load
                        plan = _plan_here(run, found[0], store, session.project, options)
                except Invalid as refusal:
                    if not options.stay:
                        raise
                    refused.add(run.id)
                    for problem in refusal.problems if on_notice else ():
                        on_notice(problem)  # type: ignore[misc]
                    continue
                if on_begin:
                    on_begin(run)
                ended = _work_on(run, found[0], plan, store, session.project, options, on_notice)
                if on_end:
                    on_end(store.find("run", [run.id])[run.id], ended)
                if ended.status is Status.interrupted:
                    return ended
            elif options.stay:
                store.sharing.beat("")
                if store.sharing.hold(COMMANDS, DUTY):
                    service_of(store, lambda: app.serve_commands).serve()
                time.sleep(REST)
            else:
                return ended


def _plan_here(
    run: Run, found: SharedRun, store: SharedStore, project: Project, options: WorkerOptions
) -> Plan:
    """The plan of a shared run; Invalid if this machine cannot execute what this worker would take of it.

    A worker without the key of a model would fail trials that the others can do.
    """
    if not options.allow_different and (problems := _differences(run, store)):
        raise Invalid(problems)
    how = _read_options(found.options)
    plan = plan_of(run.id, store, project, agents=GENERATE in how.stages)
    check_models(plan, project, store, [one for one in how.stages if one in options.classes])
    return plan


def _differences(run: Run, store: SharedStore) -> list[str]:
    """In which packages this machine differs from the one where the run was planned; one line each."""
    origin = read_provenance(store.get(run.provenance))
    here = {**installed(), "python": platform.python_version()}
    there = {**origin.packages, "python": origin.python}
    names = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    lines = [
        f"run {short(run.id)} was planned with {name} {there.get(name, '(not installed)')}, "
        f"here is {here.get(name, 'none')}"
        for name in names[:MOST_SHOWN]
    ]
    if len(names) > MOST_SHOWN:
        lines.append(f"and {len(names) - MOST_SHOWN} more packages differ")
    return [*lines, "install the same, or accept it with --allow-different"] if lines else []


def _work_on(
    run: Run,
    found: SharedRun,
    plan: Plan,
    store: SharedStore,
    project: Project,
    options: WorkerOptions,
    on_notice: Callable[[str], None] | None,
) -> RunEnd:
    """Execute this worker's part of a run."""
    how, number = _read_options(found.options), store.incarnation
    with renewed(store.sharing):
        clock = ShiftedClock(options.clock, store.sharing.now() - options.clock.now())
        manifest = read(run.manifest, store.get)
        parallel = options.parallel or how.parallel or project.parallel or WORKERS
        chosen = options.runner or how.runner or project.runner
        pools = runners_of(plan, store, chosen, parallel, project.runner_options(chosen))
        runners = {cls: pool for cls, pool in pools.items() if cls.partition(".")[0] in options.classes}
        work_root = store_folder(store, "work") / str(number)
        storage = plan.study.storage
        context = RunContext(
            run.id,
            str(number),
            store,
            Policy(**{**plan.study.policy.model_dump(exclude_unset=True), **manifest.policy}),
            clock,
            work_root=work_root,
            inline=storage.inline,
            outputs_apart=storage.payloads == "digest",
            answers_apart=storage.responses == "drop",
            label=label(store, number),
            sharing=store.sharing,
        )
        question = stop_question(plan) if how.rule else None
        study = StudySource(plan, store, how.stages)
        source = RangeSource(study, plan.layout.at, question, store if how.decided else None, options.classes)
        calls = CallSettings(
            models=models_of(project),
            budget=by_model(project, plan.study.budget),
            before=tuple(spent_before(plan, store, run.id)),
        )
    execution = Execution(context, source, calls, stays=how.wait_for_people)
    store.commit([Op(run.id, (RunStarted(str(number), number),))]).result()  # refused: another did
    driver = WorkerDriver(
        execution,
        runners,
        store,
        source,
        parallel,
        arbiter=None if question is None else Arbiter(store, execution, partial(_with_rule, plan, store)),
        commands=service_of(store, lambda: app.serve_commands),
        on_notice=on_notice,
    )
    try:
        ended = driver.conduct()
        return replace(ended, status=Status.interrupted) if driver.interrupted else ended
    finally:
        if any(getattr(agent, "starts_processes", False) for agent in plan.agents.values()):
            sandbox.end(label(store, number))
        shutil.rmtree(work_root, ignore_errors=True)


def _with_rule(plan: Plan, store: SharedStore) -> AdaptiveSource:
    """The trials of a plan before its stopping rule, which has seen none of them."""
    question = stop_question(plan)
    assert question is not None
    return AdaptiveSource(StudySource(plan, store), StoppingEvidence(question), store)


def worker_arguments(store: str, run: str, options: RunOptions) -> list[str]:
    """The arguments of `peira worker` for one run."""
    parallel = ["--parallel", str(options.parallel)] if options.parallel else []
    return ["--quiet", "--run", run, "--store", store, *parallel]


def shares_on_ray(session: Session) -> bool:
    """Whether runs on Ray are executed by workers that it places, because the store can be shared."""
    return isinstance(session.store, str) and isinstance(scheme_of(session.store), SharingScheme)


def _on_ray(options: RunOptions, session: Session) -> RayWorkers | None:
    """The connection to the cluster that places the workers; None if they are to be on this machine."""
    if (options.runner or session.project.runner) != RAY or not shares_on_ray(session):
        return None
    if _scheme(session).environment(str(session.store)):
        raise Invalid(
            "store: its password would be kept by Ray: give it by PGPASSWORD or a .pgpass file, here and on "
            "the machines of the cluster"
        )
    return RayWorkers(session.project.runner_options(RAY))


def _scheme(session: Session) -> SharingScheme:
    """How the session's store is shared."""
    scheme = scheme_of(str(session.store))
    assert isinstance(scheme, SharingScheme)
    return scheme


class LocalWorkers:
    """Workers of a run on this machine, as processes of their own."""

    def __init__(self, store: str, run: str, options: RunOptions) -> None:
        command = [sys.executable, "-P", "-m", "peira.cli", "worker", *worker_arguments(store, run, options)]
        self._children = [
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
                env=environment_of(store),
            )
            for _ in range(options.workers or 0)
        ]

    @property
    def alive(self) -> int:
        """How many of them have not ended."""
        return sum(child.poll() is None for child in self._children)

    def signal(self, number: int) -> None:
        """Send a signal to those that have not ended."""
        for child in self._children:
            if child.poll() is None:
                child.send_signal(number)

    def wait(self) -> None:
        """Wait until all have ended."""
        for child in self._children:
            child.wait()


def run_shared(
    study: StudyLike, options: RunOptions, session: Session, on_begin: OnBegin | None = None
) -> RunOutcome:
    """Submit a run, execute it with workers on this machine, and watch it until it is over.

    Others may join and leave meanwhile. Ctrl-C lets the local workers finish what they have begun; if all
    of them are gone before the run is over, it is interrupted, and others may go on with it.
    """
    placed = _on_ray(options, session)
    if placed is not None:  # workers execute their trials themselves
        options = replace(options, runner=None, workers=options.workers or placed.places or 1)
    run = submit_shared(study, options, session)
    follower = Follower(session, run)
    if on_begin:
        with session.reading() as store:
            on_begin(BegunRun(run, follower.run.trials, store))
    workers: LocalWorkers | RayWorkers
    if placed is None:
        workers = LocalWorkers(str(session.store), run, options)
    else:
        workers = placed
        gone = partial(_scheme(session).declare_gone, str(session.store))
        placed.start(run, options.workers or 1, worker_arguments(str(session.store), run, options), gone)
    try:
        with display(follower.run.study, options.progress) as show:
            while workers.alive:
                try:
                    show(follower.look())
                    while placed is not None and placed.notices:
                        show.notice(placed.notices.pop(0))
                    time.sleep(POLL)
                except KeyboardInterrupt:
                    workers.signal(signal.SIGINT)
                    show.notice("stopping: what runs will be finished (Ctrl-C again cancels it)")
            show(follower.look())
    finally:
        workers.signal(signal.SIGTERM)
        workers.wait()
    with session.reading() as store:
        return RunOutcome(results_of(session, store, run), _ended(store, follower))


def _ended(store: AnyStore, follower: Follower) -> RunEnd:
    """How a run ended; interrupted if nobody works on it any more."""
    row = find_run(store, follower.run.id)
    if is_over(row) and isinstance(store, ListsSharedRuns):
        return end_of(row, store)
    return RunEnd(Status.interrupted, follower.counts(), "interrupted", 130)
