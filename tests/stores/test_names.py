"""A store reached by two names has one owner, and nothing is swapped between its rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from msgspec.structs import asdict

from peira.errors import StoreFault, StoreInUse
from peira.stores.sqlite import SqliteStore
from peira.stores.sqlite.lock import owner, running_process
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, finished, plan_run


def symbolic(path: Path) -> Path:
    name = path.with_name("same.db")
    name.symlink_to(path.name)
    return name


def in_a_linked_folder(path: Path) -> Path:
    (path.parent / "other").symlink_to(path.parent)
    return path.parent / "other" / path.name


def relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


def without_its_lock(path: Path) -> Path:
    path.with_name(path.name + ".lock").unlink()
    return path


NAMES = [symbolic, in_a_linked_folder, relative, without_its_lock]


@pytest.mark.parametrize("renamed", NAMES)
def test_a_second_name_does_not_make_a_second_owner(tmp_path: Path, renamed: Callable[[Path], Path]) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
        SqliteStore(renamed(path))
    run = plan_run(store)
    accept(store, run, claimed("t"), finished("t"))
    store.close()
    assert not verify(SqliteStore(path, readonly=True))


@pytest.mark.parametrize("renamed", NAMES)
def test_one_after_the_other_through_both_names(tmp_path: Path, renamed: Callable[[Path], Path]) -> None:
    path, large = tmp_path / "store.db", os.urandom(200_000)
    store = SqliteStore(path)
    digest = store.put(large)
    store.close()
    again = SqliteStore(renamed(path))
    assert again.get(digest) == large
    other = again.put(large + b"!")
    again.close()
    assert SqliteStore(path, readonly=True).get(other) == large + b"!"


def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    os.link(path, tmp_path / "linked.db")
    for name in (path, tmp_path / "linked.db"):
        for readonly in (True, False):
            with pytest.raises(StoreFault, match="2 names"):
                SqliteStore(name, readonly=readonly)
    (tmp_path / "linked.db").unlink()
    SqliteStore(path).close()


def test_a_commit_of_a_former_owner_is_refused(tmp_path: Path) -> None:
    """Whoever took the store over, by whatever means, the former owner writes nothing more."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    run = plan_run(store)
    thief = apsw.Connection(str(path))
    thief.execute("UPDATE meta SET value = value + 1 WHERE key = 'incarnation'")
    thief.close()
    with pytest.raises(StoreFault, match="another process has taken the store over"):
        accept(store, run, claimed("t"))
    with pytest.raises(StoreFault, match="another process has taken the store over"):
        accept(store, run, *[claimed(f"t{i}") for i in range(600)])
    store.close()


def test_a_row_of_another_id_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    run = plan_run(store)
    accept(store, run, claimed("mine"))
    other = apsw.Connection(str(path))
    other.execute("UPDATE task SET id = randomblob(32)")
    other.close()
    with pytest.raises(StoreFault, match=r"NOT NULL constraint failed: task\.state"):
        accept(store, run, finished("mine"))
    store.close()


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_store_that_is_gone_takes_nothing_more(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    run = plan_run(store)
    path.rename(tmp_path / "elsewhere.db")
    if change == "replaced":
        SqliteStore(tmp_path / "new.db").close()
        (tmp_path / "new.db").rename(path)
    with pytest.raises(StoreFault, match=f"was {change}"):
        accept(store, run, claimed("t"))
    store.close()


def test_a_store_whose_log_was_removed_takes_nothing_more(tmp_path: Path) -> None:
    """SQLite would go on writing to the removed file, and a kill would lose it all."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    run = plan_run(store)
    (tmp_path / "store.db-wal").unlink()
    with pytest.raises(StoreFault, match="the log of the store, was removed"):
        accept(store, run, claimed("t"))
    store.close()
    assert not verify(SqliteStore(path, readonly=True))


@pytest.mark.parametrize("same", [True, False])
def test_an_owner_in_another_container_that_let_its_lock_go_is_gone(tmp_path: Path, same: bool) -> None:
    """Its process cannot be looked at. A lock file that was removed meanwhile proves nothing."""
    path, lock = tmp_path / "store.db", tmp_path / "store.db.lock"
    SqliteStore(path).close()
    file = lock.stat()
    me = asdict(running_process(os.getpid()))
    row = {**me, "namespace": "pid:[1]", "lock": f"{file.st_dev}:{file.st_ino}"}
    db = apsw.Connection(str(path))
    db.execute("UPDATE meta SET value = ? WHERE key = 'owner'", (json.dumps(row),))
    db.close()
    if same:
        SqliteStore(path).close()
    else:
        lock.rename(tmp_path / "held by the owner")
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
            SqliteStore(path)


ORPHANED = """
import os, sys, time
from peira.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
if sys.argv[2] == "python":
    child = os.fork()
else:
    import ctypes
    child = ctypes.CDLL(None).fork()
if child == 0:
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("forked_by", ["python", "C"])
def test_orphans_of_a_killed_owner_hold_nothing(tmp_path: Path, forked_by: str) -> None:
    """A child that Python forks lets go of the lock; one that C forks keeps it, and it is taken over."""
    path = tmp_path / "store.db"
    command = [sys.executable, "-c", ORPHANED, str(path), forked_by]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        orphan = int(process.stdout.readline())
        try:
            assert owner(path.with_name("store.db.lock")) == {"pid": process.pid, "incarnation": 1}
            process.send_signal(signal.SIGKILL)
            deadline = time.monotonic() + 10
            while owner(path.with_name("store.db.lock")) is not None:
                assert time.monotonic() < deadline
            store = SqliteStore(path)
            assert store.incarnation == 2
            with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
                SqliteStore(path)
            store.close()
        finally:
            os.kill(orphan, signal.SIGKILL)
