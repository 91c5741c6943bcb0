"""The figures quoted in these pages: `python docs/decisions/measure.py ids|batches|cases|coverage|bundles`.

Each prints what it measured, here and now. Absolute speeds belong to the machine and the moment; the pages
quote sizes, counts and ratios.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec
import numpy as np
from pydantic import BaseModel, ConfigDict

from peira import Case, Study, bundle_export, bundle_import, bundle_work, exact, run
from peira.runners import threads
from peira.stats.intervals.means import estimate

TASKS, GROUP, PAGE = 50_000, 128, 4096


def ids() -> None:
    """Rows under random 32-byte ids, in commits of 128: the index on the whole id, or on 8 bytes of it."""
    for name, index in (("whole id", "id"), ("first 8 bytes", "substr(id, 1, 8)")):
        size, pages = _written(
            f"CREATE INDEX found ON task({index})", "INSERT INTO task VALUES (?, ?, ?)", _task
        )
        print(f"index on the {name}: {size / TASKS:.0f} bytes a row, {pages / TASKS:.2f} pages written a row")
    for name, table in (
        ("(run, seq) beside the row number", "CREATE UNIQUE INDEX placed ON event(run, seq)"),
        ("run << 40 | seq as the row number", ""),
    ):
        columns = (
            "INSERT INTO event VALUES (?, ?, ?)" if table else "INSERT INTO event(rowid, body) VALUES (?, ?)"
        )
        size, pages = _written(table, columns, _event if table else _placed)
        print(f"events by {name}: {size / TASKS:.0f} bytes a row, {pages / TASKS:.2f} pages written a row")


def _task(n: int) -> tuple[Any, ...]:
    return n, os.urandom(32), b"x" * 60


def _event(n: int) -> tuple[Any, ...]:
    return 1, n, b"x" * 60


def _placed(n: int) -> tuple[Any, ...]:
    return 1 << 40 | n, b"x" * 60


def _written(index: str, insert: str, row: Any) -> tuple[int, int]:
    """Bytes of the database, and pages that went through its log."""
    path = Path(tempfile.mkdtemp()) / "sizes.db"
    db, pages = apsw.Connection(str(path)), 0
    db.execute("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
    db.execute("CREATE TABLE task (n INTEGER PRIMARY KEY, id BLOB, result BLOB)")
    db.execute(
        "CREATE TABLE event (run INTEGER, seq INTEGER, body BLOB)"
        if index
        else "CREATE TABLE event (body BLOB)"
    )
    db.execute(index)
    for start in range(0, TASKS, GROUP):
        with db:
            db.executemany(insert, [row(n) for n in range(start, min(start + GROUP, TASKS))])
        pages += os.path.getsize(f"{path}-wal") // PAGE
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path.stat().st_size, pages


def echo(case: Any) -> Any:
    return case.input


def batches() -> None:
    """The same no-op trials, with workers that claim one at a time and workers that claim up to 128."""
    study = Study(
        name="echo", agent=echo, cases=[(f"{n}", f"{n}") for n in range(4000)], evaluators=[exact()]
    )
    for turn in range(3):
        took = {}
        for batch in (1, 128):
            threads.BATCH = batch
            began = time.perf_counter()
            run(study, store=Path(tempfile.mkdtemp()) / "batches.db", progress=False)
            took[batch] = time.perf_counter() - began
        print(f"round {turn}: " + ", ".join(f"batch {b}: {4000 / t:,.0f} trials/s" for b, t in took.items()))


class Plain(msgspec.Struct, frozen=True, gc=False):
    """The fields of a case, as a struct."""

    input: Any
    expected: Any = None
    id: str | None = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Any] = {}
    evaluators: tuple[Any, ...] = ()


class Modelled(BaseModel):
    """The fields of a case, as a model."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    input: Any
    expected: Any = None
    id: str | None = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Any] = {}
    evaluators: tuple[Any, ...] = ()


def cases() -> None:
    """Making 200,000 cases, and what they hold in memory."""
    kept = []  # or the next ones would be put where these were
    for name, make in (
        ("peira's Case (normalises)", lambda n: Case(f"question {n}", expected="yes")),
        ("msgspec struct", lambda n: Plain(f"question {n}", expected="yes")),
        ("pydantic model", lambda n: Modelled(input=f"question {n}", expected="yes")),
    ):
        before, began = _resident(), time.process_time()
        made = [make(n) for n in range(200_000)]
        took = time.process_time() - began
        kept.append(made)
        print(
            f"{name}: {1e6 * took / len(made):.2f} µs and {(_resident() - before) / len(made):.0f} bytes each"
        )


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def coverage() -> None:
    """How often 95% intervals of a proportion hold the truth: cases that differ, five repeats or one."""
    rng, rounds = np.random.default_rng(7), 4000
    for truth in (0.5, 0.8, 0.9, 0.97):
        for groups in (10, 25, 100):
            shares = []
            for repeats in (5, 1):
                held = [_holds(rng, truth, groups, repeats) for _ in range(rounds)]
                shares.append(f"{repeats} repeats: {np.mean(held):.3f}")
            print(f"proportion {truth}, {groups} cases: {', '.join(shares)}")


def _holds(rng: np.random.Generator, truth: float, groups: int, repeats: int) -> bool:
    """Each case has a proportion of its own: Beta, of intra-case correlation 0.3."""
    spread = 1 / 0.3 - 1
    own = rng.beta(truth * spread, (1 - truth) * spread, groups)
    values = (rng.random((groups, repeats)) < own[:, None]).astype(float)
    found = estimate(values.ravel(), np.repeat(np.arange(groups), repeats).tolist())
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def bundles() -> None:
    """100,000 trials handed out, worked off and taken in: time on the processor, and memory at most."""
    folder = Path(tempfile.mkdtemp())
    work, answers, store = folder / "work", folder / "answers", folder / "bundles.db"
    asked = [Case(f"question {n}", expected="yes", id=str(n)) for n in range(100_000)]
    study = Study(name="bundles", agent=echo, cases=asked, evaluators=[exact()])
    for name, step in (
        ("study", lambda: None),
        ("export", lambda: bundle_export(study, work, store=store, progress=False)),
        ("work", lambda: bundle_work(work, answers, study=study, progress=False)),
        ("import", lambda: bundle_import(answers, store=store, progress=False)),
    ):
        began = time.process_time()
        step()
        took, most = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{name}: {1e6 * took / len(asked):.0f} µs each, {most / 1024:.0f} MiB at most so far")
    print(f"{work.stat().st_size / len(asked):.0f} bytes an item")


if __name__ == "__main__":
    measures = {"ids": ids, "batches": batches, "cases": cases, "coverage": coverage, "bundles": bundles}
    measures[sys.argv[1]]()
