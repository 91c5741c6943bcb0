"""The source of a stream's jobs: it stays open while the stream is served, and offers jobs as they come.

Jobs of a synchronized session are offered one at a time, in the order of their arrival: the next one when the
one before has ended, however long that waits. What follows from an output (an answer, scores) is as in a
study.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Any

from peira.core.context import Channel
from peira.core.contracts import Consequences, Ended, Offer, Store
from peira.core.ids import Json
from peira.core.log.events import TaskSpec
from peira.core.log.rows import Task
from peira.engine.sources.study import StudySource
from peira.engine.stages import GenerateWork
from peira.engine.streams.experiment import LiveExperiment
from peira.engine.streams.jobs import JOB, SHADOW, SHADOWS, Job, case_of, job_of, session_key, task_of
from peira.errors import Invalid
from peira.plan.expansion import Plan
from peira.plan.trials import Place
from peira.spec.streams.stream import Stream

Following = Callable[[str, Job, Mapping[str, Json], Ended], Consequences]
"""What is recorded with the end of a job, given its task's id and its factors; called with a lock of the
engine held."""


class ShadowChannel:
    """The channel of a shadow: as that of any attempt, but it asks no people."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def consult(self, questions: Sequence[Any]) -> Any:
        """Refuse: shadows may not ask people, because their outputs are not used."""
        raise Invalid("a shadow asks no people")

    def write_session(self, version: int, state: bytes, key: str, name: str) -> bool:
        """Record what the shadow would write; the session, which belongs to the real jobs, stays as it is."""
        self._channel.record(key, name, state).result()
        return True


class JobWork(GenerateWork):
    """The work of a job; `session_key` is that of the session that it shares, "" if it shares none."""

    session_key = ""


class ShadowWork(JobWork):
    """The work of a shadow: the same input under another condition, without people."""

    account = SHADOWS

    def perform(self, channel: Channel, epoch: int) -> Any:
        """The agent's output, or an awaitable of it."""
        shadow: Any = ShadowChannel(channel)
        return super().perform(shadow, epoch)


