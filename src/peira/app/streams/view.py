"""A stream as any process sees it: submit, list, wait, cancel, pause, statistics, results."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

import peira.app as app
from peira.app.control import deliver
from peira.app.session import Session
from peira.app.store.runs import UNDER_WAY, with_current_status
from peira.app.streams.events import EventFilter, StreamEvents, Subscription
from peira.app.streams.experiment_status import experiment_status
from peira.app.streams.goals import goal_statuses
from peira.app.streams.stats import WINDOW, stream_stats
from peira.core.clock import seconds
from peira.core.context import DECISION
from peira.core.contracts import Ended, JobQuery
from peira.core.ids import Json, resolve
from peira.core.log.events import TERMINAL, OutcomeValue, State
from peira.core.log.rows import Task
from peira.core.registry import nearest
from peira.engine.commands import running_service
from peira.engine.control import PAUSE, RESUME, Command, ControlFolder, control_of, requester
from peira.engine.stages import StoredOutput
from peira.engine.streams.decision import MOST_WHY, decide_command
from peira.engine.streams.declaration import Declaration, arm_labels, last_opening, stream_names
from peira.engine.streams.job_cancellation import cancel_jobs_command
from peira.engine.streams.jobs import Job, class_of, job_id, job_of, listed, submissions, task_of
from peira.engine.streams.outcomes import outcome_command, outcome_problems
from peira.engine.streams.submission import (
    DRAIN,
    SUBMIT,
    Outbox,
    host_of,
    in_messages,
    outbox_of,
    submitted_jobs,
)
from peira.errors import Invalid, JobFailed, NotKept, StoreInUse, Unknown
from peira.plan.manifest import read
from peira.spec.streams.stream import session_in

if TYPE_CHECKING:
    from peira.analysis.results import Results
    from peira.app.streams.host import Host
    from peira.engine.calls.live_text import LiveText

MOST_SEARCHED = 1_000_000
"""Jobs among which one is looked for by the first digits of its id."""
ID = re.compile("[0-9a-f]{64}")
PATIENCE = 10.0
"""Seconds to wait for a cancelled job to end."""
POLL = 0.02
"""Seconds between two looks at a job that is waited for."""
MEASURES = ("took", "cost")
"""Measures that every job has, whose names no outcome may have."""


@dataclass(frozen=True)
class JobView:
    """One job: look at it, wait for it, cancel it."""

    stream: StreamView
    id: str

    @property
    def state(self) -> str:
        """Its state: queued, running, waiting, succeeded, failed, cancelled, exhausted."""
        return self.stream.state(self.id)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most so many seconds; 0 only looks. Whether it has."""
        return self.stream.wait(self.id, timeout)

    def result(self, timeout: float | None = None) -> Json:
        """Its output; raises TimeoutError, or JobFailed if it ended without one."""
        return self.stream.result(self.id, timeout)

    def cancel(self) -> bool:
        """Cancel it, in whatever state; False if it had ended before."""
        return self.stream.cancel(self.id)

    def events(self, **options: Any) -> Iterator[dict[str, Any]]:
        """What happened to it; options as those of `StreamView.events`."""
        return self.stream.events(self.id, **options)

    def decisions(self) -> list[dict[str, Any]]:
        """What its agent decided, in order."""
        return self.stream.decisions(self.id)

    def outcome(self, name: str, value: OutcomeValue) -> None:
        """Report what became of it, now or much later: `job.outcome("bought", True)`. The last one counts."""
        self.stream.outcome(self.id, name, value)


