"""The Ray runner on a real cluster: not collected by name; test_ray.py runs it where only loopback exists."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg
import pytest
import ray

from peira.core.log.events import TaskFinished
from peira.errors import Invalid, ProcessDied
from peira.runners.ray import RayHost, RayRunner
from peira.spec.modules import reference
from peira.stores.postgres.address import Address
from peira.stores.postgres.store import PostgresStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing import RunnerSuite, scripted
from peira.testing.fakes import AttemptEnd, ScriptedQueue

CPUS = 3
PATIENCE = 120.0
"""Seconds for what takes a few on a machine that does nothing else."""
pytestmark = pytest.mark.timeout(240)  # the first test waits for the cluster


@pytest.fixture(scope="session", autouse=True)
def cluster() -> str:
    """The address of a cluster of this machine; it ends with the namespace of processes that it is in."""
    assert [name for _, name in socket.if_nameindex()] == ["lo"], "Ray would listen on all addresses"
    folder = tempfile.mkdtemp(prefix="r-")
    os.environ.update(RAY_TMPDIR=folder, HOME=folder, RAY_USAGE_STATS_ENABLED="0")
    start = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--node-ip-address=127.0.0.1"]
    sizes = [f"--num-cpus={CPUS}", "--num-gpus=1", '--resources={"special": 1}']
    small = ["--object-store-memory=80000000", "--include-dashboard=false", "--port=6379"]
    subprocess.run([*start, *sizes, *small], check=True, stdout=subprocess.DEVNULL)
    ray.init("auto", log_to_driver=False, configure_logging=False, namespace="peira")
    return "127.0.0.1:6379"


class TestRayRunner(RunnerSuite):
    kills = True

    @pytest.fixture
    def runner(self) -> RayRunner:
        return runner_of()


def runner_of(**options: object) -> RayRunner:
    return RayRunner({"scripted": reference(scripted)}, f"test-{uuid4().hex}", options)


def hosts() -> list[psutil.Process]:
    """The processes of Ray that hold places for children."""
    return [one for one in psutil.process_iter(["name"]) if one.info["name"].startswith("ray::serve")]


class TestPlaces:
    suite = RunnerSuite()

    def test_who_waits_for_a_place_holds_no_attempt(self) -> None:
        """Of ten workers, three have a place; all attempts are executed, and stopping waits for nobody."""
        runner, attempts = runner_of(), self.suite.returning(30)
        queue = ScriptedQueue(attempts)
        with self.suite.at_work(runner, queue, workers=10):
            queue.wait_ended(*attempts)
        assert [queue.ended[a.key] for a in attempts] == [[AttemptEnd(i, None)] for i in range(30)]

    def test_children_have_the_resources_that_their_agents_need(self) -> None:
        """With one GPU in the cluster, two workers take turns; the child sees the one it was given."""
        runner = runner_of(agents={"scripted": {"resources": {"gpu": 1, "special": 1}}})
        stuck, later = self.suite.attempt("hangs", ["hang"]), self.suite.attempt("returns", ["return", 1])
        queue = ScriptedQueue([stuck, later])
        with self.suite.at_work(runner, queue, workers=2):
            queue.wait_begun(stuck)
            free = ray.available_resources()
            deadline = time.monotonic() + PATIENCE
            while free.get("GPU", 0) or free.get("special", 0):  # the cluster's count comes late
                assert time.monotonic() < deadline
                time.sleep(0.1)
                free = ray.available_resources()
            assert later.key not in queue.begun
            queue.abandon(stuck, runner)
            queue.wait_ended(later)

    def test_what_no_machine_has_is_refused_at_once(self) -> None:
        with pytest.raises(Invalid, match=r"no machine of the cluster has cpu = 1, gpu = 2"):
            runner_of(resources={"cpu": 1, "gpu": 2}).start(ScriptedQueue(), 1)
        waiting = runner_of(resources={"gpu": 2}, autoscale=True)
        with self.suite.at_work(waiting, ScriptedQueue(), workers=1):
            time.sleep(1)

    def test_a_place_that_is_lost_ends_its_attempt_and_another_is_found(self) -> None:
        runner = runner_of()
        stuck = self.suite.attempt("starts and hangs", ["spawn"], ["hang"])
        later = self.suite.attempt("returns", ["return", "next"])
        queue = ScriptedQueue([stuck])
        with self.suite.at_work(runner, queue):
            queue.wait_said(stuck)
            [(_, about)] = queue.begun[stuck.key].observed
            assert isinstance(about, dict)
            [host] = hosts()
            os.kill(host.pid, signal.SIGKILL)
            [lost] = queue.wait_ended(stuck)
            queue.offer(later)
            assert queue.wait_ended(later) == [AttemptEnd("next", None)]
            assert isinstance(lost.failure, ProcessDied)
            assert "lost with its place" in str(lost.failure)
            deadline = time.monotonic() + PATIENCE
            while psutil.pid_exists(about["pid"]):  # the child found itself alone
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def test_nobody_connects_without_the_key(self) -> None:
        """A stranger that says nothing, and one that says something wrong, delay a place and get nothing."""
        host = RayHost({"cpu": 1})
        port = host._listener.getsockname()[1]
        stranger = socket.create_connection(("127.0.0.1", port))
        stranger.sendall(b"\0\0\0\5hello")
        try:
            assert host._listener.getsockname()[0] == "127.0.0.1"
            assert host.wait(threading.Event())
            child = host.start(f"test-{uuid4().hex}")
            assert child.alive
            child.kill()
            assert child.death() == "its process was killed by signal 9"
        finally:
            stranger.close()
            host.close()

    def test_settings_that_cannot_be_are_all_told(self, cluster: str) -> None:
        with pytest.raises(Invalid) as raised:
            runner_of(
                colour=1, resources={"gpu": -1}, agents={"other": {"resources": {"cpu": True}}}, autoscale=3
            )
        assert len(raised.value.problems) == 5
        with pytest.raises(Invalid, match=r"no cluster at 127\.0\.0\.1:1 "):
            runner_of(address="127.0.0.1:1")
        with pytest.raises(Invalid, match="an address for Ray's clients"):
            runner_of(address="ray://127.0.0.1:10001")
        runner_of(address=cluster)


STUDY = """
import os, time
from peira import match, study

