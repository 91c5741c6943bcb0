"""The same run on a SQLite file and in a Postgres database, in turns, with what the server itself takes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import psutil

from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer
from sections.figures import COST, Section, cost, data, rate, ratio, times
from sections.processes import Bench, Work, alternate

FILE, DATABASE = "SQLite", "Postgres"
PARALLEL = ("--parallel", "64")


def postgres(bench: Bench) -> Section:
    """No-op trials with a score; the server runs on this machine, with every commit synced."""
    # The server's user may not reach the user's cache; this folder is on a disk, too.
    folder = Path(tempfile.mkdtemp(prefix="peira-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    server = PrivateServer(folder / "server")
    title = f"postgres: no-op agent, exact, full durability; median (best) of {bench.rounds} rounds in turns"
    try:
        server.start()
        before = _cpu_seconds(server)
        works = [
            Work(FILE, "trials_peira.py", bench.trials, PARALLEL),
            Work(DATABASE, "trials_peira.py", bench.trials, (*PARALLEL, "--address", server.url)),
        ]
        rows, failed = alternate(works, bench)
        taken = (_cpu_seconds(server) - before) / (bench.trials * max(1, len(rows.get(DATABASE, ()))))
    except PeiraError as problem:
        return Section(title, ("",), [], {}, skipped=[str(problem)])
    finally:
        if server.pid:
            server.stop()
        shutil.rmtree(folder)
    file = rows.get(FILE, [])
    ratios = {label: ratio(kept, file, rate) for label, kept in rows.items() if file}
    return Section(
        title,
        ("", *COST, f"this / {FILE}"),
        [(label, *cost(kept), times(ratios.get(label))) for label, kept in rows.items()],
        data(rows, ratios),
        [f"the server took {taken * 1e6:,.0f} CPU µs a trial, on the same cores"],
        list(failed.values()),
    )


def _cpu_seconds(server: PrivateServer) -> float:
    """User and system time of the server and of its sessions that have ended."""
    times = psutil.Process(server.pid).cpu_times()
    return times.user + times.system + times.children_user + times.children_system
