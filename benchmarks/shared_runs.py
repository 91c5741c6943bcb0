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
from pathlib import Path
from statistics import median

import psutil
from figures import Section
from workers import Bench

from peira.app.control import cancel
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.workers import submit_shared
from peira.core.log.events import TaskFinished, TasksInterrupted
from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer
from peira.stores.postgres.store import PostgresStore

STUDY = """
import time
from peira import exact, study


@study(cases=[str(i) for i in range({trials})], evaluators=[exact()], seed={seed})
def sleeps(case):
    time.sleep({seconds})
    return case.input
"""
SECONDS, PARALLEL, LEASE = 0.05, 8, 5.0
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


def _rate(address: str, folder: Path, workers: int, seed: int) -> float:
    """Trials a second of a run that all workers share from its beginning."""
    children = [_join(address, "--stay") for _ in range(workers)]
    time.sleep(4)
    trials = 400 * workers
    run = _submit(address, folder, trials, 10 * workers + seed)
    store = PostgresStore(address, readonly=True)
    while not store.find("run", [run])[run].finished:
        time.sleep(0.1)
    for child in children:
        child.send_signal(signal.SIGTERM)
    for child in children:
        child.wait()
    times = sorted(r.at for r in store.events(run, limit=10**9) if isinstance(r.event, TaskFinished))
    store.close()
    return trials / (times[-1] - times[0])


def _faults(address: str, folder: Path) -> tuple[float, float, float]:
    """Seconds until the tasks of a stopped worker are free, and until four workers are cancelled; the share
    of a core that an idle worker takes."""
    children = [_join(address, "--stay", "--lease", f"{LEASE}s") for _ in range(4)]
    time.sleep(5)
    before = [sum(psutil.Process(child.pid).cpu_times()[:2]) for child in children]
    time.sleep(5)
    after = [sum(psutil.Process(child.pid).cpu_times()[:2]) for child in children]
    idle = median(now - then for now, then in zip(after, before, strict=True)) / 5
    run = _submit(address, folder, 6_000, 99, seconds=0.2)
    store = PostgresStore(address, readonly=True)
    while len({task.owner for task in store.active()}) < 4:
        time.sleep(0.05)
    os.kill(children[0].pid, signal.SIGSTOP)
    began = time.monotonic()
    records = store.events(run)
    while not any(isinstance(record.event, TasksInterrupted) for record in records):
        time.sleep(0.02)
        records = store.events(run, records[-1].seq) or records[-1:]
    taken_over = time.monotonic() - began
    os.kill(children[0].pid, signal.SIGKILL)
    replacement = _join(address, "--stay")
    while len({task.owner for task in store.active()}) < 4:
        time.sleep(0.05)
    began = time.monotonic()
    cancel(run, address)
    while store.active():
        time.sleep(0.02)
    cancelled = time.monotonic() - began
    store.close()
    for child in (*children[1:], replacement):
        child.send_signal(signal.SIGTERM)
    for child in (*children, replacement):
        child.wait()
    return taken_over, cancelled, idle
