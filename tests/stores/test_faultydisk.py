"""A full disk, a failing write, a failing sync: a clear end, and nothing acknowledged is lost."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from peira.core.contracts import Op
from peira.core.log.events import Record
from peira.errors import StoreFault
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, finished, plan_run

from .faultydisk import EIO_SYNC, EIO_WRITE, ENOSPC, Fault, FaultyVFS

FAULTS = {"full": ENOSPC, "write": EIO_WRITE, "sync": EIO_SYNC}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def work(store: SqliteStore, run: str) -> None:
    for i in range(1000):
        accept(store, run, claimed(f"t{i}"), finished(f"t{i}"))


def close(store: SqliteStore) -> None:
    """SQLite bears a checkpoint that fails while closing; an exception of a Python VFS comes through."""
    with suppress(apsw.Error):
        store.close()


def check(path: Path, acknowledged: list[Record]) -> None:
    """Everything acknowledged is there, at once and for the next owner, and the store is sound."""
    for readonly in (True, False):
        store = SqliteStore(path, readonly=readonly)
        history = list(store.history())
        assert history[: len(acknowledged)] == acknowledged
        assert verify(store) == []
        store.close()


@pytest.mark.parametrize("lasting", [True, False], ids=["from then on", "once"])
@pytest.mark.parametrize("code", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("after", [0, 1, 2, 5, 13, 40])
def test_a_fault_ends_the_store_and_loses_nothing(path: Path, code: int, after: int, lasting: bool) -> None:
    fault, told = Fault(code, lasting=lasting), []
    vfs = FaultyVFS(fault)
    store = SqliteStore(path, vfs=vfs.name, on_commit=told.extend)
    run = plan_run(store)
    fault.arm(after)
    with pytest.raises(StoreFault, match="cannot be written"):
        work(store, run)
    assert len(told) % 2 == 0
    struck = fault.struck
    for write in (
        lambda: store.put(b"more"),
        lambda: store.commit([Op(run, ())]),
        lambda: store.claim(run, "me", ["x"], 1),
    ):
        with pytest.raises(StoreFault):
            write()
    assert fault.struck == struck  # nothing was tried again
    assert len(store.events(run)) >= len(told)
    close(store)
    vfs.unregister()
    check(path, told)


@pytest.mark.parametrize("code", FAULTS.values(), ids=FAULTS.keys())
def test_everybody_waiting_is_told(path: Path, code: int) -> None:
    fault, told = Fault(code), []
    vfs = FaultyVFS(fault)
    store = SqliteStore(path, vfs=vfs.name, on_commit=told.extend)
    run = plan_run(store)
    fault.arm(3)
    pending: list[Future] = []
    with suppress(StoreFault):
        for i in range(100_000):
            pending.append(store.commit([Op(run, (claimed(f"t{i}"),))]))
    ends = [future.exception(timeout=30) for future in pending]
    kept = ends.index(next(end for end in ends if end))
    assert all(isinstance(end, StoreFault) for end in ends[kept:])
    assert len(told) == 2 + kept
    close(store)
    vfs.unregister()
    check(path, told)


@pytest.mark.parametrize("code", FAULTS.values(), ids=FAULTS.keys())
def test_a_checkpoint_that_fails_loses_nothing(path: Path, code: int) -> None:
    """Closing folds the log into the file; what cannot be folded stays in the log."""
    fault, told = Fault(code), []
    vfs = FaultyVFS(fault)
    store = SqliteStore(path, vfs=vfs.name, on_commit=told.extend)
    run = plan_run(store)
    for i in range(20):
        accept(store, run, claimed(f"t{i}"), finished(f"t{i}"))
    fault.arm(1)
    close(store)
    assert fault.struck
    vfs.unregister()
    check(path, told)


# A connection that could not be used is closed in silence; an exception of a Python VFS is still heard then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("code", "after"), [(ENOSPC, 0), (ENOSPC, 9), (EIO_WRITE, 4), (EIO_SYNC, 0), (EIO_SYNC, 2)]
)
def test_a_store_that_cannot_be_made_says_so(path: Path, code: int, after: int) -> None:
    fault = Fault(code, countdown=after)
    vfs = FaultyVFS(fault)
    try:
        with pytest.raises(StoreFault, match="cannot open the store"):
            SqliteStore(path, vfs=vfs.name).close()
        assert fault.struck
    finally:
        vfs.unregister()
    store = SqliteStore(path)  # and is made when there is room again
    plan_run(store)
    assert verify(store) == []
    store.close()
