"""The host: the process that owns a store and serves several streams in it.

Every stream is a run of its own, driven by a thread of its own, open until it is drained or the host stops.
All of them share the store and its commands.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from peira.app.models import by_model, models_of
from peira.app.run import following_runners, local_runner
from peira.app.session import Session, SessionLike
from peira.app.store.access import hosted, run_label, store_folder
from peira.app.streams._experiments import opened_experiment, opening_before
from peira.app.streams._host_session import HostSession
from peira.app.streams.goals import GoalLook, GoalWatch
from peira.app.streams.results import StreamRecord
from peira.app.streams.retention import JobRetention
from peira.app.streams.view import JobView, StreamView
from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Commands, Consequences, Ended, Op, OpenStore, Outcome, PayloadRemoval, Runner
from peira.core.ids import Json, short
from peira.core.log.events import AnyEvent, GoalLooked, OutcomeValue, State, Status
from peira.core.log.rows import Task
from peira.core.registry import nearest
from peira.engine.calls.live_text import LiveText
from peira.engine.commands import CommandService, service_of
from peira.engine.context import CallSettings, RunContext
from peira.engine.control import PAUSE, Command, StopRequest
from peira.engine.execution import Execution
from peira.engine.places import SharedPlaces
from peira.engine.run import RunDriver
from peira.engine.run_start import RunDescription, open_run, spent_before
from peira.engine.stages import StoredOutput
from peira.engine.streams.decision import hand_decision
from peira.engine.streams.declaration import TAG, declared
from peira.engine.streams.experiment import LiveExperiment, experiment_plan
from peira.engine.streams.jobs import (
    MOST_HOPS,
    SHADOW,
    SHADOWS,
    Job,
    assigned,
    class_of,
    facts_of,
    job_id,
    queued,
    submissions,
    submitted,
)
from peira.engine.streams.source import StreamSource
from peira.engine.streams.submission import register_host
from peira.engine.streams.timers import StreamTimers
from peira.errors import Invalid, Unknown
from peira.plan.expansion import expand
from peira.plan.manifest import keep
from peira.spec.modules import refuse_while_loading
from peira.spec.streams.goals import OF_JOBS
from peira.spec.streams.stream import Stream, chain_problems
from peira.spec.streams.triggers import After, label_of
from peira.spec.values import MAX_PARALLEL

TICK = 0.02
"""Seconds between two looks of the dispatcher."""


@dataclass
class ServedStream:
    """One stream while it is served."""

    stream: Stream
    run: str
    source: StreamSource
    execution: Execution
    arms: int
    driver: RunDriver
    experiment: LiveExperiment | None = None
    problem: BaseException | None = None
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class AnnouncedJobs:
    """Jobs that are queued in the commit of another job's end, and offered once that is durable."""

    cause: ServedStream
    jobs: list[Job]
    mark: int | None = None

    def durable(self) -> bool:
        """Whether that commit is durable; everything is once the run has ended."""
        execution = self.cause.execution
        if self.mark is None:
            self.mark = execution.settled_ops()
        return self.cause.over.is_set() or execution.journal.durable >= self.mark


