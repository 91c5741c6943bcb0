"""Running a study: opens the store, plans, starts runners and engine, and closes everything again."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

import peira.app as app
import peira.engine as engine
import peira.report.telemetry as telemetry
import peira.sandbox as sandbox
from peira.analysis.results import Results
from peira.app.models import by_model, models_of
from peira.app.preflight import agent_notes, budget_notes, check_models, estimate_of, models_in
from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore, label, remove_work_folder, run_label, store_folder
from peira.app.store.results import results_of
from peira.app.store.runs import find_run, name_problem, names_run, refuse_taken
from peira.app.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.contracts import Anticipates, Runner, RunQuery
from peira.core.ids import short
from peira.core.log.events import Status
from peira.core.registry import registry
from peira.engine.commands import service_of
from peira.engine.context import CallSettings, RunContext
from peira.engine.control import StopRequest
from peira.engine.execution import Execution
from peira.engine.kinds import UNIT, UNIT_FUNCTION
from peira.engine.progress import Progress
from peira.engine.run import RunDriver, RunEnd
from peira.engine.run_start import RunDescription, died_before, open_run, recorded_before, spent_before
from peira.engine.sources.study import StudySource, class_of
from peira.engine.stages import EVALUATE, GENERATE, STAGES, TRANSFORM
from peira.errors import Invalid
from peira.plan.expansion import Plan
from peira.plan.listing import PlanListing
from peira.plan.manifest import keep, read
from peira.report.progress import ProgressOption, display
from peira.runners.threads import ThreadRunner
from peira.spec.agents import written_agent
from peira.spec.limits import Policy, Storage
from peira.spec.project import LOCAL, Project, parallel_problem, runner_problem
from peira.spec.study import Study

RAY = "ray"
"""The runner of Ray clusters."""
WORKERS = 8
NAME = re.compile(r"[\w.-]+")


class RunOptions(msgspec.Struct, frozen=True):
    """How a study is to be run; what is left out comes from the project file, or is the default."""

    store: SessionLike = None
    parallel: int | None = None
    runner: str | None = None
    policy: Policy | Mapping[str, Any] | None = None
    where: str = ""
    limit: int | None = None
    fresh: bool = False
    resources: Mapping[str, Any] = msgspec.field(default_factory=dict)
    progress: ProgressOption = None
    wait: float | None = 0.0
    stages: Sequence[str] = STAGES
    log: str | Path | None = None
    batch: bool = False
    earlier: Results | str | None = None
    evaluation: str = ""
    whole: bool = False
    name: str = ""
    tags: Sequence[str] = ()
    wait_for_people: bool = False
    workers: int | None = None

    def problems(self) -> list[str]:
        """Everything that is wrong with these options, one line each."""
        found = []
        if problem := parallel_problem(self.parallel):
            found.append(problem)
        if self.runner is not None and (problem := runner_problem(self.runner)):
            found.append(f"runner: {problem}")
        if self.runner in ("process", "ray") and self.resources:
            found.append("resources: cannot be handed to other processes; use runner='local'")
        if self.evaluation and not NAME.fullmatch(self.evaluation):
            found.append(f"name: {self.evaluation!r} does not name an evaluation: letters, digits, . - and _")
        if self.name and (problem := name_problem(self.name)):
            found.append(f"name: {problem}")
        if isinstance(self.tags, str) or not all(self.tags) or not "".join(self.tags).isprintable():
            found.append(f"tags: must be a list of words, not {self.tags!r}")
        if isinstance(self.policy, Mapping):
            found += policy_problems(self.policy)
        if self.log is not None:
            found += engine.run_log.problems_of(self.log)
        return found


def policy_problems(fields: Mapping[str, Any]) -> list[str]:
    """What is wrong with a policy that is given by its fields."""
    try:
        Policy(**fields)
    except Invalid as problem:
        return [f"policy.{line}" for line in problem.problems]
    return []


class RunOutcome(msgspec.Struct, frozen=True):
    """A run that ended: its results and how it ended."""

    results: Results
    finished: RunEnd


class BegunRun(msgspec.Struct, frozen=True):
    """A run that is durable and about to be executed: here, if there is an `execution`, or by workers."""

    run: str
    trials: int | None
    store: AnyStore
    execution: Execution | None = None


OnBegin = Callable[[BegunRun], None]
"""A callback that is told of a run once it is durable."""


def execute(study: StudyLike, options: RunOptions, on_begin: OnBegin | None = None) -> RunOutcome:
    """Run a study to its end. Raises Invalid with all problems before anything is written."""
    if problems := options.problems():
        raise Invalid(problems)
    session = Session.find(options.store, study)
    if options.workers is not None or (
        (options.runner or session.project.runner) == RAY and app.shares_on_ray(session)
    ):
        return app.run_shared(study, options, session, on_begin)
    project = session.project
    project.load_plugins()
    select: dict[str, Any] = {
        "where": options.where,
        "limit": options.limit,
        "fresh": options.fresh,
        "earlier": options.earlier,
        "agents": GENERATE in options.stages,
    }
    # Where there is no store yet, the plan is made first, so that a refused study creates no store.
    planned = None if session.exists else plan_of(study, None, project, **select)
    if planned is not None:
        check_models(planned, project, None, options.stages, options.batch)
        chosen = options.runner or project.runner
        _subject_runner(planned, chosen, "", project.runner_options(chosen))  # refuses what it cannot execute
    watched = telemetry.telling(True) if project.telemetry == "otel" else nullcontext()
    with watched, session.beside_streams(options.wait) as store:
        if options.name:
            refuse_taken(options.name, store)
        plan = planned or plan_of(study, store, project, **select)
        if plan.study.storage != Storage():
            app.apply_storage(store, plan.study.storage)
        if planned is None:
            check_models(plan, project, store, options.stages, options.batch)
        resumes = find_run(store, str(study)).id if names_run(study, store) else ""
        with nullcontext() if options.log is None else engine.run_log.RunLog(options.log) as log:
            run, finished = _run(plan, store, project, options, on_begin, resumes, log)
        results = results_of(session, store, run)
    if project.keep.after_runs and project.keep.bounded:
        app.collect(project.keep, session)
    return RunOutcome(results, finished)


def _run(
    plan: Plan,
    store: AnyStore,
    project: Project,
    options: RunOptions,
    on_begin: OnBegin | None,
    resumes: str,
    log: engine.run_log.RunLog | None,
) -> tuple[str, RunEnd]:
    """Record the run, execute its tasks and return its id and how it ended."""
    workers = options.parallel or project.parallel or WORKERS
    chosen = options.runner or project.runner
    runners = runners_of(plan, store, chosen, workers, project.runner_options(chosen))
    policy = plan.study.policy if options.policy is None else policy_of(plan.study, options)
    clock, number = SystemClock(), store.incarnation
    commands = service_of(store, lambda: app.serve_commands)  # which is imported for that
    changed = {} if options.policy is None else changed_fields(policy, plan.study.policy)
    manifest = keep(plan, store.put, changed, store)
    every = len(options.stages) == len(STAGES)
    stops = every and plan.study.stop is not None and not options.whole
    recorded = recorded_before(plan, manifest, store) if every and not stops else None
    if not recorded and isinstance(store, Anticipates):
        store.anticipate(len(plan))
    how: dict[str, Any] = {"stages": options.stages, "batch": options.batch}
    asked = models_in(plan, project, options.stages)
    known = bool(asked or store.runs(RunQuery(study=plan.study.name, limit=1)))
    expected = estimate_of(plan, store, project, workers, **how) if known and not recorded else None
    direct = not died_before(plan, store)
    about = RunDescription(resumes, expected, options.evaluation, options.name, tuple(options.tags))
    run = open_run(plan, manifest, store, number, clock.now(), about)
    work_root = store_folder(store, "work") / short(run)
    only = recorded.trials if recorded else None
    storage = plan.study.storage
    texts = storage.payloads == "keep"
    listing = PlanListing.of(store, manifest, texts, plan.layout) if storage.tables else None
    context = RunContext(
        run,
        str(number),
        store,
        policy,
        clock,
        work_root=work_root,
        inline=storage.inline,
        outputs_apart=storage.payloads == "digest",
        answers_apart=storage.responses == "drop",
        label=run_label(store, run),
    )
    # Outputs are all stored where none are made: then the order of trials says nothing.
    bulk = direct and GENERATE not in options.stages and engine.can_rescore(plan, context, options.stages)
    chosen_trials = () if bulk else only
    source = StudySource(plan, store, options.stages, options.resources, chosen_trials, direct, listing)
    adaptive = app.source_with_rule(plan, read(manifest, store.get), source, store) if stops else None
    rescoring = engine.RescoringSource(plan, source, context, listing) if bulk else None
    calls = CallSettings(
        models=models_of(project),
        batch=options.batch,
        budget=by_model(project, plan.study.budget),
        before=tuple(spent_before(plan, store, run)),
        listed=listing is not None and storage.keeps_all,
    )
    counts = recorded.counts if recorded else {}
    execution = Execution(
        context, adaptive or rescoring or source, calls, counts, adaptive, options.wait_for_people
    )
    for note in budget_notes(plan, project, options.stages) if asked and not recorded else ():
        execution.say(note)
    for note in agent_notes(plan, project) if GENERATE in options.stages else ():
        execution.say(note)
    if log:
        log.follow(store, run)
    if on_begin:
        on_begin(BegunRun(run, source.size, store, execution))
    try:
        unasked = options.progress is None and project.progress == "none"
        with display(plan.study.name, False if unasked else options.progress) as show:
            driver = RunDriver(
                execution,
                runners,
                commands=commands,
                on_progress=show,
                on_notice=show.notice,
                unsuccessful=None if adaptive or not every else lambda: source.unsuccessful,
            )
            context.hosted.on_first = partial(_execute_units, driver, workers)
            if rescoring:
                rescoring.begin(execution)
            ended = driver.conduct()
    finally:
        agents = plan.agents.values()
        if context.hosted.used or any(getattr(agent, "starts_processes", False) for agent in agents):
            sandbox.end(run_label(store, run))  # of attempts that were abandoned a moment ago
        remove_work_folder(work_root)
    if listing:
        listing.close(complete=every and only is None and ended.status is Status.completed)
        if execution.spent and storage.keeps_all:
            app.list_calls(store, run)
    if storage != Storage() and not storage.keeps_all:
        app.forget_payloads(store, run, storage)
    return run, ended


def _execute_units(driver: RunDriver, workers: int) -> None:
    """Let units of work plans be executed, from the first that an agent asks for."""
    units = ThreadRunner(batch=1)
    driver.add({UNIT: (units, workers), UNIT_FUNCTION: (units, workers)})


def policy_of(study: Study, options: RunOptions) -> Policy:
    """The study's policy, with the fields that the caller replaces."""
    if options.policy is None:
        return study.policy
    given = options.policy
    fields = given if isinstance(given, Mapping) else given.model_dump(exclude_unset=True)
    return Policy(**{**study.policy.model_dump(exclude_unset=True), **fields})