class StreamSource(StudySource):
    """The jobs of one stream while it is served."""

    unit = JOB

    def __init__(
        self,
        stream: Stream,
        plan: Plan,
        store: Store,
        following: Following | None,
        resources: Mapping[str, Any] = MappingProxyType({}),
        experiment: LiveExperiment | None = None,
    ) -> None:
        """`following` is None if nothing follows from ends of jobs, `experiment` if no arms are drawn."""
        super().__init__(plan, store, resources=resources)
        self._stream, self._following, self._experiment = stream, following, experiment
        self._lock = threading.Lock()
        self._queues: dict[str, list[tuple[int, int, TaskSpec, Job]]] = {}  # by class: heaps by priority
        self._order = count()  # first come, first served
        self._behind: dict[str, deque[tuple[TaskSpec, Job]]] = {}  # by session: after the one that is offered
        self._jobs: dict[str, Job] = {}  # offered, not ended
        self._grown: Callable[[], None] = lambda: None
        self._draining = self._ended = False

    @property
    def size(self) -> int | None:
        """None: jobs come as they come."""
        return None

    @property
    def closed(self) -> bool:
        """Whether it is being ended and has nothing more to offer; then it stays closed."""
        with self._lock:
            if self._draining and not any(self._queues.values()) and not self._behind:
                self._ended = True
            return self._ended

    @closed.setter
    def closed(self, _: bool) -> None:
        """Ignored: a stream is closed by `drain`, not by the engine."""

    def watch(self, grown: Callable[[], None]) -> None:
        self._grown = grown

    def performs(self, kind: str) -> bool:
        return kind in (JOB, SHADOW) or super().performs(kind)

    def add(self, jobs: Iterable[Job]) -> None:
        """Offer jobs that are queued in the store."""
        self._add((task_of(job)[0], job) for job in jobs)

    def restore(self, tasks: Iterable[Task]) -> None:
        """Offer tasks that an earlier opening of the stream has left, in the order of their arrival."""
        self._add((_spec(task), job_of(self._store.get(task.payload))) for task in tasks)

    def _add(self, tasks: Iterable[tuple[TaskSpec, Job]]) -> None:
        with self._lock:
            if self._ended:  # the run ends: what comes now stays queued, for the next host
                return
            for spec, job in tasks:
                if self._experiment is not None:
                    self._experiment.expect(spec.id, job)
                if self._is_ordered(job):
                    if job.session in self._behind:
                        self._behind[job.session].append((spec, job))
                        continue
                    self._behind[job.session] = deque()
                self._push(spec, job)
        self._grown()

    def _push(self, spec: TaskSpec, job: Job) -> None:
        heappush(self._queues.setdefault(spec.cls, []), (-spec.priority, next(self._order), spec, job))

    def _is_ordered(self, job: Job) -> bool:
        """Whether the job must wait for those of its session that came before it."""
        return self._stream.isolation == "synchronized" and bool(job.session) and not job.shadow_of

    def drain(self) -> None:
        """Take no more jobs; the run ends when all have ended."""
        with self._lock:
            self._draining = True
        self._grown()

    def foremost(self) -> dict[str, int]:
        """The priority of the next job, and of the next shadow."""
        with self._lock:
            return {cls: -queue[0][0] for cls, queue in self._queues.items() if queue}

    def more_of(self, cls: str, n: int) -> list[Offer]:
        """The next jobs, or shadows: highest priority first, then first come."""
        with self._lock:
            queue = self._queues.get(cls, [])
            taken = [heappop(queue) for _ in range(min(n, len(queue)))]
        return [self._offer(spec, job) for _, _, spec, job in taken]

    def more(self, n: int) -> list[Offer]:
        """The next jobs and shadows: `n` of each."""
        return [offer for cls in self.foremost() for offer in self.more_of(cls, n)]

    def _offer(self, spec: TaskSpec, job: Job) -> Offer:
        """The offer of a job under its condition; the scope of its calls is the job itself."""
        conditions = self._plan.layout.conditions
        condition = conditions[min(job.arm, len(conditions) - 1)]
        case = case_of(spec.id, job)
        self._at_hand[spec.id] = Place(0, condition, case, 0)
        self._jobs[spec.id] = job
        agent = self._plan.agents[condition.agent]
        make = ShadowWork if job.shadow_of else JobWork
        work = make(agent, spec.id, case.as_seen(), condition.factors, 0, self._resources)
        if job.session and self._stream.isolation != "isolated":
            work.session_key = session_key(self._stream.sessions or job.stream, job.session)
        return Offer(spec, work)

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        """The tasks that follow from an output; the next job of the session may begin."""
        job = self._jobs.pop(offer.spec.id, None)
        following = super().follow(offer, ended)
        if getattr(offer.work, "account", ""):  # scores of shadows are paid as shadows are
            for one in following:
                one.work.account = SHADOWS  # type: ignore[attr-defined]
        if self._experiment is not None:
            self._experiment.follow(offer, ended, following)
        if job is None:
            return following
        if self._is_ordered(job):
            with self._lock:
                behind = self._behind[job.session]
                if behind:
                    self._push(*behind.popleft())
                else:
                    del self._behind[job.session]
            self._grown()
        return following

    def with_end(self, offer: Offer, ended: Ended) -> Consequences:
        """What `after` triggers queue in the commit of a job's end."""
        if self._following is None or offer.spec.kind != JOB or not isinstance(offer.work, GenerateWork):
            return Consequences()
        job = job_of(self._store.get(offer.spec.payload))
        return self._following(offer.spec.id, job, offer.work.condition, ended)

    def _note_unsuccessful(self, offer: Offer) -> None:
        """Nothing: a stream is not run again."""


def _spec(task: Task) -> TaskSpec:
    """The task as it was queued."""
    return TaskSpec(**{field: getattr(task, field) for field in TaskSpec.__struct_fields__})
