"""Verification of a store: its events are replayed, and everything else is compared with them.

The history is streamed; the rows it leads to are held in memory, because they are what is compared. Of a
store that can give a snapshot, everything is read as it is at one moment; others are meant to have no writer
meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from peira.core.contracts import Inspectable, Snapshots
from peira.core.ids import short
from peira.core.log import events as ev
from peira.core.log.events import TERMINAL, Record, Result
from peira.core.log.state import Call, Run, Task, apply, rows_of
from peira.errors import Fenced, StoreDamaged, Unknown
from peira.stores.fold import RowView


class Verifiable(Inspectable, Protocol):
    """A store whose complete contents can be read."""

    def get(self, digest: str) -> bytes:
        """As `Store.get`."""
        ...


def verify(store: Verifiable) -> list[str]:
    """Every inconsistency of the store, one line each; empty if it is sound."""
    if isinstance(store, Snapshots):
        with store.snapshot() as frozen:
            return _problems(frozen)
    return _problems(store)


def _problems(store: Verifiable) -> list[str]:
    """Every inconsistency of a store that does not change meanwhile."""
    if damage := store.damage():
        return damage  # what a damaged file returns cannot be trusted
    replay = _Replay()
    for record in store.history():
        replay.take(record)
    return [*store.losses(), *replay.problems, *_projections(store, replay.view), *_blobs(store, replay)]


class _Replay:
    """The fold of the whole history, and the problems found on the way."""

    def __init__(self) -> None:
        self.view = RowView()
        self.problems: list[str] = []
        self.named: dict[str, str] = {}
        self.manifests: dict[str, str] = {}
        self._ends: set[tuple[str, str]] = set()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def take(self, record: Record) -> None:
        """Apply the next record and check it."""
        event = record.event
        self._number(record)
        if isinstance(event, ev.Unreadable):
            self._report(record, f"cannot be read: {event.why}")
        try:
            apply(self.view, record)
        except Fenced as refusal:
            self._report(record, f"could not have been accepted: {refusal}")
            return
        self.named.update((digest, _place(record)) for digest in _referenced_blobs(event))
        if isinstance(event, ev.RunPlanned):
            if event.manifest:  # a deleted run has none
                self.manifests.setdefault(event.manifest, _place(record))
        elif isinstance(event, (ev.TaskFinished, ev.TaskReused)):
            self._end(record, event)
        elif isinstance(event, ev.RunFinished):
            self._reconcile(record, event)

    def _report(self, record: Record, problem: str) -> None:
        """Add a problem of a record."""
        self.problems.append(f"{_place(record)}: {problem}")

    def _number(self, record: Record) -> None:
        """Check that the record has the next number of its run."""
        run = self.view.runs.get(record.run)
        due = run.next_seq if run else 1
        if record.seq != due:
            self._report(record, f"event {due} should stand here")

    def _end(self, record: Record, event: ev.TaskFinished | ev.TaskReused) -> None:
        """Check that a task ends once in a run, in a terminal state, and count it."""
        if (record.run, event.task) in self._ends:
            self._report(record, f"task {short(event.task)} ends a second time in this run")
        self._ends.add((record.run, event.task))
        if isinstance(event, ev.TaskFinished):
            if event.state not in TERMINAL:
                self._report(record, f"task {short(event.task)} is said to end as {event.state}")
            self._counts[record.run][f"{self.view.tasks[event.task].kind}.{event.state}"] += 1

    def _reconcile(self, record: Record, event: ev.RunFinished) -> None:
        """Compare the counts of a finished run with its events and its plan."""
        seen = self._counts[record.run]  # kept: a run that waited for people may be cancelled afterwards
        if not event.counts:
            return
        stated = {k: n for k, n in event.counts.items() if k.rpartition(".")[2] in TERMINAL}
        for key in sorted(stated.keys() | seen.keys()):
            if stated.get(key, 0) != seen[key]:
                self._report(record, f"counts {stated.get(key, 0)} {key}, its events {seen[key]}")
        planned = event.counts.get("planned", 0)
        if planned and planned not in _sums(event.counts).values():
            self._report(record, f"planned {planned}, but no kind of task adds up to that")


def _sums(counts: dict[str, int]) -> Counter[str]:
    """How many tasks of each kind the counts contain."""
    sums: Counter[str] = Counter()
    for key, n in counts.items():
        kind, dot, _ = key.rpartition(".")
        sums[kind] += n if dot else 0
    return sums


def _place(record: Record) -> str:
    """The position of a record, for messages."""
    return f"run {short(record.run)}, event {record.seq}"


def blobs_of(store: Verifiable, get: Callable[[str], bytes]) -> set[str]:
    """The digests of all blobs that the events of a store refer to, with those that manifests name.

    `get` reads manifests, which may be in another store.
    """
    found: set[str] = set()
    manifests: set[str] = set()
    for record in store.history():
        found.update(_referenced_blobs(record.event))
        if isinstance(record.event, ev.RunPlanned) and record.event.manifest:
            manifests.add(record.event.manifest)
    for manifest in manifests:
        parts = msgspec.json.decode(get(manifest), type=_Manifest)
        found.update((*parts.case_sets.values(), *parts.sources.values()))
    return found


def _referenced_blobs(event: ev.AnyEvent) -> Iterator[str]:
    """The blobs that an event refers to."""
    result = getattr(event, "result", None)
    if isinstance(result, Result):
        yield from _blobs_of_result(result)
    if isinstance(event, ev.RunPlanned):
        yield from filter(None, [event.manifest, event.provenance, event.stream])
    elif isinstance(event, ev.TasksQueued):
        yield from filter(None, (spec.payload for spec in event.tasks))
    elif isinstance(event, (ev.StepRecorded, ev.SessionWritten, ev.CallAnswered, ev.QuestionAsked)):
        yield from filter(None, [event.blob])
    elif isinstance(event, ev.CallIntended):
        yield event.request
    elif isinstance(event, ev.Attached):
        yield event.artifact.digest
    elif isinstance(event, ev.RowsKept):
        tasks, calls = rows_of(event)
        for task in tasks:
            yield from filter(None, [task.payload])
            yield from _blobs_of_result(task.result)
        for call in calls:
            yield from filter(None, [call.request, call.blob])


def _blobs_of_result(result: Result) -> Iterator[str]:
    """The blobs that a result refers to."""
    yield from (artifact.digest for artifact in result.artifacts)
    yield from filter(None, [result.blob, result.trail])


def _projections(store: Verifiable, view: RowView) -> Iterator[str]:
    """Rows that differ from the replay, that no event explains, or that are missing."""
    due: dict[type, dict[str, Any]] = {Task: view.tasks, Call: view.calls, Run: view.runs}
    for row in store.rows():
        key = row.key if isinstance(row, Call) else row.id
        name = f"{type(row).__name__.lower()} {short(key)}"
        expected = due[type(row)].pop(key, None)
        if expected is None:
            yield f"{name}: has a row that no event accounts for"
        elif expected != row:
            yield f"{name}: {_difference(row, expected)}"
    for kind, rows in due.items():
        yield from (f"{kind.__name__.lower()} {short(key)}: has events and no row" for key in rows)


def _difference(row: Task | Call | Run, expected: Any) -> str:
    """The fields in which a row differs from the replay."""
    return ", ".join(
        f"{field} is {getattr(row, field)!r} but by its events {getattr(expected, field)!r}"
        for field in row.__struct_fields__
        if getattr(row, field) != getattr(expected, field)
    )


class _Manifest(msgspec.Struct):
    """The blobs that a manifest refers to."""

    case_sets: dict[str, str] = {}
    sources: dict[str, str] = {}


def _blobs(store: Verifiable, replay: _Replay) -> Iterator[str]:
    """Damaged and unfinished blobs, and blobs that are referred to and missing."""
    kept: set[str] = set()
    for digest, _, wrong in store.blobs():
        kept.add(digest)
        if wrong:
            yield f"blob {digest}: {wrong}"
    for manifest, place in replay.manifests.items():
        if manifest in kept:
            yield from _read_manifest(store, manifest, place, replay.named)
    for digest, place in replay.named.items():
        if digest not in kept:
            yield f"blob {digest}: is missing ({place})"


def _read_manifest(store: Verifiable, digest: str, place: str, named: dict[str, str]) -> Iterator[str]:
    """Add the blobs that a manifest refers to; a problem if it cannot be parsed."""
    try:
        manifest = msgspec.json.decode(store.get(digest), type=_Manifest)
    except (StoreDamaged, Unknown):  # reported already as a damaged blob
        return
    except msgspec.DecodeError as problem:
        yield f"blob {digest}: is no manifest ({place}): {problem}"
        return
    for part in (*manifest.case_sets.values(), *manifest.sources.values()):
        named.setdefault(part, f"{place}, manifest")
