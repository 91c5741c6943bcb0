"""Recording results that were produced elsewhere, as a run of their own."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from peira.core.contracts import Op, RunQuery, Store
from peira.core.failpoints import reach
from peira.core.ids import Json, canonical, compose, digest_bytes, short
from peira.core.log.events import (
    NOTHING,
    TERMINAL,
    Artifact,
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
from peira.core.log.state import Task
from peira.engine import kinds
from peira.engine.journal import INLINE, payload
from peira.engine.progress import LEFT, REUSED
from peira.engine.run_start import RunDescription, planned_on
from peira.engine.stages import GENERATE
from peira.errors import StoreDamaged
from peira.plan.diff.history import Readable
from peira.plan.manifest import Manifest, layout_of
from peira.plan.score_ids import output_digest

GROUP, MOST_BYTES = 500, 4 << 20
"""The most results, and bytes of blobs, of one commit."""
MOST_RUNS = 10_000
ENDED = (Status.completed, Status.failures)
"""Statuses of runs that ran to their end."""
IMPORTED = kinds.IMPORTED
"""The tag of imported runs, and the key of their results' origin in `about`."""


class ImportOrigin(NamedTuple):
    """Where results come from: a description, and the SHA-256 digest of the content."""

    what: str
    digest: str

    def __str__(self) -> str:
        return f"{self.what} (sha256 {short(self.digest)})"


class ImportedResult(msgspec.Struct, frozen=True, gc=False):
    """A result to import: its place in the file, the task it belongs to, and how that task ended."""

    where: tuple[str, int]
    """The file and the line."""
    task: str
    state: State
    result: Result
    blobs: tuple[bytes, ...] = ()

    @property
    def digest(self) -> str:
        """The identity of the result among results of its task; failures are all equal ("")."""
        return output_digest(self.result) if self.state is State.succeeded else ""


class ImportDetails(msgspec.Struct, frozen=True):
    """What is recorded of an imported result beside its value: origin, duration, metrics, notes."""

    origin: ImportOrigin
    took: float = 0.0
    metrics: Mapping[str, float] = {}
    about: Mapping[str, str] = {}
    attached: Mapping[str, bytes] = {}
    """Files (JSON) to keep with the result, by name."""

    def result(self, output: msgspec.Raw = NOTHING, blob: str = "", failure: Failure | None = None) -> Result:
        """The result record for a value (inline or blob) or a failure."""
        about = {**self.about, IMPORTED: str(self.origin)}
        artifacts = tuple(
            Artifact(name, digest_bytes(data), len(data), "application/json")
            for name, data in self.attached.items()
        )
        return Result(round(self.took, 6), output, blob, failure, dict(self.metrics), artifacts, about)

    @property
    def blobs(self) -> tuple[bytes, ...]:
        """The content of the attached files."""
        return tuple(self.attached.values())


def succeeded(where: tuple[str, int], task: str, value: Json, circumstances: ImportDetails) -> ImportedResult:
    """An imported success; `value` must be normalised already."""
    output, blob, blobs = payload(canonical(value), INLINE)
    kept = (*blobs, *circumstances.blobs)
    return ImportedResult(where, task, State.succeeded, circumstances.result(output, blob), kept)


def failed(
    where: tuple[str, int], task: str, failure: Failure, circumstances: ImportDetails
) -> ImportedResult:
    """An imported failure."""
    return ImportedResult(
        where, task, State.failed, circumstances.result(failure=failure), circumstances.blobs
    )


def grouped(incoming: Iterable[ImportedResult]) -> Iterator[list[ImportedResult]]:
    """Split results into groups for one commit each, bounded in number and bytes."""
    group: list[ImportedResult] = []
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
    """Records imported results of one kind of task, for one manifest, in one run.

    `refuse` is called with (file, line, reason) for each result that is not recorded. The run is opened with
    the first result that is new. `same` counts results that were recorded already, `ended` those recorded
    here.
    """

    store: Store
    manifest: str
    trials: int
    kind: str
    cls: str
    owner: int
    origin: ImportOrigin
    now: Callable[[], float]
    refuse: Callable[[str, int, str], None]
    run: str = ""
    same: int = 0
    ended: Counter[State] = field(default_factory=Counter)

    def take(self, incoming: Sequence[ImportedResult]) -> None:
        """Record the results that are new, durably; refuse those that contradict a recorded one."""
        rows: dict[str, Task] = self.store.find("task", [one.task for one in incoming])
        fresh: dict[str, ImportedResult] = {}
        for one in incoming:
            if (why := self._refusal(one, fresh.get(one.task), rows.get(one.task))) is None:
                fresh[one.task] = one
            elif why:
                self.refuse(*one.where, why)
            else:
                self.same += 1
        if fresh:
            self._write(list(fresh.values()), rows)

    def _refusal(self, one: ImportedResult, twin: ImportedResult | None, row: Task | None) -> str | None:
        """Why a result is not recorded; "" if an equal one is there already, None if it is new."""
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

    def _write(self, fresh: Sequence[ImportedResult], rows: Mapping[str, Task]) -> None:
        """Claim and finish the tasks of new results in one commit."""
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
        """Open the run durably and return its id."""
        self.run = compose("run", self.manifest, uuid.uuid4().hex)
        started = RunStarted(str(self.owner), self.owner)
        notes = RunNoted(f"imported from {self.origin}"), RunNoted(f"sha256 of that: {self.origin.digest}")
        planned = planned_on(
            self.manifest, self.trials, self.store, self.now(), RunDescription(tags=(IMPORTED,))
        )
        self.store.commit([Op(self.run, (planned, started, *notes))]).result()
        return self.run

    def finish(self, others: Mapping[str, int]) -> None:
        """End the run; `others` are counts of results it did not record itself."""
        here = {f"{self.kind}.{state}": n for state, n in self.ended.items()}
        counts = {"planned": self.trials, **here, **{key: n for key, n in others.items() if n}}
        status = Status.failures if self.ended[State.failed] else Status.completed
        reason = f"imported from {self.origin}"
        reach("engine.before_finish")
        self.store.commit([Op(self.run, (RunFinished(status, counts, reason),))]).result()


def newest_ended_run(store: Readable, study: str, manifest: str) -> str:
    """The newest run of this manifest that ran to its end; "" if there is none."""
    runs = store.runs(RunQuery(study=study, limit=MOST_RUNS))
    ours = [run.id for run in runs if run.manifest == manifest and run.status in ENDED]
    return ours[0] if ours else ""


def standing(manifest: Manifest, store: Store, run: str) -> dict[str, int]:
    """Count the trials of a plan that `run` did not record: with an output (reused), or without (left)."""
    counts: Counter[str] = Counter()
    layout = layout_of(manifest, store.get, store)
    places = layout.places()
    while ids := [layout.trial_id(place) for place in islice(places, GROUP)]:
        rows: dict[str, Task] = store.find("task", ids)
        for row in map(rows.get, ids):
            if row is None or row.run != run or row.state not in TERMINAL:
                counts[REUSED if row is not None and row.state is State.succeeded else LEFT] += 1
    return {f"{GENERATE}.{how}": n for how, n in counts.items()}
