"""Streams: durable jobs a second, from here and from another process; memory, listings, waits."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil
from figures import Section
from workers import Bench

from peira import open, serve, stream
from peira.core.log.events import State
from peira.engine.streams.jobs import class_of

CHUNK = 1000
SESSIONS = 5000
SENDER = """
import json, sys, time
from peira import open
view, n, many = open(sys.argv[1]).stream("noop"), int(sys.argv[2]), int(sys.argv[3])
began, cpu = time.perf_counter(), time.process_time()
for start in range(0, n, many):
    view.submit_many([{"input": {"s": i}} for i in range(start, start + many)])
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]))
"""


def noop(case: Any) -> Any:
    return None


def streams(bench: Bench) -> Section:
    """No-op jobs, each queued, claimed and ended durably."""
    n = bench.trials
    found: dict[str, float] = {}
    path = bench.scratch / "live.db"
    made = stream(noop, session="input.s", parallel=8)
    with serve(made, store=path) as host:
        found |= _done(host, n, "in process")
        never = threading.Event()
        stuck = host.stream("noop").subscribe(lambda event: never.wait(600), name="never")
        found |= _done(host, n, "with a subscriber that never reads")
        never.set()
        stuck.stop()
        found["memory (MB)"] = psutil.Process().memory_info().rss / 2**20
        found |= _done(host, n, "once more")
        gc.collect()
        found["memory after as many again (MB)"] = psutil.Process().memory_info().rss / 2**20
        starts = _starts(host)
        found["submit to start, p50 (ms)"] = median(starts) * 1e3
        found["submit to start, p95 (ms)"] = quantiles(starts, n=20)[-1] * 1e3
        for many in (1, 100):
            found |= _sent(path, host, min(n, 200 * many), many)
    view = open(path).stream("noop")
    began = time.perf_counter()
    assert len(view.jobs(limit=SESSIONS)) == SESSIONS
    found[f"list {SESSIONS:,} sessions (ms)"] = (time.perf_counter() - began) * 1e3
    ratio = found["with a subscriber that never reads: CPU µs a job"] / found["in process: CPU µs a job"]
    found["subscriber that never reads / none (CPU)"] = ratio
    return Section(
        f"streams: {n:,} no-op jobs, full durability",
        ("", "figure"),
        [(name, f"{value:,.3g}" if value < 100 else f"{value:,.0f}") for name, value in found.items()],
        dict(found),
    )


def _done(host: Any, n: int, name: str) -> dict[str, float]:
    """Jobs a second, and CPU a job, from the first submission to the last end."""
    began, cpu = time.perf_counter(), time.process_time()
    last: list[Any] = []
    for start in range(0, n, CHUNK):
        last = host.submit_many("noop", [{"input": {"s": i}} for i in range(start, start + CHUNK)])
    while host.store.job_counts(class_of("noop")).get(State.queued, 0):
        time.sleep(0.05)
    for job in last:
        job.wait()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return {f"{name}: jobs a second": n / took, f"{name}: CPU µs a job": used / n * 1e6}


def _starts(host: Any) -> list[float]:
    """Seconds from submission to start on an idle host, as its events tell."""
    jobs = []
    for n in range(100):
        jobs.append(host.submit("noop", {"s": n}))
        jobs[-1].wait()
    times = []
    for job in jobs[10:]:
        at = {}
        for record in host.store.about([job.id]):
            at.setdefault(type(record.event).__name__, record.at)
        times.append(at["TasksClaimed"] - at["TasksQueued"])
    return times


def _sent(path: Path, host: Any, n: int, many: int) -> dict[str, float]:
    """Jobs a second that another process submits, so many in a message."""
    sent = subprocess.run(
        [sys.executable, "-c", SENDER, str(path), str(n), str(many)],
        capture_output=True,
        text=True,
        check=True,
    )
    took, used = json.loads(sent.stdout)
    name = f"another process, {many} a message"
    return {f"{name}: jobs a second": n / took, f"{name}: CPU µs a job": used / n * 1e6}
