"""The reference store: everything in dictionaries, nothing on disk; also a public fake for tests."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import CallQuery, CallTotals, JobQuery, Op, Outcome, RunQuery
from peira.core.ids import digest_bytes
from peira.core.log.events import CallIntended, Record, State, Status, TasksClaimed
from peira.core.log.state import Call, Run, Task, touched
from peira.errors import Unknown
from peira.stores.fold import RowView, fold
from peira.stores.rows import submitted

UNLISTED = (Status.frozen, Status.deleted)
ACTIVE = (State.running, State.cancelling)


class MemoryStore:
    """A store in memory, for one process; it implements `OpenStore` in the simplest way."""

    readonly = False
    incarnation = 1

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._rows = RowView()
        self._log: list[Record] = []
        self._blobs: dict[str, bytes] = {}

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        """Fold the ops at once; the future is already resolved."""
        done: Future[list[Outcome]] = Future()
        with self._lock:
            for op in ops:
                self._blobs.update((digest_bytes(data), data) for data in op.blobs)
            records, _, outcomes = fold(self._rows, ops, self._clock.now())
            self._log += records
        done.set_result(outcomes)
        return done

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        """Claim ready tasks under the lock."""
        with self._lock:
            ready = sorted(
                filter(self._ready(classes), self._rows.tasks.values()), key=lambda t: -t.priority
            )[:n]
            ops = [Op(run, (TasksClaimed(t.kind, t.cls, owner, (t.id,), (t.epoch + 1,)),)) for t in ready]
            outcomes = self.commit(ops).result()
            return [self._rows.tasks[t.id] for t, no in zip(ready, outcomes, strict=True) if not no]

    def _ready(self, classes: Sequence[str]):  # type: ignore[no-untyped-def]
        """A predicate for tasks that may be claimed now."""
        now, tasks = self._clock.now(), self._rows.tasks

        def ready(task: Task) -> bool:
            return (
                task.state is State.queued
                and task.cls in classes
                and task.not_before <= now
                and all(need in tasks and tasks[need].state is State.succeeded for need in task.needs)
            )

        return ready

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        with self._lock:
            table: Mapping[str, Any] = getattr(self._rows, f"{kind}s")
            return {key: table[key] for key in keys if key in table}

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        with self._lock:
            return [r for r in self._log if r.run == run and r.seq > after][:limit]

    def put(self, data: bytes) -> str:
        digest = digest_bytes(data)
        with self._lock:
            self._blobs[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        with self._lock:
            if digest not in self._blobs:
                raise Unknown(f"no blob {digest} in this store")
            return self._blobs[digest]

    def runs(self, query: RunQuery) -> list[Run]:
        with self._lock:
            newest = list(self._rows.runs.values())[::-1]
            if query.since or query.until:
                newest.sort(key=lambda run: run.planned, reverse=True)
            if query.after in self._rows.runs:
                began = list(self._rows.runs)
                later = set(began[began.index(query.after) + 1 :])
                newest = [run for run in newest if run.id in later]
            return [run for run in newest if matches(run, query)][: query.limit]

    def calls(self, query: CallQuery) -> list[Call]:
        with self._lock:
            return self._called(query)[: query.limit]

    def tally(self, query: CallQuery) -> CallTotals:
        with self._lock:
            calls = self._called(query)
        return CallTotals(
            states=dict(Counter(call.state for call in calls)),
            input=sum(max(call.input, 0) for call in calls),
            output=sum(max(call.output, 0) for call in calls),
            cost=sum(max(call.cost, 0.0) for call in calls),
            unpriced=sum(call.cost < 0 for call in calls if call.state in ("answered", "void")),
        )

    def _called(self, query: CallQuery) -> list[Call]:
        """The calls that match the query, latest first."""
        number = {run: n for n, run in enumerate(self._rows.runs)}
        intents = ((r, r.event.key) for r in self._log if isinstance(r.event, CallIntended))
        asked = {key: (number[record.run], record.seq) for record, key in intents}
        calls = (self._rows.calls[key] for key in sorted(asked, key=asked.__getitem__, reverse=True))
        return [call for call in calls if meant(call, query)]

    def about(self, tasks: Sequence[str], until: str = "") -> list[Record]:
        wanted = set(tasks)
        with self._lock:
            runs = list(self._rows.runs)
            counted = set(runs[: runs.index(until) + 1] if until in runs else runs)
            return [r for r in self._log if r.run in counted and not wanted.isdisjoint(touched(r.event))]

    def changed_since(self, run: str) -> list[str]:
        with self._lock:
            runs = list(self._rows.runs)
            until = set(runs[: runs.index(run) + 1])
            before, after = set[str](), set[str]()
            for record in self._log:
                (before if record.run in until else after).update(touched(record.event))
            return sorted(before & after)

    def active(self) -> list[Task]:
        with self._lock:
            return [t for t in self._rows.tasks.values() if t.state in ACTIVE]

    def waiting(self) -> list[Task]:
        with self._lock:
            return [t for t in self._rows.tasks.values() if t.state is State.waiting]

    def jobs(self, query: JobQuery) -> list[Task]:
        with self._lock:
            ordered = list(self._rows.tasks.values())[:: 1 if query.oldest else -1]
            states = set(State) if query.state is None else {query.state}
            jobs = (t for t in ordered if t.kind == "job" and t.cls == query.cls and t.state in states)
            if query.since:
                jobs = (t for t in jobs if (submitted(t) or 0.0) >= query.since)
            return list(jobs)[query.skip :][: query.limit]

    def job_counts(self, cls: str) -> dict[State, int]:
        with self._lock:
            jobs = (t for t in self._rows.tasks.values() if t.kind == "job" and t.cls == cls)
            return dict(Counter(t.state for t in jobs))

    def queued(self, cls: str) -> list[Task]:
        with self._lock:
            return [t for t in self._rows.tasks.values() if t.state is State.queued and t.cls == cls]

    def using(self, calls: Sequence[str]) -> list[Task]:
        with self._lock:
            return [t for t in self._rows.tasks.values() if not set(calls).isdisjoint(t.result.calls)]

    def history(self) -> Iterator[Record]:
        return iter(list(self._log))

    def rows(self) -> Iterator[Task | Call | Run]:
        rows = self._rows
        return iter([*rows.tasks.values(), *rows.calls.values(), *rows.runs.values()])

    def blobs(self) -> Iterator[tuple[str, int, str]]:
        for digest, data in list(self._blobs.items()):
            yield (
                digest,
                len(data),
                "" if digest_bytes(data) == digest else "its bytes do not match its digest",
            )

    def damage(self) -> list[str]:
        return []

    def losses(self) -> list[str]:
        return []

    def size(self, run: str = "") -> int:
        """The bytes of all blobs; 0 for a single run, whose events have no size here."""
        return sum(len(data) for data in self._blobs.values()) if not run else 0

    @property
    def address(self) -> str:
        return f"memory {id(self)}"

    def owner(self) -> dict[str, int]:
        return {"pid": os.getpid(), "incarnation": self.incarnation}

    def folder(self, name: str) -> None:
        """None: it has no place for files."""
        return None

    def close(self) -> None:
        pass


def matches(run: Run, query: RunQuery) -> bool:
    """Whether the run matches the query."""
    return (
        query.study in ("", run.study)
        and query.status in ("", run.status)
        and (run.status not in UNLISTED or bool(query.status or query.prefix or query.name or query.after))
        and query.name in ("", run.name)
        and (not query.tag or query.tag in run.tags)
        and run.planned >= query.since
        and (not query.until or run.planned <= query.until)
        and run.id.startswith(query.prefix)
    )


def meant(call: Call, query: CallQuery) -> bool:
    """Whether the call matches the query."""
    return (
        query.run in ("", call.run)
        and query.model in ("", call.model)
        and query.state in ("", call.state)
        and call.task.startswith(query.task)
        and call.key.startswith(query.prefix)
    )
