"""Power loss at every sync: what was acknowledged is there, and nothing is damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from peira.core.contracts import Op
from peira.core.ids import digest
from peira.core.log.events import Record, Result, State, TaskFinished
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import claimed, plan_run, recorded

from .powerloss import FATES, KEPT, LOST, Disk, Moment, PowerlossVFS

COMMITS = 36
SAMPLE = 9
CHECKPOINT_PAGES = 50


@dataclass
class Workload:
    """A few dozen commits on a disk without power supply, and what was acknowledged in which order."""

    folder: Path
    acknowledged: list[Record | str] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def run(self, tune: str = "", checkpoint: int = CHECKPOINT_PAGES) -> None:
        disk = Disk(lambda: len(self.acknowledged))
        vfs = PowerlossVFS(disk)
        store = SqliteStore(self.folder / "store.db", vfs=vfs.name, on_commit=self.acknowledged.extend)
        # Checkpoints are where a log is overwritten: small ones, so that there are many.
        store._db.execute(f"PRAGMA wal_autocheckpoint = {checkpoint}; {tune}").fetchall()
        self._write(store)
        disk.mark()
        store.close()
        disk.mark()
        vfs.unregister()
        self.moments = disk.moments

    def _write(self, store: SqliteStore) -> None:
        chance = random.Random(7)
        run = plan_run(store)
        for i in range(COMMITS):
            events = (claimed(f"t{i}"), recorded(f"t{i}", f"s{i}"), _end(f"t{i}", chance.randbytes(500)))
            ops = [Op(run, (event,)) for event in events]
            assert store.commit(ops).result() == [None, None, None]
            if i % 6 == 0:
                self.acknowledged.append(store.put(chance.randbytes(3000)))

    def lost(self, moment: Moment) -> Callable[[SqliteStore], list[str]]:
        """How to see in a store what it lost of what had been acknowledged at the moment."""
        due = self.acknowledged[: moment.acknowledged]
        records = [one for one in due if isinstance(one, Record)]
        blobs = {one for one in due if isinstance(one, str)}

        def look(store: SqliteStore) -> list[str]:
            there = list(store.history())
            kept = {digest for digest, _, _ in store.blobs()}
            return [
                *(f"event {record.seq}" for record in records if record not in there),
                *(f"blob {digest}" for digest in blobs - kept),
            ]

        return look


def _end(name: str, noise: bytes) -> TaskFinished:
    return TaskFinished(
        digest(name), 1, State.succeeded, Result(1.0, msgspec.Raw(f'"{noise.hex()}"'.encode()))
    )


def after_failure(
    moment: Moment, fate: str, folder: Path, look: Callable[[SqliteStore], list[str]]
) -> list[str]:
    """What is wrong with the store that a failure leaves: lost, damaged or contradictory."""
    folder.mkdir()
    moment.restore(folder, fate, random.Random(f"{folder.parent.name} {folder.name}"))
    store = SqliteStore(folder / "store.db")
    try:
        return look(store) + verify(store)
    finally:
        store.close()


def sweep(workload: Workload, folder: Path, every: int) -> dict[str, list[str]]:
    """The problems at each moment and fate that has any."""
    found: dict[str, list[str]] = {}
    for number, moment in list(enumerate(workload.moments))[::every]:
        for fate in FATES:
            problems = after_failure(moment, fate, folder / f"{number} {fate}", workload.lost(moment))
            if problems:
                found[f"{number} {fate}"] = problems
    return found


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    (tmp_path / "work").mkdir()
    return Workload(tmp_path / "work")


def test_nothing_acknowledged_is_lost_at_a_sample_of_moments(workload: Workload, tmp_path: Path) -> None:
    workload.run()
    assert len(workload.moments) > COMMITS
    assert sweep(workload, tmp_path, SAMPLE) == {}


@pytest.mark.torture
@pytest.mark.parametrize("checkpoint", [1, 8, 12, 25, CHECKPOINT_PAGES, 100, 4000])
def test_nothing_acknowledged_is_lost_at_any_moment(
    workload: Workload, tmp_path: Path, checkpoint: int
) -> None:
    workload.run(checkpoint=checkpoint)
    for turn in ("first", "second", "third"):  # other sectors are spared each time
        (tmp_path / turn).mkdir()
        assert sweep(workload, tmp_path / turn, 1) == {}


def test_the_disk_would_show_a_loss(workload: Workload, tmp_path: Path) -> None:
    """Without a sync at each commit the same work does lose acknowledged rows: the sweep above bites."""
    workload.run("PRAGMA synchronous = NORMAL")
    losses = [  # at the beginning of a sync: by then several commits had been acknowledged
        after_failure(moment, LOST, tmp_path / str(number), workload.lost(moment))
        for number, moment in enumerate(workload.moments)
    ]
    assert any("event" in problem for problems in losses for problem in problems)


def test_the_disk_keeps_everything_if_the_power_stays_on(workload: Workload, tmp_path: Path) -> None:
    workload.run("PRAGMA synchronous = OFF")
    last = workload.moments[-1]
    assert after_failure(last, KEPT, tmp_path / "last", workload.lost(last)) == []


def test_moments_cover_checkpoints_too(workload: Workload) -> None:
    workload.run()
    files = [moment.media["store.db"].certain for moment in workload.moments]
    assert len(set(files)) > 3
