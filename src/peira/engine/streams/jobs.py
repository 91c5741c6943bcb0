"""Jobs: one execution of a stream, as a task whose payload says what was submitted.

A job is queued by one op: the task, and its payload as a blob. Its id follows from the stream and its key, so
that the same key is the same job: the store refuses to queue a task twice.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from peira.core.contracts import Op
from peira.core.ids import Json, compose, digest, digest_bytes, normalise, seed_of
from peira.core.log.events import State, TaskSpec, TasksQueued
from peira.core.log.rows import Task
from peira.core.looks import Traffic
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.plan.trials import PlannedCase

JOB, SHADOW = "job", "shadow"
"""The kinds of tasks: a job, and the same input under another condition, whose output answers nobody."""
SHADOWS = "shadows"
"""The account of shadows: they have a budget of their own."""
MOST_HOPS = 8
"""How many jobs may follow from one another by `after` triggers."""
MOST_INPUT = 8 * 2**20
"""Bytes of the largest input."""
MOST_KEY = 500


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was submitted to a stream, and what was drawn for it.

    `key` makes it unique, `group` relates it to others, `trigger` and `cause` say what created it, after so
    many `hops`. `arm` is the index of its condition. If it was drawn, `shares` are the probabilities of all
    arms at that moment, and `experiment` is what it was drawn for. A shadow names the job whose input it has.
    """

    stream: str
    input: Any = None
    key: str = ""
    session: str = ""
    group: str = ""
    priority: int = 0
    expected: Any = None
    at: float = 0.0
    trigger: str = ""
    cause: str = ""
    hops: int = 0
    arm: int = 0
    shadow_of: str = ""
    experiment: str = ""
    shares: tuple[float, ...] = ()


_decode = msgspec.json.Decoder(Job).decode


def job_of(payload: bytes) -> Job:
    """The job of a task's payload."""
    return _decode(payload)


def class_of(stream: str, kind: str = JOB) -> str:
    """The class of the tasks of a stream."""
    return f"{kind}.{stream}"


def job_id(stream: str, key: str, arm: int = 0) -> str:
    """The id of the job with this key, or of its shadow under another condition."""
    return compose(JOB, digest([stream, key]), *([arm] if arm else []))


def session_key(sessions: str, session: str) -> str:
    """The key of the state of a session; `sessions` is the name of the sessions of one or more streams."""
    return compose("session", digest([sessions, session]))


class Submittable(Protocol):
    """A stream, as far as submissions need it."""

    @property
    def name(self) -> str:
        """The name of the stream."""
        ...

    def session_of(self, input: Json) -> str:
        """The session that a job with this input belongs to."""
        ...


def submitted(
    stream: Submittable,
    input: Json,
    *,
    at: float,
    key: str | None = None,
    priority: int = 0,
    group: str = "",
    expected: Json = None,
    trigger: str = "",
    cause: str = "",
    hops: int = 0,
) -> Job:
    """The job of a submission; Invalid says everything that is wrong with it."""
    problems, session = list[str](), ""
    try:
        input, expected = normalise(input, "input"), normalise(expected, "expected")
        session = stream.session_of(input)
        if len(msgspec.json.encode(input)) > MOST_INPUT:
            problems.append(f"input: more than {MOST_INPUT:,} bytes")
    except Invalid as error:
        problems += error.problems
    if key is not None and (not key or len(key) > MOST_KEY or not key.isprintable()):
        problems.append(f"key: must be 1 to {MOST_KEY} printable characters")
    if not -1000 <= priority <= 1000:
        problems.append(f"priority: must lie between -1000 and 1000, not {priority}")
    if problems:
        raise Invalid(problems)
    return Job(
        stream=stream.name,
        input=input,
        key=uuid.uuid4().hex if key is None else key,
        session=session,
        group=group,
        priority=priority,
        expected=expected,
        at=at,
        trigger=trigger,
        cause=cause,
        hops=hops,
    )


SUBMITTED = ("input", "key", "priority", "group", "expected")
"""What a submission may say."""


