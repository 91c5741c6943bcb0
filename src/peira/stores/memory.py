"""The reference store: everything in dictionaries, nothing on disk. Also a public fake for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Op, Outcome, RunQuery
from peira.core.events import Record, State, TasksClaimed
from peira.core.ids import digest_bytes
from peira.core.state import Call, Run, Task
from peira.errors import Unknown
from peira.stores.fold import Rows, fold

ACTIVE = (State.running, State.waiting, State.cancelling)


class MemoryStore:
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._rows = Rows()
        self._log: list[Record] = []
        self._blobs: dict[str, bytes] = {}

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        done: Future[list[Outcome]] = Future()
        with self._lock:
            for op in ops:
                self._blobs.update((digest_bytes(data), data) for data in op.blobs)
            records, outcomes = fold(self._rows, ops, self._clock.now())
            self._log += records
        done.set_result(outcomes)
        return done

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        with self._lock:
            ready = sorted(
                filter(self._ready(classes), self._rows.tasks.values()), key=lambda t: -t.priority
            )[:n]
            ops = [Op(run, (TasksClaimed(t.kind, t.cls, owner, (t.id,), (t.epoch + 1,)),)) for t in ready]
            outcomes = self.commit(ops).result()
            return [self._rows.tasks[t.id] for t, no in zip(ready, outcomes, strict=True) if not no]

    def _ready(self, classes: Sequence[str]):  # type: ignore[no-untyped-def]
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
            newest = sorted(self._rows.runs.values(), key=lambda run: run.planned)[::-1]
            return [run for run in newest if matches(run, query)][: query.limit]

    def active(self) -> list[Task]:
        with self._lock:
            return [t for t in self._rows.tasks.values() if t.state in ACTIVE]

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

    def size(self, run: str = "") -> int:
        return sum(len(data) for data in self._blobs.values()) if not run else 0

    def close(self) -> None:
        pass


def matches(run: Run, query: RunQuery) -> bool:
    return (
        query.study in ("", run.study)
        and query.status in ("", run.status)
        and (not query.tag or query.tag in run.tags)
        and run.planned >= query.since
        and (not query.until or run.planned <= query.until)
        and run.id.startswith(query.prefix)
    )