def changed_fields(policy: Policy, study: Policy) -> dict[str, Any]:
    """The fields in which a policy differs from the study's."""
    return {key: value for key, value in policy.model_dump().items() if value != getattr(study, key)}


def runners_of(
    plan: Plan, store: AnyStore, name: str, workers: int, options: Mapping[str, Any]
) -> dict[str, tuple[Runner, int]]:
    """The runner and the number of workers of each queue class; evaluators always run in this process."""
    awaiting = all(agent.asynchronous for agent in plan.agents.values())
    subject = _subject_runner(plan, name, label(store, store.incarnation), options)
    runners: dict[str, tuple[Runner, int]] = {class_of(GENERATE, awaiting): (subject, workers)}
    # One pool of threads for all that is plain code: what made an output also scores it.
    plain = subject if name == LOCAL and not awaiting else local_runner(False)
    return runners | following_runners(plan, plain, workers)


def following_runners(plan: Plan, plain: Runner, workers: int) -> dict[str, tuple[Runner, int]]:
    """The runners of what follows from outputs: `plain` for plain code, a loop for what is awaited."""
    runners: dict[str, tuple[Runner, int]] = {}
    if plan.transform is not None:
        runners[TRANSFORM] = (plain, workers)
    for asynchronous in sorted({e.asynchronous for e in plan.evaluators.values()}):
        runner = local_runner(True) if asynchronous else plain
        runners[class_of(EVALUATE, asynchronous)] = (runner, workers)
    return runners