def submissions(
    stream: Submittable, jobs: Iterable[Mapping[str, Any]], at: float, trigger: str = ""
) -> list[Job]:
    """The jobs of several submissions; Invalid says everything that is wrong with any of them."""
    made, problems = list[Job](), list[str]()
    given = list(jobs)
    for n, one in enumerate(given):
        where = "" if len(given) == 1 else f"jobs[{n}]."
        unknown = [name for name in one if name not in SUBMITTED]
        problems += [f"{where}{name}: is not known here{nearest(name, SUBMITTED)}" for name in unknown]
        try:
            if not unknown:
                made.append(submitted(stream, one.get("input"), at=at, trigger=trigger, **_options(one)))
        except Invalid as error:
            problems += [f"{where}{problem}" for problem in error.problems]
    if problems:
        raise Invalid(problems)
    return made


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a submission beside its input, as far as they have the right type."""
    options: dict[str, Any] = {name: given[name] for name in SUBMITTED[1:] if name in given}
    kinds: dict[str, tuple[type, ...]] = {"key": (str, type(None)), "priority": (int,), "group": (str,)}
    wrong = [
        f"{name}: must be {kind[0].__name__}, not {options[name]!r}"
        for name, kind in kinds.items()
        if name in options and (not isinstance(options[name], kind) or isinstance(options[name], bool))
    ]
    if wrong:
        raise Invalid(wrong)
    return options


def drawn_arm(job: str, shares: Sequence[float]) -> int:
    """The condition of a job: drawn with these probabilities, the same every time.

    From a seed that follows from the job's, so that it is independent of the agent's own random numbers.
    """
    seed = seed_of(compose("arm", job))
    return random.Random(seed).choices(range(len(shares)), weights=shares)[0]


def assigned(assign: str, job: Job, arms: int, traffic: Traffic | None = None) -> list[Job]:
    """The job with its condition, drawn as the traffic says; with "all", followed by its shadows."""
    if traffic is not None:
        if traffic.winner >= 0:
            return [msgspec.structs.replace(job, arm=traffic.winner)]
        arm = drawn_arm(job_id(job.stream, job.key), traffic.shares)
        drawn = {"experiment": traffic.experiment, "shares": traffic.shares}
        return [msgspec.structs.replace(job, arm=arm, **drawn)]
    if assign == "all":
        shadow_of = job_id(job.stream, job.key)
        shadows = (msgspec.structs.replace(job, arm=arm, shadow_of=shadow_of) for arm in range(1, arms))
        return [job, *shadows]
    return [job]


def task_of(job: Job) -> tuple[TaskSpec, bytes]:
    """The task of a job, and its payload."""
    body = msgspec.json.encode(job)
    kind = SHADOW if job.shadow_of else JOB
    id = job_id(job.stream, job.key, job.arm if job.shadow_of else 0)
    labels = {"key": job.key, "session": job.session, "group": job.group, "at": f"{job.at:.6f}"}
    spec = TaskSpec(
        id=id,
        kind=kind,
        cls=class_of(job.stream, kind),
        priority=job.priority,
        payload=digest_bytes(body),
        labels={name: text for name, text in labels.items() if text},
    )
    return spec, body


def queued(run: str, jobs: Sequence[Job]) -> Op:
    """The op that queues a job with its shadows."""
    tasks = [task_of(job) for job in jobs]
    return Op(run, (TasksQueued(tuple(spec for spec, _ in tasks)),), tuple(body for _, body in tasks))


def case_of(task: str, job: Job) -> PlannedCase:
    """The job as a case: its id is the task's, its cluster the session."""
    metadata: dict[str, Json] = {"key": job.key, **({"group": job.group} if job.group else {})}
    return PlannedCase(
        id=task,
        seen=digest([task]),
        input=job.input,
        expected=job.expected,
        cluster=job.session or None,
        metadata=metadata,
    )


def listed(task: Task | TaskSpec, state: State) -> dict[str, Json]:
    """A job as lists show it."""
    labels = task.labels
    return {
        "job": task.id,
        "key": labels.get("key", ""),
        "state": str(state),
        "session": labels.get("session", ""),
        "group": labels.get("group", ""),
        "priority": task.priority,
    }


def facts_of(job: Job, state: State, output: Json, factors: Mapping[str, Json]) -> dict[str, Any]:
    """What the condition of an `after` trigger may name, of a job that ended."""
    return {
        "input": job.input,
        "output": output,
        "state": state.value,
        "key": job.key,
        "session": job.session,
        "group": job.group,
        "factors": dict(factors),
    }
