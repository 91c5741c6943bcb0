"""Taking results that were made elsewhere into a store, as a run of its own.

Each result is a task that is claimed and ended in one commit, so that a kill leaves it recorded or not there
at all. What has a result keeps it: the same one again changes nothing, another one is refused. The run is
opened when there is something to record, and not before: taking the same results in again leaves no trace.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from peira.core.contracts import Op, RunQuery, Store
from peira.core.events import (
    NOTHING,
    TERMINAL,
    Failure,
    Result,
    RunFinished,
    RunNoted,
    RunStarted,
    State,
    Status,
    TaskFinished,
    TasksClaimed,
)
from peira.core.failpoints import reach
from peira.core.ids import Json, canonical, compose, short
from peira.core.state import Task
from peira.engine import kinds
from peira.engine.opening import planned_on
from peira.engine.payload import INLINE, payload
from peira.engine.progress import LEFT, REUSED
from peira.engine.work import GENERATE
from peira.errors import StoreDamaged
from peira.plan.history import Readable
from peira.plan.judging import output_digest
from peira.plan.manifest import Manifest, layout_of

GROUP, MOST_BYTES = 500, 4 << 20
MOST_RUNS = 10_000
ENDED = (Status.completed, Status.failures)
IMPORTED = kinds.IMPORTED
"""The tag of such runs, and what their results have in `about`."""


class Origin(NamedTuple):
    """Where results come from: what it is called, and the SHA-256 of its content."""

    what: str
    digest: str

    def __str__(self) -> str:
        return f"{self.what} (sha256 {short(self.digest)})"


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A result from elsewhere: where it was found, the task it is of, and how that ended."""

    where: tuple[str, int]
    task: str
    state: State
    result: Result
    blobs: tuple[bytes, ...] = ()

    @property
    def digest(self) -> str:
        """What sets it apart from another result of the same task; failures are all alike."""
        return output_digest(self.result) if self.state is State.succeeded else ""


class Circumstances(msgspec.Struct, frozen=True):
    """What is told of a result from elsewhere beside its value."""

    origin: Origin
    took: float = 0.0
    metrics: Mapping[str, float] = {}
    about: Mapping[str, str] = {}

    def result(self, output: msgspec.Raw = NOTHING, blob: str = "", failure: Failure | None = None) -> Result:
        said = {**self.about, IMPORTED: str(self.origin)}
        return Result(round(self.took, 6), output, blob, failure, dict(self.metrics), about=said)


def succeeded(where: tuple[str, int], task: str, value: Json, told: Circumstances) -> Incoming:
    """A normalised value as the result of a task."""
    output, blob, blobs = payload(canonical(value), INLINE)
    return Incoming(where, task, State.succeeded, told.result(output, blob), blobs)


def failed(where: tuple[str, int], task: str, failure: Failure, told: Circumstances) -> Incoming:
    return Incoming(where, task, State.failed, told.result(failure=failure))


def grouped(incoming: Iterable[Incoming]) -> Iterator[list[Incoming]]:
    """What is recorded together: a number of them, and not too much at once."""
    group: list[Incoming] = []
    size = 0
    for one in incoming:
        group.append(one)
        size += sum(map(len, one.blobs))
        if len(group) >= GROUP or size >= MOST_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


@dataclass
class Recorder:
    """Records results of one kind of task, for one manifest."""

    store: Store
    manifest: str
    trials: int
    kind: str
    cls: str
    owner: int
    origin: Origin
    now: Callable[[], float]
    refuse: Callable[[str, int, str], None]
    run: str = ""
    same: int = 0
    ended: Counter[State] = field(default_factory=Counter)

    def take(self, incoming: Sequence[Incoming]) -> None:
        """Record those that are new, durably; refuse those whose task has another result."""
        rows: dict[str, Task] = self.store.find("task", [one.task for one in incoming])
        fresh: dict[str, Incoming] = {}
        for one in incoming:
            if (why := self._refusal(one, fresh.get(one.task), rows.get(one.task))) is None:
                fresh[one.task] = one
            elif why:
                self.refuse(*one.where, why)
            else:
                self.same += 1
        if fresh:
            self._write(list(fresh.values()), rows)

    def _refusal(self, one: Incoming, twin: Incoming | None, row: Task | None) -> str | None:
        """Why it is not recorded; "" if it is there already."""
        if twin is not None:
            alike = twin.digest == one.digest
            return "" if alike else f"is answered otherwise by {twin.where[0]}:{twin.where[1]}"
        if row is None or row.state not in TERMINAL:
            return None
        if row.state is State.succeeded:
            alike = one.digest == output_digest(row.result)
            return "" if alike else "has another result already, which is kept"
        if one.state is not State.succeeded:
            return ""
        return "is said to have failed before, in the same file" if row.run == self.run else None

    def _write(self, fresh: Sequence[Incoming], rows: Mapping[str, Task]) -> None:
        run = self.run or self.begin()
        tasks = tuple(one.task for one in fresh)
        epochs = tuple(rows[task].epoch + 1 if task in rows else 1 for task in tasks)
        ends = [
            TaskFinished(one.task, epoch, one.state, one.result)
            for one, epoch in zip(fresh, epochs, strict=True)
        ]
        claim = TasksClaimed(self.kind, self.cls, str(self.owner), tasks, epochs)
        blobs = tuple(dict.fromkeys(blob for one in fresh for blob in one.blobs))
        [refusal] = self.store.commit([Op(run, (claim, *ends), blobs)]).result()
        if refusal:
            raise StoreDamaged(f"a result could not be recorded: {refusal}")
        self.ended.update(one.state for one in fresh)
        reach("engine.before_end")

    def begin(self) -> str:
        """Open the run, durably."""
        self.run = compose("run", self.manifest, uuid.uuid4().hex)
        started = RunStarted(str(self.owner), self.owner)
        said = RunNoted(f"imported from {self.origin}"), RunNoted(f"sha256 of that: {self.origin.digest}")
        planned = planned_on(self.manifest, self.trials, self.store, self.now(), tags=(IMPORTED,))
        self.store.commit([Op(self.run, (planned, started, *said))]).result()
        return self.run

    def finish(self, others: Mapping[str, int]) -> None:
        """End the run. `others` counts what it did not record itself."""
        here = {f"{self.kind}.{state}": n for state, n in self.ended.items()}
        counts = {"planned": self.trials, **here, **{key: n for key, n in others.items() if n}}
        status = Status.failures if self.ended[State.failed] else Status.completed
        reason = f"imported from {self.origin}"
        reach("engine.before_finish")
        self.store.commit([Op(self.run, (RunFinished(status, counts, reason),))]).result()


def former(store: Readable, study: str, manifest: str) -> str:
    """The newest run of this very plan that came to its end; "" if there is none."""
    runs = store.runs(RunQuery(study=study, limit=MOST_RUNS))
    ours = [run.id for run in runs if run.manifest == manifest and run.status in ENDED]
    return ours[0] if ours else ""


def standing(manifest: Manifest, store: Store, run: str) -> dict[str, int]:
    """How the trials of a plan stand that this run did not record: with an output, or without one yet."""
    counts: Counter[str] = Counter()
    layout = layout_of(manifest, store.get)
    places = layout.places()
    while ids := [layout.trial_id(place) for place in islice(places, GROUP)]:
        rows: dict[str, Task] = store.find("task", ids)
        for row in map(rows.get, ids):
            if row is None or row.run != run or row.state not in TERMINAL:
                counts[REUSED if row is not None and row.state is State.succeeded else LEFT] += 1
    return {f"{GENERATE}.{how}": n for how, n in counts.items()}