def _subject_runner(plan: Plan, name: str, label: str, options: Mapping[str, Any]) -> Runner:
    """The runner of that name for the agents of a plan, not started; `options` as its project says."""
    facts = {
        "asynchronous": all(agent.asynchronous for agent in plan.agents.values()),
        "agents": {agent: written_agent(plan.study.agents[agent]) for agent in plan.agents},
        "label": label,
        "options": options,
    }
    try:
        made = registry.make_from("runner", name, facts)
    except TypeError as error:
        raise Invalid(f"runner: {name}: {error}") from None
    if not isinstance(made, Runner):
        raise Invalid(f"runner: {name!r} makes a {type(made).__name__}, which has not all that a runner has")
    return made


def local_runner(asynchronous: bool) -> Runner:
    """A runner in this process: an event loop for coroutine functions, else threads."""
    runner: Runner = registry.make("runner", LOCAL, asynchronous=asynchronous)
    return runner


AWAITED = 0.02
"""Seconds between two looks of who awaits a run."""


class Handle:
    """A run in a background thread of this process. It can be awaited: `results = await submit(study)`."""

    def __init__(self, study: StudyLike, options: RunOptions) -> None:
        self._began = threading.Event()
        self._over = threading.Event()
        self._outcome: RunOutcome | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(
            target=self._serve, args=(study, options), name="peira-run", daemon=True
        )
        self._thread.start()
        self._began.wait()
        if self._problem is not None:
            raise self._problem

    def _serve(self, study: StudyLike, options: RunOptions) -> None:
        try:
            self._outcome = execute(study, options, self._begin)
        except BaseException as problem:  # raised in the thread that waits
            self._problem = problem
        finally:
            self._over.set()
            self._began.set()

    def _begin(self, begun: BegunRun) -> None:
        assert begun.execution is not None
        self.run_id, self._execution = begun.run, begun.execution
        self._began.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, at most `timeout` seconds (0: only look); whether it has."""
        return self._over.wait(timeout)

    def __await__(self) -> Generator[Any, None, Results]:
        """The results, without blocking the event loop; if the waiting task is cancelled, so is the run."""
        return self._awaited().__await__()

    async def _awaited(self) -> Results:
        import asyncio  # slow, and running by now

        try:
            while not self._over.is_set():
                await asyncio.sleep(AWAITED)
        except asyncio.CancelledError:
            if not self._over.is_set():
                self._execution.request(StopRequest.cancelled("the task that awaits it"))
            raise
        return self.result()

    def progress(self) -> Progress:
        """How many tasks are done, running and left."""
        return self._execution.progress()

    def cancel(self) -> bool:
        """Cancel the run with its running trials and wait for its end; False if it had ended already."""
        if self._over.is_set():
            return False
        self._execution.request(StopRequest.cancelled("its handle"))
        self._over.wait()
        return True

    def result(self, timeout: float | None = None) -> Results:
        """Wait for the end and return the results; raises TimeoutError, or the exception of the run."""
        if not self._over.wait(timeout):
            raise TimeoutError(f"run {self.run_id[:12]} is not over after {timeout} s")
        if self._problem is not None:
            raise self._problem
        assert self._outcome is not None
        return self._outcome.results


OUTPUTS, ANSWERS, SCORES = (GENERATE,), (TRANSFORM,), (TRANSFORM, EVALUATE)
"""The stages that `generate`, `transform` and `evaluate` execute."""


def executed_results(study: StudyLike, options: RunOptions) -> Results:
    """Run a study to its end and return its results; KeyboardInterrupt if it was interrupted."""
    outcome = execute(study, options)
    if outcome.finished.status is Status.interrupted:
        raise KeyboardInterrupt("the run was interrupted; run it again to go on where it stopped")
    return outcome.results


def rescored_results(
    study: StudyLike | Results, evaluators: Sequence[Any] | None, transform: Any, options: RunOptions
) -> Results:
    """Score stored outputs, with the study's own evaluators and transform or with those given."""
    if isinstance(study, Results):
        options = replace(options, store=study.store if options.store is None else options.store)
        study = study.run_id
    if evaluators is None and transform is None:
        return executed_results(study, options)
    return executed_results(app.judged_by(study, evaluators, transform, options.store), options)