@study(cases=[(f"case {i}", str(i)) for i in range(12)], evaluators=[match()])
def placed(case, trial):
    parent = os.getppid()
    with open(f"/proc/{parent}/cmdline") as file:
        assert file.read().startswith("ray::"), "not below Ray"
    if os.environ.get("SLOW"):
        time.sleep(0.3)
    trial.log("placed", parent=parent)
    return case.input.split()[1]
"""


def peira(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "peira.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **env}, **pipes)  # type: ignore[call-overload]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "placed.py").write_text(STUDY)
    return tmp_path


def sound(store: Path) -> None:
    opened = SqliteStore(store, readonly=True)
    assert verify(opened) == []
    opened.close()


def test_a_run_on_a_file(folder: Path) -> None:
    (folder / "peira.toml").write_text(
        'runner = "ray"\n[runners.ray.agents.placed.resources]\nspecial = 0.5\n'
    )
    process = peira(folder, "run", "placed.py", "--store", "one.db", "--parallel", "4")
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "12 trials: 12 new" in said
    sound(folder / "one.db")


def test_a_killed_driver_leaves_nothing_and_the_run_goes_on(folder: Path) -> None:
    process = peira(folder, "run", "placed.py", "--runner", "ray", "--store", "one.db", SLOW="1")
    deadline = time.monotonic() + PATIENCE
    while not (placed := hosts()) or not any(host.children(recursive=True) for host in placed):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.communicate()
    while any(host.is_running() and host.children(recursive=True) for host in placed):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    again = peira(folder, "run", "placed.py", "--runner", "ray", "--store", "one.db")
    said, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    sound(folder / "one.db")


SHARED = """
import time
from peira import match, study

@study(cases=[(f"case {i}", str(i)) for i in range(60)], evaluators=[match()])
def shared(case):
    time.sleep(0.1)
    return case.input.split()[1]
"""


class OnPostgres:
    """A run whose workers are actors, on a store in Postgres."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        (folder / "shared.py").write_text(SHARED)

    def start(self, *words: str) -> subprocess.Popen[str]:
        asked = ("run", "shared.py", "--runner", "ray", "--store", self.url, "--parallel", "2")
        return peira(self.folder, *asked, *words)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url.partition("&schema")[0], autocommit=True) as db:
            db.execute(f"SET search_path = {Address.parse(self.url).schema}")
            return db.execute(query).fetchall()

    def wait(self, query: str, seconds: float = PATIENCE) -> None:
        """Until a query gives true."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if self.rows(query)[0][0]:
                    return
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                pass
            assert time.monotonic() < deadline, query
            time.sleep(0.05)

    def check(self) -> None:
        """The run is complete, each trial ended once, and the store is sound."""
        store = PostgresStore(self.url, readonly=True)
        ends = [record.event.task for record in store.history() if isinstance(record.event, TaskFinished)]
        assert len(ends) == len(set(ends)) == 120
        assert verify(store) == []
        store.close()
        assert self.rows("SELECT status FROM run") == [("completed",)]


DONE = "SELECT count(*) >= {} FROM task WHERE state = 5"


@pytest.fixture
def shared(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> OnPostgres:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return OnPostgres(tmp_path, postgres_url)


def workers() -> list[psutil.Process]:
    """The actors of Ray that run workers."""
    return [one for one in psutil.process_iter(["name"]) if one.info["name"].startswith("ray::WorkerActor")]


class TestWorkers:
    def test_workers_are_placed_and_the_last_closes_the_run(self, shared: OnPostgres) -> None:
        process = shared.start("--workers", "2")
        shared.wait("SELECT count(*) = 2 FROM member WHERE shared_run IS NOT NULL AND state = 'alive'")
        (shared.folder / "shared.py").unlink()  # a worker rebuilds the study from what was recorded
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        assert "60 trials: 60 new" in said
        shared.check()

    def test_an_actor_that_ends_is_known_to_be_gone_before_its_lease_is_over(
        self, shared: OnPostgres
    ) -> None:
        process = shared.start("--workers", "2")
        shared.wait("SELECT count(*) = 2 FROM member WHERE shared_run IS NOT NULL AND state = 'alive'")
        shared.wait(DONE.format(10))
        [killed, _] = workers()
        below = killed.children(recursive=True)
        os.kill(killed.pid, signal.SIGKILL)
        shared.wait("SELECT count(*) = 1 FROM member WHERE state IN ('gone', 'dead')")
        assert shared.rows("SELECT state FROM member WHERE state IN ('gone', 'dead')") == [("gone",)]
        assert not [one for one in below if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        assert "was lost: others go on" in said
        shared.check()

    def test_workers_go_on_without_the_process_that_submitted(self, shared: OnPostgres) -> None:
        process = shared.start()
        shared.wait(DONE.format(6))
        process.kill()
        process.communicate()
        shared.wait("SELECT status = 'completed' FROM run")
        shared.check()

    def test_a_password_is_not_handed_to_ray(self, shared: OnPostgres) -> None:
        asked = ("--runner", "ray", "--store", shared.url.replace("://peira@", "://peira:secret@"))
        process = peira(shared.folder, "run", "shared.py", *asked)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 2
        assert "its password would be kept by Ray" in said
