"""Does a store tell one story? Its events are replayed, and everything else it holds is held against them.

The history is streamed; the rows it leads to are kept, since comparing them is the point. Meant for a
store at rest: under a writer, rows and events would be read at different moments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from peira.core import events as ev
from peira.core.contracts import Catalogue, Store
from peira.core.events import TERMINAL, Record, Result
from peira.core.ids import short
from peira.core.state import Call, Run, Task, apply
from peira.errors import Fenced, StoreDamaged, Unknown
from peira.stores.fold import Rows


class Inspectable(Store, Catalogue, Protocol):
    """A store that can say what is in it."""

    def damage(self) -> list[str]:
        """What is wrong with how it is kept, whatever it says; one line each."""
        ...


def verify(store: Inspectable) -> list[str]:
    """Every way in which the store contradicts itself, one line each; none if it is sound."""
    if damage := store.damage():
        return damage  # there is no telling what a reading would give
    replay = _Replay()
    for record in store.history():
        replay.take(record)
    return [*replay.problems, *_projections(store, replay.view), *_blobs(store, replay)]


class _Replay:
    """The fold of the whole history, and what was noticed on the way."""

    def __init__(self) -> None:
        self.view = Rows()
        self.problems: list[str] = []
        self.named: dict[str, str] = {}
        self.manifests: dict[str, str] = {}
        self._ends: set[tuple[str, str]] = set()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def take(self, record: Record) -> None:
        event = record.event
        self._number(record)
        try:
            apply(self.view, record)
        except Fenced as refusal:
            self._say(record, f"could not have been accepted: {refusal}")
            return
        self.named.update((digest, _place(record)) for digest in _named(event))
        if isinstance(event, ev.RunPlanned):
            self.manifests.setdefault(event.manifest, _place(record))
        elif isinstance(event, (ev.TaskFinished, ev.TaskReused)):
            self._end(record, event)
        elif isinstance(event, ev.RunFinished):
            self._reconcile(record, event)

    def _say(self, record: Record, problem: str) -> None:
        self.problems.append(f"{_place(record)}: {problem}")

    def _number(self, record: Record) -> None:
        run = self.view.runs.get(record.run)
        due = run.next_seq if run else 1
        if record.seq != due:
            self._say(record, f"event {due} should stand here")

    def _end(self, record: Record, event: ev.TaskFinished | ev.TaskReused) -> None:
        if (record.run, event.task) in self._ends:
            self._say(record, f"task {short(event.task)} ends a second time in this run")
        self._ends.add((record.run, event.task))
        if isinstance(event, ev.TaskFinished):
            if event.state not in TERMINAL:
                self._say(record, f"task {short(event.task)} is said to end as {event.state}")
            self._counts[record.run][f"{self.view.tasks[event.task].kind}.{event.state}"] += 1

    def _reconcile(self, record: Record, event: ev.RunFinished) -> None:
        """The counts a run closed with, against its events and against its plan."""
        seen = self._counts.pop(record.run, Counter())
        if not event.counts:
            return
        said = {k: n for k, n in event.counts.items() if k.rpartition(".")[2] in TERMINAL}
        for key in sorted(said.keys() | seen.keys()):
            if said.get(key, 0) != seen[key]:
                self._say(record, f"counts {said.get(key, 0)} {key}, its events {seen[key]}")
        planned = event.counts.get("planned", 0)
        if planned and planned not in _sums(event.counts).values():
            self._say(record, f"planned {planned}, but no kind of task adds up to that")


def _sums(counts: dict[str, int]) -> Counter[str]:
    """How many tasks of each kind are accounted for."""
    sums: Counter[str] = Counter()
    for key, n in counts.items():
        kind, dot, _ = key.rpartition(".")
        sums[kind] += n if dot else 0
    return sums


def _place(record: Record) -> str:
    return f"run {short(record.run)}, event {record.seq}"


def _named(event: ev.AnyEvent) -> Iterator[str]:
    """The blobs that an event says are there."""
    result = getattr(event, "result", None)
    if isinstance(result, Result):
        yield from (artifact.digest for artifact in result.artifacts)
        yield from filter(None, [result.blob])
    if isinstance(event, ev.RunPlanned):
        yield from filter(None, [event.manifest, event.provenance])
    elif isinstance(event, (ev.StepRecorded, ev.CallAnswered)):
        yield from filter(None, [event.blob])
    elif isinstance(event, ev.CallIntended):
        yield event.request
    elif isinstance(event, ev.Attached):
        yield event.artifact.digest


def _projections(store: Inspectable, view: Rows) -> Iterator[str]:
    """Rows that differ from the replay, that should not be, or that are not there."""
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
    return ", ".join(
        f"{field} is {getattr(row, field)!r} but by its events {getattr(expected, field)!r}"
        for field in row.__struct_fields__
        if getattr(row, field) != getattr(expected, field)
    )


class _Manifest(msgspec.Struct):
    """The blobs that a manifest points to."""

    case_sets: dict[str, str] = {}
    sources: dict[str, str] = {}


def _blobs(store: Inspectable, replay: _Replay) -> Iterator[str]:
    """Blobs that are damaged, leftovers among them, and blobs that are named and not there."""
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


def _read_manifest(store: Inspectable, digest: str, place: str, named: dict[str, str]) -> Iterator[str]:
    try:
        manifest = msgspec.json.decode(store.get(digest), type=_Manifest)
    except (StoreDamaged, Unknown):  # told already, as the blob that it is
        return
    except msgspec.DecodeError as problem:
        yield f"blob {digest}: is no manifest ({place}): {problem}"
        return
    for part in (*manifest.case_sets.values(), *manifest.sources.values()):
        named.setdefault(part, f"{place}, manifest")