class StreamView:
    """A stream of a store, for any process; made by `open(store).stream(name)`."""

    def __init__(self, session: Session, name: str, host: Host | None = None, by: str = "") -> None:
        """`by` is who acts, as events name them; this user on this machine if nothing is said."""
        self.session, self.name, self._host = session, name, host
        self._by = by or requester()
        self._outbox: Outbox | None = None
        with self.session.reading() as store:
            _, self.declaration = last_opening(store, name)

    def submit(self, input: Json = None, **options: Any) -> JobView:
        """Submit a job; durable when this returns, whether or not a host is there.

        Options: key, priority, group, expected.
        """
        return self.submit_many([{"input": input, **options}])[0]

    def submit_many(self, jobs: Iterable[Mapping[str, Any]], trigger: str = "") -> list[JobView]:
        """Submit several jobs; none if anything is wrong with any of them. Durable when this returns.

        Each is a table with `input`, and what else `submit` takes. Up to 8 MiB are one message, which is
        synced once: all of them or none. More are several messages, one after the other.
        """
        if self._host is not None and self._host.serves(self.name) and not trigger:
            return self._host.submit_many(self.name, jobs)
        made = submissions(_Declared(self.declaration), jobs, time.time(), trigger)
        for some in in_messages(made):
            self._find_outbox().send(some, self._by)
        return [JobView(self, job_id(self.name, job.key)) for job in made]

    def _find_outbox(self) -> Outbox:
        """What sends submissions to the owner of the store; found once where that is a folder."""
        if self._outbox is not None:
            return self._outbox
        with self.session.reading() as store:
            control = control_of(store)
        if control is None:
            raise StoreInUse(f"stream {self.name!r} cannot be reached: its store takes no commands")
        found = outbox_of(control)
        if isinstance(control, ControlFolder):
            self._outbox = found
        return found

    def _sent(self) -> dict[str, Job]:
        """Jobs that were submitted and that no owner of the store has queued yet."""
        with self.session.reading() as store:
            control = control_of(store)
            pending = list(control.pending()) if control is not None else []
        jobs = (job for _, command in pending if command.command == SUBMIT for job in submitted_jobs(command))
        return {job_id(job.stream, job.key): job for job in jobs if job.stream == self.name}

    def jobs(self, state: str = "", limit: int = 1000) -> list[dict[str, Json]]:
        """Jobs, newest first."""
        if state and state not in list(State):
            raise Invalid(f"state: must be one of {', '.join(State)}, not {state!r}")
        query = JobQuery(class_of(self.name), State(state) if state else None, limit, brief=True)
        sent = self._sent() if state in ("", State.queued.value) else {}  # first: they become rows
        with self.session.reading() as store:
            found = [listed(task, task.state) for task in store.jobs(query)]
        known = {job["job"] for job in found}
        for id, job in sent.items():
            if id in known:
                continue
            row = self._row(id)  # it may have become one since the rows were read
            if row is None or state in ("", row.state):
                found.insert(0, listed(row or task_of(job)[0], row.state if row else State.queued))
        return found[:limit]

    def inputs(self, jobs: Sequence[str]) -> dict[str, Json]:
        """The inputs of the jobs with these ids, without those that are no longer kept."""
        found = {id: job.input for id, job in self._sent().items() if id in jobs}
        with self.session.reading() as store:
            for id, row in store.find("task", jobs).items():
                with suppress(NotKept):
                    found[id] = job_of(store.get(row.payload)).input
        return found

    def _id(self, job: str) -> str:
        """The id of a job that is named by its id or its key, whether or not there is one."""
        return job if ID.fullmatch(job) else job_id(self.name, job)

    def find(self, prefix: str) -> str:
        """The id of the job with this id, prefix or key."""
        by_key = job_id(self.name, prefix)
        if self._row(by_key) is not None or by_key in self._sent() or self._row(by_key) is not None:
            return by_key
        return resolve(prefix, [str(job["job"]) for job in self.jobs(limit=MOST_SEARCHED)], "job")

    def _row(self, job: str) -> Task | None:
        with self.session.reading() as store:
            found: Task | None = store.find("task", [job]).get(job)
            return found

    def state(self, job: str) -> str:
        """The state of a job; Unknown if there is none of that id or key."""
        named, job = job, self._id(job)
        row = self._row(job)
        if row is not None:
            return row.state.value
        if job in self._sent():
            return State.queued.value
        if (row := self._row(job)) is not None:  # it was queued between the two looks
            return row.state.value
        raise Unknown(f"no job {named[:12] if named == job else named!r} in stream {self.name!r}")

    def job(self, name: str) -> JobView:
        """The job with this id, prefix or key."""
        return JobView(self, self.find(name))

    def wait(self, job: str, timeout: float | None = None) -> bool:
        """Wait until a job has ended, at most so many seconds; 0 only looks. Whether it has.

        Who waits in the process of the host stops waiting when the host does.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while State(self.state(job)) not in TERMINAL:
            if until is not None and time.monotonic() >= until:
                return False
            if self._host is not None and self._host.ended:
                return State(self.state(job)) in TERMINAL
            time.sleep(POLL if until is None else max(0.0, min(POLL, until - time.monotonic())))
        return True

    def result(self, job: str, timeout: float | None = None) -> Json:
        """The output of a job; raises TimeoutError, or JobFailed if it ended without one."""
        if not self.wait(job, timeout):
            after = "when its host stopped" if timeout is None else f"after {timeout} s"
            raise TimeoutError(f"job {job[:12]} has not ended {after}")
        job = self._id(job)
        row = self._row(job)
        assert row is not None
        if row.state is not State.succeeded:
            raise JobFailed(job, row.state.value, _why(row) or "")
        try:
            with self.session.reading() as store:
                return StoredOutput(Ended(row.state, row.result), store).value()
        except NotKept:
            raise NotKept(
                f"job {job[:12]} succeeded, and its output was not kept (keep of the stream)"
            ) from None

    def cancel(self, job: str) -> bool:
        """Cancel a job, in whatever state; False if it had ended before.

        The command is durable when this returns, and executed by whoever owns the store.
        """
        if State(self.state(job)) in TERMINAL:
            return False
        job = self._id(job)
        self._deliver(cancel_jobs_command(self.name, (job,), self._by))
        self.wait(job, PATIENCE)
        return self.state(job) == State.cancelled.value

    def outcome(self, job: str, name: str, value: OutcomeValue) -> None:
        """Report what became of a job; recorded when this returns, and among its scores in `results`.

        The last report of a name counts; all of them stay in the events of the job. Raises Invalid for a name
        or value that cannot be used.
        """
        with self.session.reading() as store:
            run, _ = last_opening(store, self.name)
            evaluators = read(run.manifest, store.get).evaluators
        taken = {one.name: "a score of this stream" for one in evaluators}
        if problems := outcome_problems(name, value, {**taken, **dict.fromkeys(MEASURES, "a measure")}):
            raise Invalid(problems)
        self.state(job)  # Unknown if there is no such job
        deliver(self.session, outcome_command(self._id(job), name, value, self._by))

    def decide(self, arm: str, why: str = "") -> None:
        """End the experiment by hand: all jobs get this arm (as `stats` calls it) from now on.

        It is recorded as a decision, with who made it and why; also if no host serves the stream. Raises
        Invalid if there is no such arm, or no arms are drawn.
        """
        with self.session.reading() as store:
            run, declaration = last_opening(store, self.name)
        if run.traffic is None:
            raise Invalid(f"stream {self.name!r} draws no arms: there is no experiment to end")
        _, labels = arm_labels(declaration.arms)
        if arm not in labels:
            raise Invalid(f"arm: there is no {arm!r}{nearest(arm, labels)}; there are {', '.join(labels)}")
        if len(why) > MOST_WHY:
            raise Invalid(f"why: has at most {MOST_WHY:,} characters, not {len(why):,}")
        self._deliver(decide_command(self.name, labels.index(arm), why, self._by))

    def document(self, job: str) -> dict[str, Any]:
        """A job as plain values: what was submitted, its state and its output."""
        state, job = self.state(job), self._id(job)
        row = self._row(job)
        if row is None and (sent := self._sent().get(job)) is None:
            row = self._row(job)  # it was queued between the two looks
        if row is None:  # submitted, and queued by nobody yet: its arm is drawn then
            sent = sent or Job(self.name)
            row = Task(**msgspec.structs.asdict(task_of(sent)[0]), state=State.queued)
            return {**self._shown(row, sent), "job": job, "factors": None}
        try:
            with self.session.reading() as store:
                submitted_job = job_of(store.get(row.payload))
        except NotKept:
            shown = {**listed(row, row.state), "state": state, "kept": False}
            return {**shown, "input": None, "output": None, "why": _why(row)}
        return {**self._shown(row, submitted_job), "state": state}

    def _shown(self, row: Task, job: Job) -> dict[str, Any]:
        """A job and its submission."""
        arms = self.declaration.arms
        return {
            **listed(row, row.state),
            "input": job.input,
            "factors": arms[min(job.arm, len(arms) - 1)],
            "trigger": job.trigger or None,
            "cause": job.cause or None,
            "output": self.result(row.id) if row.state is State.succeeded else None,
            "why": _why(row),
            "outcomes": row.outcomes or None,
            "took": row.result.took if row.state in TERMINAL else None,
        }

    def events(
        self,
        job: str = "",
        *,
        after: str = "",
        kinds: Collection[str] | str = (),
        level: str = "calls",
        follow: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """What happened in the openings of the stream, in order, each event with its `cursor`.

        `after` is the cursor of the last event that is known, `kinds` are the wanted ones, `level` is "jobs",
        "events" or "calls": how much is told. With `follow` it goes on as events come.
        """
        wanted = EventFilter(kinds, self.find(job) if job else "", level)
        return StreamEvents(self.session, self.name).follow(after, wanted, follow)

    @property
    def live(self) -> LiveText | None:
        """The text of models in its jobs as it is generated; None if this process is not its host."""
        with self.session.reading() as store:
            service = running_service(store.address)
        host = host_of(service) if service is not None else None
        return host.live if host is not None and host.serves(self.name) else None

    def subscribe(
        self,
        function: Callable[[dict[str, Any]], object],
        *,
        name: str,
        kinds: Collection[str] | str = (),
        level: str = "calls",
    ) -> Subscription:
        """Call a function with every event, in a thread of its own; the same name continues where it was."""
        return Subscription(self.session, self.name, function, name, EventFilter(kinds, "", level))

    def decisions(self, job: str = "") -> list[dict[str, Any]]:
        """What agents decided in jobs (`current_trial().decide`), in order; of one job if one is given."""
        return [
            {"job": event["task"], "at": event["at"], **event["value"]}
            for event in self.events(job, kinds="step.recorded")
            if event["name"].startswith(DECISION)
        ]

    def goals(self) -> list[dict[str, Any]]:
        """How its goals stand: met, missed or undecided, valid however often one looks."""
        return [look.document() for look in goal_statuses(self.session, self.name)]

    def experiment(self, arm: str = "") -> dict[str, Any]:
        """How its live experiment stands: arms with their shares, and how one differs from the others.

        Differences are valid however often one looks, with how they came about. Without a name the arm is the
        winner, or the first one. Raises Unknown if nothing is compared.
        """
        found: dict[str, Any] = msgspec.to_builtins(experiment_status(self.session, self.name, arm))
        return found

    def pause(self) -> None:
        """Begin no more jobs until it is resumed; what runs may finish, and jobs may be submitted."""
        self._command(PAUSE)

    def resume(self) -> None:
        """Go on."""
        self._command(RESUME)

    def drain(self) -> None:
        """Let the host take no more jobs of this stream, finish those it has, and then end the stream."""
        self._command(DRAIN)

    def is_served(self) -> bool:
        """Whether a host does its jobs now, or will when it is resumed."""
        with self.session.reading() as store:
            run, _ = last_opening(store, self.name)
            return store.owner() is not None and with_current_status(run, store).status in UNDER_WAY

    def _command(self, word: str) -> None:
        if not self.is_served():
            raise StoreInUse(f"stream {self.name!r}: no host serves it")
        with self.session.reading() as store:
            run, _ = last_opening(store, self.name)
        about = "" if word == DRAIN else run.id
        self._deliver(Command(word, about, self._by, body={"stream": self.name}))

    def _deliver(self, command: Command) -> None:
        """Let the owner of the store execute a command; it is executed when this returns."""
        if self._host is not None and not self._host.ended:
            self._host.execute(command)
        else:
            deliver(self.session, command)

    def results(self, since: float | str | None = None) -> Results:
        """The results of its ended jobs, of the last `since` seconds ("7d") or of all times."""
        return app.stream_results(self.session, self.name, None if since is None else seconds(since))

    def stats(self, window: float | str = WINDOW) -> dict[str, Any]:
        """Jobs by state, free places, the age of the queue, and of the last hour (or another `window`):
        quantiles of waiting and running, rate, cost, share of failures with its 95% interval."""
        with self.session.reading() as store:
            return stream_stats(store, self.name, len(self._sent()), seconds(window))


def _why(row: Task) -> str | None:
    """Why a job ended without an output: the type of what was raised and its message, or who cancelled it."""
    failure = row.result.failure
    if failure is None or row.state is State.cancelled:
        return failure.message if failure else None
    return f"{failure.type}: {failure.message}"


def streams_of(session: Session) -> list[dict[str, Any]]:
    """The statistics of every stream in a store."""
    with session.reading() as store:
        names = stream_names(store)
    return [StreamView(session, name).stats() for name in names]


class _Declared:
    """A stream as its declaration knows it: enough to submit a job."""

    def __init__(self, declaration: Declaration) -> None:
        self.name, self._session = declaration.name, declaration.session

    def session_of(self, input: Json) -> str:
        return session_in(self._session, input)
