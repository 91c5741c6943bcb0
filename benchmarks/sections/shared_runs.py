"""One run executed by 1, 2 and 4 workers; how fast it is cancelled and taken over; what idling costs.

Rates are those between the first and the last end that the store recorded, so that starting the processes
does not count. Agents sleep for 50 ms, eight at once in each worker.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil
import psycopg

from peira.app.control import cancel
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.workers import submit_shared
from peira.core.log.events import TaskFinished, TasksInterrupted
from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer
from peira.stores.postgres.store import PostgresStore
from sections.figures import Section
from sections.processes import Bench

STUDY = """
import time
from peira import exact, study


@study(cases=[(str(i), str(i)) for i in range({trials})], evaluators=[exact()], seed={seed})
def sleeps(case):
    time.sleep({seconds})
    return case.input
"""
SECONDS, PARALLEL, LEASE = 0.05, 8, 5.0
TRIALS, IDLE = 1600, 5.0
"""Trials for each worker, and seconds for which idle ones are watched."""
WORKERS = (1, 2, 4)


def shared_runs(bench: Bench) -> Section:
    """Workers on one machine that share a run in Postgres, every commit synced."""
    folder = Path(tempfile.mkdtemp(prefix="peira-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    server = PrivateServer(folder / "server")
    agents = f"agents of {SECONDS * 1e3:.0f} ms, {PARALLEL} at once a worker"
    title = f"shared runs: {agents}; median of {bench.rounds}"
    try:
        server.start()
        PostgresStore(server.url).close()
        found = {n: [_rate(server.url, folder, n, seed) for seed in range(bench.rounds)] for n in WORKERS}
        taken_over, cancelled, idle = _faults(server.url, folder)
    except PeiraError as problem:
        return Section(title, ("",), [], {}, skipped=[str(problem)])
    finally:
        if server.pid:
            server.stop()
        shutil.rmtree(folder)
    rates = {n: median(kept) for n, kept in found.items()}
    return Section(
        title,
        ("workers", "trials/s", "this / one"),
        [(str(n), f"{rates[n]:,.0f}", f"{rates[n] / rates[1]:.2f}") for n in WORKERS],
        {"rates": found, "taken over after": taken_over, "cancelled after": cancelled, "idle share": idle},
        [
            f"after SIGSTOP with a lease of {LEASE:g} s its tasks were free after {taken_over:.1f} s",
            f"4 workers had ended {cancelled:.1f} s after `peira cancel` was asked",
            f"a worker without work took {100 * idle:.2f}% of a core",
        ],
    )


def _submit(address: str, folder: Path, trials: int, seed: int, seconds: float = SECONDS) -> str:
    file = folder / f"sleeps{seed}.py"
    file.write_text(STUDY.format(trials=trials, seed=seed, seconds=seconds))
    return submit_shared(str(file), RunOptions(workers=0), Session.find(address))


def _join(address: str, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "peira.cli", "worker", "--store", address, "--parallel", str(PARALLEL)]
    return subprocess.Popen([*command, "--quiet", *more], stdout=subprocess.DEVNULL)


@contextmanager
def _workers(address: str, n: int, *more: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many workers that wait for a run; told to go in the end, and killed if they do not."""
    children = [_join(address, "--stay", *more) for _ in range(n)]
    try:
        while _members(address, children) < n:
            time.sleep(0.1)
        yield children
        for child in children:
            child.send_signal(signal.SIGTERM)
        for child in children:
            child.wait(timeout=LEASE)
    finally:
        for child in children:
            child.kill()
            child.wait()


def _members(address: str, children: Sequence[subprocess.Popen[bytes]]) -> int:
    """How many of these workers have joined."""
    pids = [child.pid for child in children]
    with psycopg.connect(address) as db:
        row = db.execute("SELECT count(*) FROM peira.member WHERE pid = ANY(%s)", (pids,)).fetchone()
    return int(row[0]) if row else 0


def _rate(address: str, folder: Path, workers: int, seed: int) -> float:
    """Trials a second of a run that all workers share from its beginning."""
    with _workers(address, workers):
        trials = TRIALS * workers
        run = _submit(address, folder, trials, 10 * workers + seed)
        store = PostgresStore(address, readonly=True)
        while not store.find("run", [run])[run].finished:
            time.sleep(0.1)
    times = sorted(r.at for r in store.events(run, limit=10**9) if isinstance(r.event, TaskFinished))
    store.close()
    return trials / (times[-1] - times[0])


def _faults(address: str, folder: Path) -> tuple[float, float, float]:
    """Seconds until the tasks of a stopped worker are free, and until four workers are cancelled; the share
    of a core that an idle worker takes."""
    store = PostgresStore(address, readonly=True)
    with _workers(address, 5, "--lease", f"{LEASE:g}s") as children:
        before = [sum(psutil.Process(child.pid).cpu_times()[:2]) for child in children]
        time.sleep(IDLE)
        after = [sum(psutil.Process(child.pid).cpu_times()[:2]) for child in children]
        idle = median(now - then for now, then in zip(after, before, strict=True)) / IDLE
        run = _submit(address, folder, 6_000, 99, seconds=0.2)
        _wait_for_owners(store, 5)
        stopped = children.pop()
        os.kill(stopped.pid, signal.SIGSTOP)
        began, seq = time.monotonic(), 0
        found = False
        while not found:
            time.sleep(0.02)
            records = store.events(run, seq)
            found = any(isinstance(record.event, TasksInterrupted) for record in records)
            seq = records[-1].seq if records else seq
        taken_over = time.monotonic() - began
        os.kill(stopped.pid, signal.SIGKILL)
        stopped.wait()
        _wait_for_owners(store, 4)
        began = time.monotonic()
        cancel(run, address)
        while store.active() or not store.find("run", [run])[run].finished:
            time.sleep(0.02)
        cancelled = time.monotonic() - began
    store.close()
    return taken_over, cancelled, idle


def _wait_for_owners(store: PostgresStore, n: int) -> None:
    """Wait until so many workers have tasks under way."""
    while len({task.owner for task in store.active()}) < n:
        time.sleep(0.05)
