"""kill -9 of the owner of a store, of the process that commits for it, and of both."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from peira.stores.sqlite.writer_process.process import CHILD

from .conftest import SCRIPT, Bench

OWNER = {
    "store.after_acknowledge": 9,
    "blob.after_rename": 2,
    "engine.after_claim": 5,
    "engine.before_end": 7,
    "engine.before_finish": 1,
    "step.after_record": 4,
}
"""The failpoints that the owner passes, and which time it is killed there."""
PROCESS = {"store.before_fold": (1, 6), "store.before_commit": (1, 17), "store.after_commit": (1, 9)}
"""Those that the process passes."""
WITNESS = '''

class Witness(SqliteStore):
    """A store that a process commits to from the beginning; who waited for a commit notes it."""

    def commit(self, ops):
        def note_all(done):
            if done.exception() is None:
                taken = [op for op, said in zip(ops, done.result()) if said is None]
                acknowledged([(op, event) for op in taken for event in op.events])

        done = super().commit(ops)
        done.add_done_callback(note_all)
        return done


def acknowledged(committed):
    seen = [[op.run, -1, event.__struct_config__.tag, getattr(event, "task", "")] for op, event in committed]
    note("acknowledged", *map(json.dumps, seen))


def open_store(where, on_commit):
    return Witness(where, busy=0)


'''


@dataclass
class WriterProcessBench(Bench):
    """A bench whose owner leaves committing to a process."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        before, main, after = SCRIPT.partition('if __name__ == "__main__":')
        self.script.write_text(
            f"{before}\nfrom peira.stores.sqlite import SqliteStore\n{WITNESS}{main}{after}"
        )

    def writer_of(self, owner: Any) -> psutil.Process | None:
        """The process that commits, once it is there."""
        try:
            for one in psutil.Process(owner.pid).children():
                if CHILD in one.cmdline():
                    return one
        except psutil.NoSuchProcess:  # the owner, or a child, has just ended
            pass
        return None

    def check_nothing_lost(self) -> None:
        """Whatever was acknowledged is there."""
        if not self.acks:
            return
        records = self.recorded()
        kept = Counter(
            (r.run, r.event.__struct_config__.tag, getattr(r.event, "task", "")) for r in records.values()
        )
        acknowledged = Counter((ack.run, ack.kind, ack.task) for ack in self.acks)
        assert acknowledged - kept == Counter()
        self.check_status(records)

    def finish_refused(self, process: Any) -> None:
        """Wait for an owner whose process was killed: it says so, and ends."""
        _, problem = process.communicate(timeout=50)
        said = problem.decode()
        assert process.returncode == 1, said
        assert "the process that commits to it has ended" in said
        assert "what was acknowledged is kept" in said


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Any) -> WriterProcessBench:
    bench = WriterProcessBench(tmp_path / "bench", warm.start)
    monkeypatch.setenv("OUTSIDE", str(bench.folder))
    monkeypatch.chdir(tmp_path)
    return bench


def check(bench: WriterProcessBench, reference: Any) -> None:
    bench.check_readable()
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.parametrize("place", OWNER)
def test_the_owner_is_killed(place, bench, reference) -> None:
    assert bench.kill_at(f"{place}:{OWNER[place]}") == -9
    check(bench, reference)


@pytest.mark.parametrize("place", [f"{name}:{count}" for name, counts in PROCESS.items() for count in counts])
def test_the_process_is_killed(place, bench, reference) -> None:
    bench.finish_refused(bench.start(place))
    check(bench, reference)


def test_an_owner_without_faults_leaves_no_process(bench, reference) -> None:
    process = bench.start()
    while (writer := bench.writer_of(process)) is None and process.poll() is None:
        time.sleep(0.001)
    assert bench.finish(process) == 0
    assert writer is not None
    assert not writer.is_running()
    bench.recover(reference)


def strike(bench: WriterProcessBench, acknowledged: int, kills: str) -> None:
    """Kill the owner, the process, or first one and then the other, after so many acknowledgements."""
    owner = bench.start()
    while owner.poll() is None and len(bench.lines("acknowledged")) < acknowledged:
        time.sleep(0.001)
    writer = bench.writer_of(owner)
    for who in kills:
        if who == "o":
            owner.kill()
        elif writer is not None:
            writer.kill()
    _, problem = owner.communicate(timeout=50)
    assert owner.returncode in (0, 1, -9), problem.decode()


@pytest.mark.parametrize("acknowledged", [1, 20, 90, 200])
@pytest.mark.parametrize("kills", ["o", "w", "wo", "ow"])
def test_killed_at_some_moment(acknowledged, kills, bench, reference) -> None:
    strike(bench, acknowledged, kills)
    check(bench, reference)


@pytest.mark.torture
@pytest.mark.parametrize("acknowledged", range(1, 260, 5))
@pytest.mark.parametrize("kills", ["o", "w", "wo", "ow"])
def test_killed_at_many_moments(acknowledged, kills, bench, reference) -> None:
    strike(bench, acknowledged, kills)
    check(bench, reference)


@pytest.mark.parametrize("acknowledged", [15, 40, 130])
def test_a_stopped_process_holds_nobody_who_takes_the_store_over(acknowledged, bench, reference) -> None:
    """Wherever it stands still, in a transaction too: who takes the store of its dead owner ends it."""
    owner = bench.start()
    while owner.poll() is None and len(bench.lines("acknowledged")) < acknowledged:
        time.sleep(0.001)
    writer = bench.writer_of(owner)
    assert writer is not None
    writer.suspend()
    owner.kill()
    owner.wait(50)
    bench.check_nothing_lost()
    bench.recover(reference)
    assert not writer.is_running() or writer.status() == psutil.STATUS_ZOMBIE
