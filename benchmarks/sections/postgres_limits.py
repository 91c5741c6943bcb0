"""What a Postgres server spends on trials, calls, commits and connections: the figures of docs/scale.md.

A trial here is what a run records of one: its claim, the intent and the answer of its call if it has one, its
end, and its score, which plain code claims and ends in one op. Times of the server are CPU times, which other
programs of the machine change little.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from uuid import uuid4

import msgspec
import psutil
import psycopg

from peira.core.contracts import Op
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer
from peira.stores.postgres.store import PostgresStore
from sections.figures import Section
from sections.processes import Bench

GROUPS = (1, 16, 128, 512)
"""Ops in one commit."""
WRITERS = (1, 4, 16)
"""Processes' worth of connections that commit to one run, or each to its own."""
SECONDS = 3.0
ANSWER = msgspec.Raw(b'{"text": "' + b"x" * 400 + b'"}')


class Trials:
    """Makes the ops of trials of one run."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.run, self._going_on = digest(uuid4().hex), ""
        self._request = store.put(b"request")
        planned = ev.RunPlanned(manifest=store.put(b"{}"), study="limits", trials=0)
        store.commit([Op(self.run, (planned,)), Op(self.run, (ev.RunStarted("owner", 1),))]).result()

    def plain(self, n: int) -> Iterator[list[Op]]:
        """The stages of n trials without calls: what is committed together."""
        yield from self._trials(n, lambda trials: ())

    def asking(self, n: int) -> Iterator[list[Op]]:
        """The stages of n trials with one call each."""
        yield from self._trials(n, self._calls)

    def _trials(self, n: int, between: Callable[[list[str]], Iterable[list[Op]]]) -> Iterator[list[Op]]:
        trials = [digest(uuid4().hex) for _ in range(n)]
        yield [Op(self.run, (self._claim("generate", trial),)) for trial in trials]
        yield from between(trials)
        yield [Op(self.run, (self._end(trial),)) for trial in trials]
        scores = [digest(uuid4().hex) for _ in range(n)]
        yield [Op(self.run, (self._claim("evaluate", score), self._end(score))) for score in scores]

    def calls(self, n: int) -> Iterator[list[Op]]:
        """The same of n calls of one trial that goes on."""
        if not self._going_on:
            self._going_on = digest(uuid4().hex)
            yield [Op(self.run, (self._claim("generate", self._going_on),))]
        yield from self._calls([self._going_on] * n)

    def _calls(self, trials: Sequence[str]) -> Iterator[list[Op]]:
        """One call of each of these trials: its intent, and its answer."""
        calls = [digest(uuid4().hex) for _ in trials]
        yield [
            Op(self.run, (ev.CallIntended(trial, 1, call, "model", self._request, "0"),))
            for trial, call in zip(trials, calls, strict=True)
        ]
        yield [
            Op(self.run, (ev.CallAnswered(trial, call, ANSWER, input=100, output=100, cost=0.001),))
            for trial, call in zip(trials, calls, strict=True)
        ]

    def _claim(self, kind: str, task: str) -> ev.TasksClaimed:
        return ev.TasksClaimed(kind, kind, "owner", (task,), (1,))

    def _end(self, task: str) -> ev.TaskFinished:
        return ev.TaskFinished(task, 1, ev.State.succeeded, ev.Result(0.5, msgspec.Raw(b'"answer"')))


Stages = Callable[[Trials, int], Iterator[list[Op]]]


STAGES: dict[str, Stages] = {"trial": Trials.plain, "trial with a call": Trials.asking, "call": Trials.calls}


def postgres_limits(bench: Bench) -> Section:
    """On a server of this machine with every commit synced."""
    title = "postgres_limits: what one server spends (CPU of the server; WAL; bytes kept)"
    try:
        with _server() as server:
            return _measured(title, server, max(512, bench.trials // 10))
    except PeiraError as problem:
        return Section(title, ("",), [], {}, skipped=[str(problem)])


def _measured(title: str, server: PrivateServer, trials: int) -> Section:
    lines: list[tuple[str, ...]] = []
    data: dict[str, object] = {}
    for label, stages in STAGES.items():
        for group in GROUPS:
            n = trials if group >= 128 else max(64, trials // 16)
            found = _in_groups(server, group, n, stages)
            data[f"{label}, groups of {group}"] = found
            lines.append((f"{label}, groups of {group}", *(f"{value:,.0f}" for value in found.values())))
    notes = []
    for own in (False, True):
        rates = {n: _commits(server, n, own) for n in WRITERS}
        data["commits, own runs" if own else "commits, one run"] = rates
        said = ", ".join(f"{n}: {rate:,.0f}" for n, rate in rates.items())
        notes.append(
            f"synced commits/s of so many writers {'each on its run' if own else 'on one run'}: {said}"
        )
    memory = _connection(server)
    data["connection"] = memory
    notes.append(f"an idle connection takes {memory / 2**20:.1f} MiB of the server's own memory")
    header = ("each", "server µs", "client µs", "WAL bytes", "kept bytes", "a second")
    return Section(title, header, lines, data, notes)


@contextmanager
def _server() -> Iterator[PrivateServer]:
    """A server with its data on a disk."""
    folder = Path(tempfile.mkdtemp(prefix="peira-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    server = PrivateServer(folder / "server")
    try:
        server.start()
        yield server
    finally:
        if server.pid:
            server.stop()
        shutil.rmtree(folder)


def _in_groups(server: PrivateServer, group: int, trials: int, stages: Stages) -> dict[str, float]:
    """Record trials, or calls, in commits of so many ops each."""
    address = f"{server.url}&schema={stages.__name__}_{group}"
    trials = -(-trials // group) * group
    with closing(PostgresStore(address)) as store, psycopg.connect(server.url, autocommit=True) as db:
        made = Trials(store)
        _record(stages, made, store, group, 6 * group)  # until its statements are planned for good
        server_cpu, client_cpu = _server_cpu(server), time.process_time()
        wal, size = _wal(db), store.size()
        began = time.monotonic()
        _record(stages, made, store, group, trials)
        seconds = time.monotonic() - began
        return {
            "server": (_server_cpu(server) - server_cpu) / trials * 1e6,
            "client": (time.process_time() - client_cpu) / trials * 1e6,
            "wal": (_wal(db) - wal) / trials,
            "kept": (store.size() - size) / trials,
            "rate": trials / seconds,
        }


def _record(stages: Stages, made: Trials, store: PostgresStore, group: int, trials: int) -> None:
    for _ in range(0, trials, group):
        for ops in stages(made, group):
            store.commit(ops).result()


def _commits(server: PrivateServer, writers: int, own: bool) -> float:
    """Commits a second of several writers that share a store, to one run or each to its own."""
    address = f"{server.url}&schema=commits_{writers}_{int(own)}"
    stores = [PostgresStore(address, shared=True) for _ in range(writers)]
    first = Trials(stores[0])
    runs = [Trials(store).run if own else first.run for store in stores]
    counts, over = [0] * writers, threading.Event()

    def work(me: int) -> None:
        while not over.is_set():
            stores[me].commit([Op(runs[me], (ev.RunNoted("x"),))]).result()
            counts[me] += 1

    threads = [threading.Thread(target=work, args=(me,)) for me in range(writers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    over.set()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    for store in stores:
        store.close()
    return sum(counts) / seconds


def _connection(server: PrivateServer) -> float:
    """Bytes of memory that only one connection's process has."""
    opened = [psycopg.connect(server.url) for _ in range(8)]
    try:
        return median(psutil.Process(db.info.backend_pid).memory_full_info().uss for db in opened)
    finally:
        for db in opened:
            db.close()


def _wal(db: psycopg.Connection) -> int:
    row = db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


def _server_cpu(server: PrivateServer) -> float:
    """CPU seconds of the server's processes, also of those that have ended."""
    main = psutil.Process(server.pid)
    own, found = main.cpu_times(), 0.0
    for child in main.children():
        try:
            times = child.cpu_times()
            found += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return float(own.user + own.system + own.children_user + own.children_system + found)
