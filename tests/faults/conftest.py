"""A study in a process of its own that can be killed, and what must be true of its store afterwards.

The process notes outside the store, synced, each trial and step it really executes and each record it
was told is durable. Those notes are the witnesses: the store is judged by them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.core.contracts import OpenStore
from peira.core.log.events import TERMINAL, Record, Status
from peira.errors import PeiraError, StoreDamaged, Unknown
from peira.stores.postgres.server import PrivateServer
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

SCRIPT = """
import json, os, sys
from peira import Case, current_trial, exact, run, step, study


def open_store(where, **how):
    if "://" in where:
        from peira.stores.postgres.store import PostgresStore

        return PostgresStore(where, **how)
    from peira.stores.sqlite import SqliteStore

    return SqliteStore(where, **how)


def note(name, *lines):
    file = os.open(os.path.join(os.environ["OUTSIDE"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, "".join(f"{line}\\n" for line in lines).encode())
    os.fsync(file)
    os.close(file)


def double(trial, n):
    note("steps", f"{os.getpid()} {trial}")
    return 2 * n


@study(cases=[Case(i, expected=i) for i in range(8)], factors={"style": ["a", "b"]}, repeats=4,
       evaluators=[exact()])
def answers(case, style):
    trial = current_trial()
    note("trials", f"{os.getpid()} {trial.id}")
    doubled = step("double", double, trial.id, case.input)
    if case.input == 3:
        trial.attach("big", bytes(70_000) + str(trial.seed).encode())
    return doubled // 2 if trial.rng.random() < (0.8 if style == "a" else 0.4) else -1


def acknowledged(records):
    seen = [[r.run, r.seq, r.event.__struct_config__.tag, getattr(r.event, "task", "")] for r in records]
    note("acknowledged", *map(json.dumps, seen))


if __name__ == "__main__":
    store = open_store(sys.argv[1], on_commit=acknowledged)
    results = run(answers, store=store, parallel=4, policy={"interruptions": int(sys.argv[2])})
    print(results.status)
    store.close()
"""


@dataclass(frozen=True)
class Ack:
    """A record that the killed process was told is durable."""

    run: str
    seq: int
    kind: str
    task: str


@dataclass(frozen=True)
class Reference:
    """What an undisturbed run gives."""

    table: str
    outputs: dict[str, object]
    acknowledged: int


@dataclass
class Bench:
    """One store, the processes that work on it, and their notes."""

    folder: Path
    begin: Callable[..., Any]
    interruptions: int = 3

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.script.write_text(SCRIPT)

    @property
    def script(self) -> Path:
        return self.folder / "answers.py"

    @property
    def store(self) -> Path | str:
        return self.folder / "answers.db"

    def reader(self) -> OpenStore:
        """The store, open for reading."""
        return SqliteStore(self.store, readonly=True)

    def exists(self) -> bool:
        return Path(self.store).exists()

    def start(self, failpoint: str = "", begin: Callable[..., Any] | None = None) -> Any:
        env = {**os.environ, "OUTSIDE": str(self.folder), "PEIRA_FAILPOINT": failpoint}
        command = [sys.executable, str(self.script), str(self.store), str(self.interruptions)]
        return (begin or self.begin)(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process: Any) -> int:
        _, problem = process.communicate(timeout=50)
        assert process.returncode in (0, -9), problem.decode()
        return int(process.returncode)

    def kill_at(self, failpoint: str) -> int:
        """Run until the plug is pulled there; the process's return code."""
        return self.finish(self.start(failpoint))

    def kill_after(self, acknowledged: int, seconds: float) -> int:
        """Kill from outside, so long after that many more acknowledgements."""
        aim = len(self.acks) + acknowledged
        process = self.start(begin=None if acknowledged else subprocess.Popen)  # what begins, begins cold
        while acknowledged and process.poll() is None and len(self.lines("acknowledged")) < aim:
            time.sleep(0.001)
        time.sleep(seconds)
        process.kill()
        return self.finish(process)

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def acks(self) -> list[Ack]:
        return [Ack(*json.loads(line)) for line in self.lines("acknowledged")]

    def executed(self, name: str) -> list[tuple[int, str]]:
        """(process, trial) of each trial or step that was really executed, in order."""
        return [(int(pid), trial) for pid, trial in map(str.split, self.lines(name))]

    def recorded(self) -> dict[tuple[str, int], Record]:
        store = self.reader()
        try:
            return {(record.run, record.seq): record for record in store.history()}
        finally:
            store.close()

    # What must be true

    def check_nothing_lost(self) -> None:
        """Before any recovery: everything acknowledged is there, and the run is not said to be running."""
        if not self.acks:
            return
        records = self.recorded()
        for ack in self.acks:
            event = records[ack.run, ack.seq].event
            assert (event.__struct_config__.tag, getattr(event, "task", "")) == (ack.kind, ack.task)
        ended = {ack.task for ack in self.acks if ack.kind == "task.finished"}
        store = self.reader()
        assert all(task.state in TERMINAL for task in store.find("task", sorted(ended)).values())
        store.close()
        self.check_status(records)

    def check_status(self, records: dict[tuple[str, int], Record]) -> None:
        over = any(r.event.__struct_config__.tag == "run.finished" for r in records.values())
        status = peira.open(self.store).run().status
        assert status is Status.interrupted or (over and status is Status.completed), status

    def recover(self, reference: Reference) -> None:
        """Run again, here: it finishes, it equals an undisturbed run, and nothing known was repeated."""
        acks, trials, steps = self.acks, self.executed("trials"), self.executed("steps")
        policy = {"interruptions": self.interruptions}
        results = peira.run(self.script, store=self.store, parallel=4, policy=policy, progress=False)
        assert results.status == "completed", results.failures
        assert str(results.table("style")) == reference.table
        assert outputs(results) == reference.outputs
        self._check_not_repeated(acks, "task.finished", self.executed("trials")[len(trials) :])
        self._check_not_repeated(acks, "step.recorded", self.executed("steps")[len(steps) :])
        self.check_sound()

    def _check_not_repeated(self, acks: list[Ack], kind: str, later: list[tuple[int, str]]) -> None:
        known = {ack.task for ack in acks if ack.kind == kind}
        assert not known & {trial for _, trial in later}
        assert max(Counter(later).values(), default=1) == 1

    def check_sound(self) -> None:
        store = self.reader()
        try:
            assert list(verify(store)) == []
        finally:
            store.close()

    def check_readable(self) -> None:
        """A look never fails on a store that was cut off in the middle, except that it may not be there."""
        try:
            peira.open(self.store).runs()
        except Unknown:
            assert not self.exists()
        except StoreDamaged as problem:
            raise AssertionError("a store cut off while it was made looks damaged") from problem


def outputs(results: peira.Results) -> dict[str, object]:
    return {trial.id: (trial.output, trial.scores["exact"].value) for trial in results.trials}


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, warm: Any) -> Reference:
    """The undisturbed run, once a session."""
    bench = Bench(tmp_path_factory.mktemp("undisturbed"), warm.start)
    assert bench.finish(bench.start()) == 0
    results = peira.open(bench.store).results()
    assert results.status == "completed"
    bench.check_sound()
    return Reference(str(results.table("style")), outputs(results), len(bench.acks))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Any) -> Bench:
    bench = Bench(tmp_path / "bench", warm.start)
    monkeypatch.setenv("OUTSIDE", str(bench.folder))  # the recovering run notes there, too
    monkeypatch.chdir(tmp_path)
    return bench


@pytest.fixture
def database(postgres_server: str) -> Iterator[PrivateServer]:
    """A server of the test's own, which it may crash; skipped where none can be run."""
    folder = Path(tempfile.mkdtemp(prefix="peira-tests-"))
    folder.chmod(0o755)
    server = PrivateServer(folder / "server")
    try:
        server.start()
    except PeiraError as problem:
        shutil.rmtree(folder)
        pytest.skip(str(problem))
    yield server
    if server.pid:
        server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Moment:
    """A moment to pull the plug, by its seed: the same on every machine in what it waits for."""

    seed: int

    @cached_property
    def _random(self) -> random.Random:
        return random.Random(f"moment {self.seed}")

    def strike(self, bench: Bench, reference: Reference) -> int:
        if self._random.random() < 0.15:  # while it starts: imports, lock, tables
            return bench.kill_after(0, self._random.uniform(0.2, 1.0))
        return bench.kill_after(
            self._random.randint(1, reference.acknowledged - 1), self._random.uniform(0.0, 0.01)
        )


@pytest.fixture
def moment(request: pytest.FixtureRequest) -> Moment:
    return Moment(request.param)