class Host:
    """Serves streams; made by `serve`. Use it as a context manager, or call `stop`."""

    def __init__(
        self,
        streams: Sequence[Stream],
        store: SessionLike = None,
        resources: Mapping[str, Any] | None = None,
        wait: float | None = 0.0,
        on_notice: Callable[[str], None] | None = None,
        parallel: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`parallel` is how many jobs of all streams together may run at a time; None: as the streams say.
        `clock` tells the time of timers and submissions."""
        problems = list(chain_problems(streams))
        if parallel is not None and not 1 <= parallel <= MAX_PARALLEL:
            problems.append(f"parallel: must lie between 1 and {MAX_PARALLEL:,}, not {parallel}")
        if problems:
            raise Invalid(problems)
        self.parallel = parallel
        self.live = LiveText()
        """What models that stream their answers say, while they do: `host.live.read(after, task=job.id)`."""
        self._places = SharedPlaces(parallel) if parallel else None
        self._clock: Clock = clock or SystemClock()
        self._resources, self._on_notice = resources or {}, on_notice
        self.session = Session.find(store)
        self._open = ExitStack()
        self._served: dict[str, ServedStream] = {}
        self._followers: dict[str, list[tuple[Stream, After]]] = {}
        self._announced: list[AnnouncedJobs] = []
        self._noting = threading.Lock()
        self._accepting, self._deciding = threading.Lock(), threading.Lock()
        self._accepted: deque[
            tuple[Future[list[Outcome]], Sequence[ServedStream], Sequence[Sequence[Job]]]
        ] = deque()
        self._stopping = threading.Event()
        self.session.project.load_plugins()
        self._plans = {stream.name: expand(stream.study) for stream in streams}
        if problems := [line for stream in streams for line in self._goal_problems(stream)]:
            raise Invalid(problems)
        self._models = models_of(self.session.project)
        self.store: OpenStore = self._open.enter_context(self.session.owned(wait))
        self.open_session = HostSession(self.session, self.store)
        """Reads the open store; once the host has ended, it opens the store again."""
        self._views: dict[str, StreamView] = {}
        self.ended = False
        self._service: CommandService = service_of(self.store)
        self._open.callback(register_host, self._service, None)
        try:
            self._open.enter_context(hosted(self.store, self.session.store))
            keeps = {one.name: one.keep for one in streams if one.keep.bounded}
            if keeps and not isinstance(self.store, PayloadRemoval):
                raise Invalid(
                    f"streams.{name}.keep: this kind of store keeps all payloads; leave it out"
                    for name in keeps
                )
            for stream in streams:
                for trigger in stream.triggers:
                    if isinstance(trigger, After):
                        self._followers.setdefault(trigger.after, []).append((stream, trigger))
            for stream in streams:
                self._served[stream.name] = self._opened(stream)
            register_host(self._service, self)
            for served in self._served.values():
                self._start(served)
            self._watch = self._goal_watch()
            self._retention = JobRetention(self.store, keeps, self._fail) if keeps else None
            self._dispatcher = threading.Thread(target=self._dispatch, name="peira-host", daemon=True)
            self._dispatcher.start()
        except BaseException:
            self._open.close()
            raise

    def _goal_problems(self, stream: Stream) -> Iterator[str]:
        """What is wrong with the goals of a stream, given its scores."""
        names = [one.name for one in self._plans[stream.name].evaluators.values()]
        known = (*dict.fromkeys(names), *OF_JOBS)
        for goal in stream.goals:
            if goal.score not in known and not goal.outcome:
                later = "outcome.NAME for what is reported later"
                there = f"there is no score {goal.score!r}; there are {', '.join(known)}, and {later}"
                yield f"streams.{stream.name}.goals: {there}"

    # Opening

    def _opened(self, stream: Stream) -> ServedStream:
        """Record an opening of the stream, and make what serves it."""
        project, store, clock = self.session.project, self.store, self._clock
        plan = self._plans[stream.name]
        conditions = tuple(plan.layout.conditions)
        manifest = keep(plan, store.put, {})
        number = store.incarnation
        before = opening_before(store, stream.name)
        planned = experiment_plan(stream, plan)
        deciding = planned.deciding if planned else None
        declaration = store.put(declared(stream, conditions, self.parallel, deciding))
        about = RunDescription(tags=(TAG,), stream=declaration)
        run = open_run(plan, manifest, store, number, clock.now(), about)
        following = self._following if stream.name in self._followers else None
        left = self._left_over(stream.name)
        if before is not None and plan.evaluators:
            left += StreamRecord(store, stream.name).unscored(before.id)
        experiment = opened_experiment(store, stream.name, planned, run, before, {task.id for task in left})
        source = StreamSource(stream, plan, store, following, self._resources, experiment)
        source.restore(left)
        context = RunContext(
            run,
            str(number),
            store,
            stream.study.policy,
            clock,
            work_root=store_folder(store, "work") / short(run),
            inline=-1 if stream.keep.bounded else stream.study.storage.inline,  # payloads can be removed
            label=run_label(store, run),
            live=self.live.of_stream(stream.name),
        )
        shadows = {SHADOWS: by_model(project, stream.shadow_budget)} if stream.assign == "all" else {}
        calls = CallSettings(
            models=self._models,
            budget=by_model(project, stream.study.budget),
            before=tuple(spent_before(plan, store, run, TAG, tuple(shadows.values()))),
            apart=shadows,
        )
        places = self._places.of_run([class_of(stream.name)]) if self._places else None
        execution = Execution(context, source, calls, stays=True, places=places)
        driver = RunDriver(
            execution,
            self._runners(stream, plan),
            commands=self._service,
            on_notice=partial(self._say, stream.name),
        )
        return ServedStream(stream, run, source, execution, len(conditions), driver, experiment)

    def _say(self, name: str, text: str) -> None:
        if self._on_notice is not None:
            self._on_notice(f"{name}: {text}")

    def _left_over(self, name: str) -> list[Task]:
        """What an earlier opening has left, in the order of its arrival: what waits has begun, and so came
        before what is queued in its session. Times of submission say nothing: clocks are set back."""
        classes = (class_of(name), class_of(name, SHADOW))
        waiting = [task for task in self.store.waiting() if task.cls in classes]
        return [*waiting, *(task for cls in classes for task in self.store.queued(cls))]

    def _runners(self, stream: Stream, plan: Any) -> dict[str, tuple[Runner, int]]:
        """Who executes jobs, shadows, answers and scores; shadows have workers of their own."""
        awaiting = all(agent.asynchronous for agent in plan.agents.values())
        runners: dict[str, tuple[Runner, int]] = {
            class_of(stream.name): (local_runner(awaiting), stream.parallel)
        }
        if stream.assign == "all":
            places = stream.shadows.parallel or stream.parallel
            runners[class_of(stream.name, SHADOW)] = (local_runner(awaiting), places)
        return runners | following_runners(plan, local_runner(False), stream.parallel)

    def _start(self, served: ServedStream) -> None:
        def drive() -> None:
            try:
                served.driver.conduct()
            except BaseException as problem:  # raised by `stop`
                served.problem = problem
            finally:
                served.over.set()

        threading.Thread(target=drive, name=f"peira-stream-{served.stream.name}", daemon=True).start()

    def _goal_watch(self) -> GoalWatch | None:
        """What looks at the goals of the streams, if there are any."""
        streams = [name for name, served in self._served.items() if served.stream.goals]
        if not streams:
            return None
        return GoalWatch(self.open_session, streams, self._goal_changed, self._note, self._fail)

    def _goal_changed(self, name: str, look: GoalLook, event: GoalLooked) -> None:
        """Record a new verdict on a goal; one that was missed may pause the stream."""
        served = self._served[name]
        if served.over.is_set():
            return
        served.execution.journal.write([Op(served.run, (event,))])
        served.execution.say(f"goal {event.goal}: {event.verdict}, mean {event.mean:.3g} of {event.n} jobs")
        if event.verdict == "missed" and look.goal.on_missed == "pause":
            served.execution.obey(Command(PAUSE, served.run, f"goal {event.goal}"))

    def _note(self, name: str, text: str) -> None:
        self._served[name].execution.say(text)

    def _fail(self, problem: BaseException) -> None:
        """The host itself cannot go on: every stream ends, and `stop` raises it."""
        for served in self._served.values():
            served.execution.fail(problem)

    # Submissions

    def serves(self, stream: str) -> bool:
        """Whether the stream is being served, and takes jobs."""
        return stream in self._served and not self._served[stream].over.is_set()

    def submit(
        self,
        stream: str,
        input: Json = None,
        *,
        key: str | None = None,
        priority: int = 0,
        group: str = "",
        expected: Json = None,
    ) -> JobView:
        """Submit a job; it is durable when this returns. The same key is the same job."""
        options = {"key": key, "priority": priority, "group": group, "expected": expected}
        return self.submit_many(stream, [{"input": input, **options}])[0]

    def submit_many(self, stream: str, jobs: Iterable[Mapping[str, Any]]) -> list[JobView]:
        """Submit several jobs with one commit: tables with `input` and other arguments of `submit`.

        Invalid lists the problems of all of them, and none is submitted then.
        """
        served = self._find(stream)
        made = submissions(served.stream, jobs, self._clock.now())
        self.accept(made)
        view = self.stream(stream)
        return [JobView(view, job_id(job.stream, job.key)) for job in made]

    def execute(self, command: Command) -> None:
        """Execute a command about a stream; it is committed when this returns."""
        self._service.execute(command)

    def accept(self, jobs: Sequence[Job]) -> None:
        """Queue these jobs durably and offer them; those that are there already change nothing.

        They are offered in the order of their commits, whichever thread brings them.
        """
        served = [self._find(job.stream) for job in jobs]
        batches = [self._assigned(job) for job in jobs]
        ops = [queued(one.run, batch) for one, batch in zip(served, batches, strict=True)]
        with self._accepting:
            committed = self.store.commit(ops)
            self._accepted.append((committed, served, batches))
        committed.result()
        self._offer_durable()

    def _offer_durable(self) -> None:
        """Offer the jobs whose commits are durable, in the order of these."""
        with self._accepting:
            while self._accepted and self._accepted[0][0].done():
                self._offer_accepted(*self._accepted.popleft())

    def _offer_accepted(
        self,
        committed: Future[list[Outcome]],
        served: Sequence[ServedStream],
        batches: Sequence[Sequence[Job]],
    ) -> None:
        """Offer the jobs of a commit, but for those that were there before."""
        if committed.exception() is not None:
            return  # raised for who submitted them
        offered: dict[StreamSource, list[Job]] = {}
        for one, batch, refusal in zip(served, batches, committed.result(), strict=True):
            if refusal is None:
                offered.setdefault(one.source, []).extend(batch)
        for source, found in offered.items():
            source.add(found)

    def _assigned(self, job: Job) -> list[Job]:
        """The job with its condition, and its shadows."""
        served = self._find(job.stream)
        if served.experiment is None:
            return assigned(served.stream.assign, job, served.arms)
        with served.experiment.changing:
            traffic = served.experiment.traffic
        return assigned(served.stream.assign, job, served.arms, traffic)

    def cancel(self, stream: str, jobs: Sequence[str], by: str, note: AnyEvent) -> None:
        """Cancel jobs of this stream, in whatever state; durable when it returns."""
        self._find(stream).execution.cancel_tasks(jobs, by, note)

    def decide(self, stream: str, arm: int, by: str, why: str, note: AnyEvent) -> None:
        """End the experiment of this stream by hand: all jobs get this arm. Durable when it returns."""
        served = self._find(stream)
        if (experiment := served.experiment) is None:
            raise Invalid(f"stream {stream!r} draws no arms")
        with self._deciding:
            label, standings = experiment.plan.labels[arm], experiment.standings(arm)
            events = hand_decision(experiment.traffic, label, arm, by, why, standings)
            with experiment.changing:
                self.store.commit([Op(served.run, (note, *events))]).result()
                experiment.accept(events)
        served.execution.say(f"{stream}: {label} was chosen by {by}; all jobs get it from now on")

    def note_outcome(self, job: Job, name: str, value: OutcomeValue) -> None:
        """An outcome of a job is recorded, the first of its name."""
        experiment = self._find(job.stream).experiment
        if experiment is not None and experiment.plan.late == name:
            experiment.count(job, value, False)

    def _find(self, name: str) -> ServedStream:
        if name not in self._served:
            raise Unknown(f"no stream {name!r} is served here{nearest(name, self._served)}")
        return self._served[name]

    def stream(self, name: str) -> StreamView:
        """The stream as any process sees it."""
        self._find(name)
        if name not in self._views:
            self._views[name] = StreamView(self.open_session, name, host=self)
        return self._views[name]

    # What follows from ends

    def _following(self, task: str, job: Job, factors: Mapping[str, Json], ended: Ended) -> Consequences:
        """The jobs that `after` triggers queue in the commit of a job's end."""
        if job.hops >= MOST_HOPS:
            return Consequences()
        succeeded = ended.state is State.succeeded
        output = StoredOutput(ended, self.store).value() if succeeded else None
        facts = facts_of(job, ended.state, output, factors)
        found = [
            submitted(
                stream,
                facts[trigger.input],
                at=self._clock.now(),
                key=f"{label_of(trigger)}:{task}",
                group=job.group or job.key,
                trigger=label_of(trigger),
                cause=task,
                hops=job.hops + 1,
            )
            for stream, trigger in self._followers[job.stream]
            if trigger.fires(facts)
        ]
        known = self.store.find("task", [job_id(one.stream, one.key) for one in found]) if found else {}
        new = [one for one in found if job_id(one.stream, one.key) not in known]
        if not new:
            return Consequences()
        batches = [self._assigned(one) for one in new]
        cause = self._served[job.stream]
        with self._noting:
            self._announced += [AnnouncedJobs(cause, batch) for batch in batches]
        ops = [queued(cause.run, batch) for batch in batches]
        return Consequences(
            tuple(event for op in ops for event in op.events), tuple(blob for op in ops for blob in op.blobs)
        )

    def _dispatch(self) -> None:
        """Offer what follows from ends once those are durable, and fire timers."""
        try:
            timers = StreamTimers([one.stream for one in self._served.values()], self.store, self._clock)
            while not self._rest():
                if not isinstance(self.store, Commands):  # a look into a folder costs nothing
                    self._service.serve()
                self._offer_following()
                self._follow_evidence()
                if due := [job for job in timers.due() if self.serves(job.stream)]:
                    self.accept(due)
        except Exception as problem:
            self._fail(problem)

    def _rest(self) -> bool:
        """Rest until the next look, and let streams have places that others gave back; whether to stop."""
        if self._places is None:
            return self._stopping.wait(TICK)
        self._places.serve_line(TICK)
        return self._stopping.is_set()

    def _offer_following(self) -> None:
        """Offer jobs that were queued with the ends of others, once these commits are durable."""
        with self._noting:
            announced = list(self._announced)
        offered = [one for one in announced if one.durable()]
        for one in offered:
            if self.serves(one.jobs[0].stream):
                self._served[one.jobs[0].stream].source.add(one.jobs)
        if offered:
            with self._noting:  # only now: who drains waits until nothing is left here
                self._announced = [one for one in self._announced if one not in offered]

    def _follow_evidence(self) -> None:
        """Record what follows from the evidence of experiments; jobs are drawn accordingly from then on."""
        for served in self._served.values():
            if served.experiment is None:
                continue
            with self._deciding:
                if not (news := served.experiment.news()):
                    continue
                with served.experiment.changing:
                    self.store.commit([Op(served.run, tuple(news))]).result()
                    served.experiment.accept(news)

    # Ending

    def close(self, stream: str) -> None:
        """Take no more jobs of this stream; it ends when all its jobs have.

        Submissions that are being committed are taken; those that come later are for the next host.
        """
        with self._accepting:
            under_way = [committed for committed, _, _ in self._accepted]
        wait_for(under_way)
        self._offer_durable()
        self._find(stream).source.drain()

    def drain(self, *names: str) -> None:
        """Take no more jobs (of these streams, or of all), and wait until all that were taken have ended.

        Streams end before those that follow them, whose last jobs come from their ends.
        """
        for name in self._in_order(names or tuple(self._served)):
            self.close(name)
            self._served[name].over.wait()
            while self._announced and not self._stopping.is_set():
                time.sleep(TICK)

    def _in_order(self, names: Sequence[str]) -> list[str]:
        """These streams, each before those that follow it."""
        order: list[str] = []

        def visit(name: str) -> None:
            for follower, _ in self._followers.get(name, ()):
                if follower.name in names and follower.name not in order:
                    visit(follower.name)
            if name not in order:
                order.append(name)

        for name in names:
            self._find(name)
            visit(name)
        return order[::-1]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no stream is served any more; whether that is so."""
        until = None if timeout is None else time.monotonic() + timeout
        for served in self._served.values():
            left = None if until is None else max(0.0, until - time.monotonic())
            if not served.over.wait(left):
                return False
        return True

    def stop(self, now: bool = False) -> None:
        """End the host: what runs is finished (or, with `now`, interrupted); queued jobs stay queued."""
        if self._watch is not None:
            self._watch.stop()
        if self._retention is not None:
            self._retention.stop()
        for served in self._served.values():
            served.execution.request(StopRequest(Status.interrupted, "its host was stopped", now, 0))
        for served in self._served.values():
            served.over.wait()
        self._stopping.set()
        self._dispatcher.join()
        self.ended = self.live.closed = True
        self.open_session.detach()
        self._open.close()
        for served in self._served.values():
            if served.problem is not None:
                raise served.problem

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._stopping.is_set():
            self.stop()


def serve(
    *streams: Stream,
    store: SessionLike = None,
    resources: Mapping[str, Any] | None = None,
    wait: float | None = 0.0,
    parallel: int | None = None,
) -> Host:
    """Serve streams from this process, in the background: `host.submit("support", {...})`.

    The process owns the store until the host stops. Jobs that an earlier host left are done first. At most
    `parallel` jobs of all streams together run at a time; each stream has its own limit besides.
    """
    refuse_while_loading()
    if not streams:
        raise Invalid("serve: name at least one stream")
    for one in streams:
        if type(one) is not Stream:
            raise Invalid(f"serve: takes streams, not {type(one).__name__}; write @stream above the function")
    return Host(streams, store, resources, wait, parallel=parallel)
