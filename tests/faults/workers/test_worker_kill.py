"""kill -9 and SIGSTOP of workers that share a run: one end per task, the same table, a sound store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

import peira
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.workers import submit_shared
from peira.core.log.events import Record, RunFinished, Status, TaskFinished, TasksClaimed
from peira.stores.postgres.address import Address
from tests.faults.conftest import Bench, Reference, outputs
from tests.faults.test_postgres_kill import PostgresBench

WORKER = """
import sys
from peira.app.session import Session
from peira.app.workers import WorkerOptions, work
from peira.core.clock import ShiftedClock, SystemClock

if __name__ == "__main__":
    clock = ShiftedClock(SystemClock(), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
    options = WorkerOptions(parallel=4, lease=float(sys.argv[2]), clock=clock)
    ended = work(Session.find(sys.argv[1]), options)
    print(ended and ended.status)
"""
LEASE, SHORT = 10.0, 2.0
"""Seconds: the end of a process is known before its lease is over, except that of one that only stands."""
PLACES = {
    "shared.after_take": 1,
    "shared.before_done": 1,
    "shared.before_close": 1,
    "store.before_fold": 4,
    "store.before_commit": 5,
    "store.after_commit": 4,
    "store.after_acknowledge": 3,
    "engine.after_claim": 3,
    "engine.before_end": 7,
    "step.before_record": 5,
    "step.after_record": 6,
}
"""The failpoints that a worker passes, and which time it is killed there."""
SAMPLED = ("shared.before_done", "engine.after_claim", "shared.before_close")


@dataclass
class Workers(PostgresBench):
    """A store that workers share."""

    @property
    def worker(self) -> Path:
        return self.folder / "worker.py"

    def submit(self) -> str:
        self.worker.write_text(WORKER)
        options = RunOptions(policy={"interruptions": self.interruptions}, workers=0)
        return submit_shared(str(self.script), options, Session.find(self.store))

    def join(self, failpoint: str = "", clock: float = 0.0, lease: float = LEASE) -> Any:
        """A worker whose clock is so many seconds ahead."""
        env = {**os.environ, "OUTSIDE": str(self.folder), "PEIRA_FAILPOINT": failpoint}
        command = [sys.executable, str(self.worker), str(self.store), str(lease), str(clock)]
        return self.begin(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def check(self, reference: Reference, run: str, twice: int) -> None:
        """The run is complete and equals an undisturbed one; at most so many trials were executed twice."""
        results = peira.open(self.store).results(run)
        assert results.status == "completed", results.failures
        assert str(results.table("style")) == reference.table
        assert outputs(results) == reference.outputs
        records = list(self.recorded().values())
        check_ends(records)
        [finished] = [record.event for record in records if isinstance(record.event, RunFinished)]
        assert finished.counts["planned"] == finished.counts["generate.succeeded"] == len(reference.outputs)
        executed = Counter(trial for _, trial in self.executed("trials"))
        assert set(executed) == set(reference.outputs)
        assert executed.total() - len(executed) <= twice
        self.check_sound()


def check_ends(records: list[Record]) -> None:
    """Each task ends once, and each claim raises its epoch by one (S1)."""
    ends: Counter[str] = Counter()
    epochs: dict[str, int] = {}
    for event in (record.event for record in records):
        if isinstance(event, TaskFinished):
            ends[event.task] += 1
            assert event.epoch == epochs[event.task]
        elif isinstance(event, TasksClaimed):
            for task, epoch in zip(event.tasks, event.epochs or (1,) * len(event.tasks), strict=True):
                assert epoch == epochs.get(task, 0) + 1
                epochs[task] = epoch
    assert set(ends.values()) == {1}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Any, postgres_url: str) -> Workers:
    bench = Workers(tmp_path / "bench", warm.start, address=postgres_url)
    monkeypatch.setenv("OUTSIDE", str(bench.folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return bench


def finish(bench: Bench, *processes: Any) -> list[int]:
    return [bench.finish(process) for process in processes]


def wait_until_begun(bench: Bench, worker: Any) -> None:
    """Wait until a worker has executed something, or was killed before."""
    while worker.poll() is None and not bench.lines("trials"):
        time.sleep(0.002)


def killed_at(bench: Workers, place: str, reference: Reference) -> None:
    run = bench.submit()
    first = bench.join(f"{place}:{PLACES[place]}")
    wait_until_begun(bench, first)
    others = [bench.join(), bench.join()]
    codes = finish(bench, first, *others)
    assert codes[1:] == [0, 0]
    if place != "shared.before_close":  # another may be the last
        assert codes[0] == -9
    bench.check(reference, run, twice=8)


@pytest.mark.parametrize("place", SAMPLED)
def test_one_of_three_is_killed_at_a_named_place(place, bench, reference) -> None:
    killed_at(bench, place, reference)


@pytest.mark.torture
@pytest.mark.parametrize("place", sorted(PLACES.keys() - set(SAMPLED)))
def test_one_of_three_is_killed_at_every_named_place(place, bench, reference) -> None:
    killed_at(bench, place, reference)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_comes_of_it_whatever_the_number_of_workers(workers, bench, reference) -> None:
    """The same ids, outputs, scores and table as of one process on SQLite; nothing is done twice (S7)."""
    run = bench.submit()
    assert finish(bench, *[bench.join() for _ in range(workers)]) == [0] * workers
    bench.check(reference, run, twice=0)


def test_clocks_that_are_an_hour_off_change_nothing(bench, reference) -> None:
    run = bench.submit()
    early = bench.join("engine.before_end:6", clock=-3600.0)
    wait_until_begun(bench, early)
    late = bench.join(clock=3600.0)
    assert finish(bench, early, late) == [-9, 0]
    bench.check(reference, run, twice=8)


HELD = """
import os, time
from peira import Case, exact, study


@study(cases=[Case(i, expected=i) for i in range(4)], evaluators=[exact()])
def held(case):
    file = os.open("trials", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"one\\n")
    while not os.path.exists("go"):
        time.sleep(0.01)
    return case.input
"""


def test_a_range_is_done_only_when_its_ends_are_durable(bench, postgres_server, tmp_path) -> None:
    """All trials have ended, and another holds up the commit that records it: no range is marked (S5)."""
    bench.script.write_text(HELD)
    run = bench.submit()
    worker = bench.join()
    ranges = "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FROM leased_range"
    with psycopg.connect(postgres_server) as other:
        other.execute(f"SET search_path = {Address.parse(str(bench.store)).schema}")
        while len((tmp_path / "trials").read_text().split() if (tmp_path / "trials").exists() else ()) < 4:
            time.sleep(0.01)
        other.execute("SELECT 1 FROM head FOR UPDATE")
        (tmp_path / "go").touch()
        while not other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]:
            time.sleep(0.01)
        time.sleep(0.5)
        assert other.execute(ranges).fetchone()[0] == 0
        other.commit()
        assert bench.finish(worker) == 0
        done, taken = other.execute(ranges).fetchone()
    assert 0 < done == taken
    assert peira.open(bench.store).run(run).status is Status.completed


def wait_for_trials(bench: Bench, n: int) -> None:
    until = time.monotonic() + 30
    while len(bench.lines("trials")) < n:
        assert time.monotonic() < until
        time.sleep(0.002)


def test_two_of_four_are_killed(bench, reference) -> None:
    run = bench.submit()
    workers = [bench.join() for _ in range(4)]
    for victim, at in zip(workers[:2], (10, 25), strict=True):
        wait_for_trials(bench, at)
        os.kill(victim.pid, signal.SIGKILL)
    assert finish(bench, *workers) == [-9, -9, 0, 0]
    bench.check(reference, run, twice=16)


def test_the_server_crashes_three_times(bench, reference, database) -> None:
    """Nobody is dead only because nobody could renew a lease, and no trial is executed twice."""
    bench.address = database.url
    run = bench.submit()
    worker = bench.join(lease=20.0)
    for trials in (8, 24, 40):
        wait_for_trials(bench, trials)
        database.stop("immediate")
        database.start()
    assert finish(bench, worker, bench.join()) == [0, 0]
    bench.check(reference, run, twice=0)


def test_connections_cut_inside_commits_change_nothing(bench, reference, postgres_url, proxy) -> None:
    """Of one of two workers every 17th answer of the server is lost with its connection."""
    run = bench.submit()
    bench.address = proxy.address(postgres_url)
    cut = bench.join()
    wait_for_trials(bench, 4)
    proxy.cut(5, every=17)
    bench.address = postgres_url
    assert finish(bench, cut, bench.join()) == [0, 0]
    assert proxy.cuts
    bench.check(reference, run, twice=0)


def test_one_that_was_stopped_past_its_lease_is_fenced(bench, reference) -> None:
    run = bench.submit()
    stopped = bench.join(lease=SHORT)
    wait_for_trials(bench, 4)
    os.kill(stopped.pid, signal.SIGSTOP)
    other = bench.join()
    assert bench.finish(other) == 0
    os.kill(stopped.pid, signal.SIGCONT)
    _, said = stopped.communicate(timeout=50)
    assert stopped.returncode == 1
    assert b"the lease of this process has run out" in said, said.decode()
    bench.check(reference, run, twice=8)


def test_one_that_is_stopped_inside_a_transaction_keeps_nobody_waiting(bench, reference) -> None:
    """It holds the locks of the run: the server takes them from it when its lease is over."""
    run = bench.submit()
    stopped = bench.join("store.before_commit:1:stop", lease=SHORT)
    while psutil.Process(stopped.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    assert bench.finish(bench.join()) == 0
    os.kill(stopped.pid, signal.SIGCONT)
    _, said = stopped.communicate(timeout=50)
    assert stopped.returncode in (0, 1), said.decode()
    assert not said or b"the lease of this process has run out" in said, said.decode()
    bench.check(reference, run, twice=0)


def test_who_takes_over_is_killed_too(bench, reference) -> None:
    """Between the look at what the first one had and its release: a third releases what both had."""
    run = bench.submit()
    assert bench.finish(bench.join("engine.before_end:6")) == -9
    assert bench.finish(bench.join("recovery.before_release")) == -9
    assert bench.finish(bench.join()) == 0
    bench.check(reference, run, twice=16)


def test_all_are_killed_and_others_go_on(bench, reference) -> None:
    run = bench.submit()
    workers = [bench.join(lease=SHORT), bench.join(lease=SHORT)]
    wait_for_trials(bench, 12)
    for victim in workers:
        os.kill(victim.pid, signal.SIGKILL)
    finish(bench, *workers)
    time.sleep(SHORT + 0.2)
    assert peira.open(bench.store).run(run).status is Status.interrupted, "nobody works on it"
    assert bench.finish(bench.join()) == 0
    bench.check(reference, run, twice=16)
