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

from peira import ask_person, open, serve, stream
from peira.core.log.events import State
from peira.engine.streams.jobs import class_of
from sections.figures import Section
from sections.processes import Bench

CHUNK = 1000
SESSIONS = 5000
REST = 5.0
"""Seconds for which a host is left alone."""
SENDER = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from peira import open
view, n, many = open(sys.argv[1]).stream("noop"), int(sys.argv[2]), int(sys.argv[3])
began, cpu = time.perf_counter(), time.process_time()
threads = int(sys.argv[4])
def send(part):
    for start in range(part * many, n, threads * many):
        if many == 1:
            view.submit({"s": start})
        else:
            view.submit_many([{"input": {"s": i}} for i in range(start, start + many)])
with ThreadPoolExecutor(threads) as pool:
    list(pool.map(send, range(threads)))
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]))
"""


def noop(case: Any) -> Any:
    return None


def reviewed(case: Any) -> Any:
    return ask_person("send it?", options=["yes", "no"]) if "ask" in case.input else None


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
        for many, threads in ((1, 1), (1, 4), (1, 16), (100, 1)):
            found |= _sent(path, min(n, 200 * max(many, threads)), many, threads)
    view = open(path).stream("noop")
    began = time.perf_counter()
    listed = len(view.jobs(limit=SESSIONS))
    found[f"list {listed:,} jobs (ms)"] = (time.perf_counter() - began) * 1e3
    ratio = found["with a subscriber that never reads: CPU µs a job"] / found["in process: CPU µs a job"]
    found["subscriber that never reads / none (CPU)"] = ratio
    found |= _grown(bench)
    return Section(
        f"streams: {n:,} no-op jobs, full durability",
        ("", "figure"),
        [(name, f"{value:,.3g}" if value < 100 else f"{value:,.0f}") for name, value in found.items()],
        dict(found),
    )


def _grown(bench: Bench) -> dict[str, float]:
    """What a host with jobs that wait for people costs after a tenth of many jobs, and after all of them.

    Ratios of one mean that nothing grows with the jobs that are done.
    """
    n, found = bench.large, dict[str, float]()
    waiting = max(50, n // 100)
    made = stream(reviewed, name="reviewed", session="input.s", parallel=8)
    with serve(made, store=bench.scratch / "grown.db") as host:
        host.submit_many("reviewed", [{"input": {"ask": i}} for i in range(waiting)])
        _until(host, "reviewed", State.waiting, waiting)
        parts = []
        for part in (n // 10, n - n // 10):
            began, before = time.process_time(), host.store.job_counts(class_of("reviewed"))
            for start in range(0, part, CHUNK):
                many = range(start, min(start + CHUNK, part))
                host.submit_many("reviewed", [{"input": {"s": i % SESSIONS}} for i in many])
                while host.store.job_counts(class_of("reviewed")).get(State.queued, 0) > CHUNK:
                    time.sleep(0.01)  # what is queued is in memory
            _until(host, "reviewed", State.succeeded, before.get(State.succeeded, 0) + part)
            used = (time.process_time() - began) / part * 1e6
            parts.append({"CPU µs a job": used, **_standing_costs(host)})
    for name, first in parts[0].items():
        found[f"{waiting:,} waiting, {n // 10:,} done: {name}"] = first
        found[f"{waiting:,} waiting, {n:,} done: {name}"] = parts[1][name]
        found[f"{name}: ratio after 10 times as many"] = parts[1][name] / first
    return found


def _standing_costs(host: Any) -> dict[str, float]:
    """The memory of the host, its CPU while nothing happens, and the CPU of looks at the last jobs."""
    view = host.stream("reviewed")
    time.sleep(REST)
    for job in host.submit_many("reviewed", [{"input": {"s": i}} for i in range(CHUNK // 10)]):
        job.wait()
    gc.collect()
    found = {"memory (MB)": psutil.Process().memory_info().rss / 2**20}
    cpu = time.process_time()
    time.sleep(REST)
    found["idle, CPU ms a second"] = (time.process_time() - cpu) / REST * 1e3
    looks = {
        "stats": view.stats,
        "list 100 jobs": lambda: view.jobs(limit=100),
        "results of the last 100 jobs": lambda: list(view.results(since=1.5 * REST).trials),
    }
    for name, look in looks.items():
        look()
        cpu = time.process_time()
        for _ in range(5):
            look()
        found[f"{name} (CPU ms)"] = (time.process_time() - cpu) / 5 * 1e3
    return found


def _until(host: Any, name: str, state: State, n: int) -> None:
    """Wait until so many jobs are in a state."""
    while host.store.job_counts(class_of(name)).get(state, 0) < n:
        time.sleep(0.1)


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


def _sent(path: Path, n: int, many: int, threads: int) -> dict[str, float]:
    """Jobs a second that another process submits: so many with each call, from so many threads."""
    sent = subprocess.run(
        [sys.executable, "-c", SENDER, str(path), str(n), str(many), str(threads)],
        capture_output=True,
        text=True,
        check=True,
    )
    took, used = json.loads(sent.stdout)
    name = f"another process, {many} a call, {threads} {'thread' if threads == 1 else 'threads'}"
    return {f"{name}: jobs a second": n / took, f"{name}: CPU µs a job": used / n * 1e6}
