"""One owner at a time, across processes; any number of readers beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peira.core.ids import digest
from peira.errors import StoreInUse
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, finished, plan_run

OWNER = """
import sys, time
from peira.stores.sqlite import SqliteStore
from peira.testing.stores.actions import accept, claimed, finished, plan_run

store = SqliteStore(sys.argv[1])
run = plan_run(store)
print(run, flush=True)
for i in range(100_000):
    accept(store, run, claimed(f"t{i}"), finished(f"t{i}"))
    print(i, flush=True)
    if i >= int(sys.argv[2]):
        time.sleep(600)
"""


class Owner:
    """A process that owns a store and writes to it."""

    def __init__(self, path: Path, tasks: int = 3) -> None:
        command = [sys.executable, "-c", OWNER, str(path), str(tasks)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.run = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def owner(path: Path) -> Iterator[Owner]:
    owner = Owner(path)
    yield owner
    owner.kill()


def test_a_second_owner_is_refused_at_once_and_told_by_whom(owner: Owner, path: Path) -> None:
    with pytest.raises(StoreInUse, match=rf"store\.db is in use by process {owner.process.pid}") as refused:
        SqliteStore(path)
    assert refused.value.exit_code == 4


def test_a_second_owner_in_the_same_process_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreInUse, match=f"process {os.getpid()}, which is this very process"):
        SqliteStore(path)
    store.close()
    SqliteStore(path).close()


def test_the_store_is_free_as_soon_as_its_owner_was_killed(owner: Owner, path: Path) -> None:
    while owner.line() != "3":
        pass
    owner.kill()
    store = SqliteStore(path)
    assert store.incarnation == 2
    assert len(store.find("task", [digest(f"t{i}") for i in range(4)])) == 4
    assert verify(store) == []
    store.close()


def test_who_waits_gets_the_store_when_it_is_free(owner: Owner, path: Path) -> None:
    with pytest.raises(StoreInUse):
        SqliteStore(path, wait=0.1)
    subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {owner.process.pid}"]).wait()
    store = SqliteStore(path, wait=None)
    assert store.incarnation == 2
    store.close()


def test_others_read_while_the_owner_writes(path: Path) -> None:
    owner = Owner(path, tasks=100_000)
    try:
        reader = SqliteStore(path, readonly=True)
        assert reader.owner() == {"pid": owner.process.pid, "incarnation": 1}
        seen = 0
        while seen < 50:
            acknowledged = int(owner.line())
            found = len(reader.events(owner.run, limit=1_000_000))
            assert found >= 2 + 2 * (acknowledged + 1)
            seen += 1
        reader.close()
        assert owner.process.poll() is None
    finally:
        owner.kill()


def test_a_reader_sees_what_a_killed_owner_acknowledged_before_any_recovery(path: Path) -> None:
    owner = Owner(path, tasks=100_000)
    for _ in range(30):
        acknowledged = int(owner.line())
    owner.kill()
    reader = SqliteStore(path, readonly=True)
    assert reader.owner() is None
    tasks = reader.find("task", [digest(f"t{i}") for i in range(acknowledged + 1)])
    assert {task.state for task in tasks.values()} == {"succeeded"}
    assert len(tasks) == acknowledged + 1
    assert verify(reader) == []
    reader.close()


def test_a_reader_does_not_keep_an_owner_out(path: Path) -> None:
    SqliteStore(path).close()
    reader = SqliteStore(path, readonly=True)
    store = SqliteStore(path)
    run = plan_run(store)
    accept(store, run, claimed("a"), finished("a"))
    assert len(reader.events(run)) == 4
    reader.close()
    store.close()


def test_a_child_does_not_inherit_the_lock(path: Path) -> None:
    store = SqliteStore(path)
    child = subprocess.Popen(["sleep", "60"])
    store.close()
    SqliteStore(path).close()
    child.kill()
    child.wait()


def test_nobody_owns_what_is_closed(path: Path) -> None:
    store = SqliteStore(path)
    assert store.owner() == {"pid": os.getpid(), "incarnation": 1}
    store.close()
    assert store.owner() is None
