"""Breaks found in a fan-out of work units. Each is impossible here, and a test shows it.

Those of confined workspaces, evidence and process trees are shown on work plans: tests/work/test_breaks.py.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from peira import Case, run, study, submit
from peira.core.contracts import Ended, Offer, Op
from peira.core.ids import digest
from peira.core.log.events import RunPlanned, RunStarted, State, Status, TaskFinished, TaskSpec
from peira.engine.context import RunContext
from peira.engine.execution import Execution
from peira.engine.recovery import recover
from peira.engine.run import RunDriver
from peira.errors import Invalid
from peira.runners.threads import ThreadRunner
from peira.spec.limits import Policy
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore

# Work units with dependencies, straight on the engine


class Unit:
    """A unit of work that returns its name, or fails."""

    stage = "unit"
    asynchronous = False
    reader = ""

    def __init__(self, name: str, sheet: list[str], fails: bool) -> None:
        self.name, self.sheet, self.fails = name, sheet, fails

    def scope(self):
        return self.name

    def copy(self):
        return Unit(self.name, [], self.fails)

    def perform(self, channel, epoch):
        self.sheet.append(self.name)
        if self.fails:
            raise RuntimeError(f"{self.name} failed")
        return self.name

    def message(self):
        return {"name": self.name}


class Units:
    """A source of units by name, each with the names it needs."""

    unit = "unit"

    def __init__(self, needs: dict[str, Sequence[str]], fails: Sequence[str] = ()) -> None:
        self._left = list(needs.items())
        self._fails = fails
        self.size = len(needs)
        self.done: list[str] = []

    @property
    def closed(self) -> bool:
        return not self._left

    def performs(self, kind: str) -> bool:
        return True

    def more(self, n: int) -> list[Offer]:
        taken, self._left = self._left[:n], self._left[n:]
        return [
            Offer(
                TaskSpec(digest(name), "unit", "unit", needs=tuple(map(digest, needs))),
                Unit(name, self.done, name in self._fails),
            )
            for name, needs in taken
        ]

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        return []


def conduct(store, source: Units, name: str, tmp_path: Path, workers: int = 2, **policy):
    """One run of the units; how it ended, and the state of each unit by name."""
    run_id = digest(name)
    recover(store, 1)
    opening = [Op(run_id, (RunPlanned("", "units", source.size),)), Op(run_id, (RunStarted("1", 1),))]
    store.commit(opening).result()
    context = RunContext(run_id, "1", store, Policy(**policy), work_root=tmp_path / "work")
    execution = Execution(context, source)
    finished = RunDriver(execution, {"unit": (ThreadRunner(), workers)}).conduct()
    return finished, execution


def states(store, names) -> dict[str, str]:
    found = store.find("task", [digest(name) for name in names])
    return {name: found[digest(name)].state.value for name in names if digest(name) in found}


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "u.db")
    yield store
    store.close()


NEEDS = {"a": (), "b": ("a",), "c": ("b",), "x": (), "y": ("x",)}


def test_dependencies_are_done_before_what_needs_them(store, tmp_path) -> None:
    source = Units(dict(reversed(NEEDS.items())))
    finished, _ = conduct(store, source, "r", tmp_path, workers=4)
    assert finished.status is Status.completed
    place = {name: at for at, name in enumerate(source.done)}
    assert all(place[need] < place[name] for name, needs in NEEDS.items() for need in needs)
    assert sorted(source.done) == sorted(NEEDS)


def test_resumed_unit_with_a_finished_dependency_is_unknown_dependency(store, tmp_path) -> None:
    """A resumed unit whose dependency had finished earlier was refused: "unknown dependency"."""
    first, _ = conduct(store, Units(NEEDS, fails=["b", "y"]), "first", tmp_path)
    assert first.status is Status.failures
    again = Units(NEEDS)
    second, _ = conduct(store, again, "second", tmp_path)
    assert second.status is Status.completed
    assert sorted(again.done) == ["b", "c", "y"]
    assert set(states(store, NEEDS).values()) == {"succeeded"}


def test_a_need_that_is_not_offered_again_but_has_succeeded_is_met(store, tmp_path) -> None:
    conduct(store, Units({"a": ()}), "first", tmp_path)
    later = Units({"b": ("a",)})
    finished, _ = conduct(store, later, "second", tmp_path)
    assert (finished.status, later.done) == (Status.completed, ["b"])


def test_one_failure_cancels_independent_siblings(store, tmp_path) -> None:
    """One failure cancelled units that had nothing to do with it, and some got no event at all."""
    finished, execution = conduct(store, Units(NEEDS, fails=["a"]), "r", tmp_path)
    assert states(store, NEEDS) == {
        "a": "failed",
        "b": "blocked",
        "c": "blocked",
        "x": "succeeded",
        "y": "succeeded",
    }
    assert finished.exit_code == 1
    assert finished.counts == {"planned": 5, "unit.failed": 1, "unit.blocked": 2, "unit.succeeded": 2}
    records = store.events(execution.run, limit=1000)
    ends = Counter(r.event.task for r in records if isinstance(r.event, TaskFinished))
    assert ends == {digest(name): 1 for name in NEEDS}


def test_one_failure_cancels_no_sibling_trial() -> None:
    """The same for trials: a failure is one trial's, whatever runs beside it."""
    gate = threading.Barrier(4)

    @study(cases=[Case(i) for i in range(4)])
    def agent(case):
        gate.wait(20)
        if case.input == 0:
            raise OSError("alone")
        return case.input

    results = run(agent, store=MemoryStore(), parallel=4, progress=False)
    assert (results.counts["succeeded"], results.counts["failed"]) == (3, 1)


def test_success_in_the_same_tick_as_a_failure_is_reported_cancelled() -> None:
    """A unit that succeeded in the same moment as another failed was reported as cancelled."""
    gate = threading.Barrier(4)

    @study(cases=[Case(i) for i in range(4)], policy={"fail_fast": True})
    def agent(case):
        gate.wait(20)  # all four end together
        if case.input == 0:
            raise OSError("and stop")
        return case.input

    results = run(agent, store=MemoryStore(), parallel=4, progress=False)
    assert results.status == "stopped by a limit"
    assert {t.input: t.state.value for t in results.trials} == {
        0: "failed",
        1: "succeeded",
        2: "succeeded",
        3: "succeeded",
    }


@pytest.mark.parametrize("parallel", [0, -1])
def test_max_workers_0_runs_nothing_and_says_all_complete(folder, parallel) -> None:
    """With max_workers=0 nothing ran, and "all complete" was said."""
    asked = study(lambda case: case.input, cases=[Case(1)], name="s")
    for start in (run, submit):
        with pytest.raises(Invalid, match="parallel"):
            start(asked, store="s.db", parallel=parallel)
    assert not (folder / "s.db").exists()


# Processes

GRANDCHILDREN = """
import os, subprocess, sys
from pathlib import Path
from peira import Case, run, study

DOUBLE_FORK = "import os, time\\nif os.fork() == 0:\\n    os.setsid()\\n    if os.fork() == 0:\\n        "
DOUBLE_FORK += "open(f'pid {os.getpid()}', 'w').close()\\n        time.sleep(60)\\n"
DOUBLE_FORK += "    os._exit(0)\\nos.wait()"

@study(cases=[Case("background"), Case("double fork"), Case("plain")])
def starts(case):
    if case.input == "background":
        child = subprocess.Popen(["sleep", "60"], start_new_session=True)  # and it holds our stdout
        Path(f"pid {child.pid}").touch()
    if case.input == "double fork":
        subprocess.run([sys.executable, "-c", DOUBLE_FORK], check=True)
        while len(list(Path().glob("pid *"))) < 1:
            pass
    HANG
    return case.input

if __name__ == "__main__":
    run(starts, store="s.db", runner="process", parallel=PARALLEL)
"""


def _pids(folder: Path) -> list[int]:
    return [int(file.name.split()[1]) for file in folder.glob("pid *")]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_grandchildren_survive_success(folder, written, until) -> None:
    """Background and double-forked grandchildren lived on after their unit had succeeded."""
    written(GRANDCHILDREN.replace("HANG", "").replace("PARALLEL", "1"))
    results = run("s.py", store="s.db", runner="process", parallel=1, progress=False)
    assert results.ok, results.failures
    assert len(_pids(folder)) == 2
    until(lambda: not any(map(_alive, _pids(folder))), 5)


def test_grandchildren_survive_cancel(folder, written, until) -> None:
    """Nor did a cancellation reach them."""
    written(GRANDCHILDREN.replace("HANG", "import time; time.sleep(60)").replace("PARALLEL", "3"))
    handle = submit("s.py", store="s.db", runner="process", parallel=3, progress=False)
    until(lambda: len(_pids(folder)) == 2)
    assert handle.cancel()
    assert handle.result().status == "cancelled"
    until(lambda: not any(map(_alive, _pids(folder))), 5)


def test_coordinator_death_leaves_5_of_5_workers_running(folder, written, spawned, until) -> None:
    """When the coordinator was killed, all five workers went on running."""
    source = GRANDCHILDREN.replace("HANG", "Path(f'pid {os.getpid()}').touch(); import time; time.sleep(60)")
    written(source.replace("PARALLEL", "3"))
    process = spawned()
    until(lambda: len(_pids(folder)) == 5)
    process.kill()
    process.wait()
    until(lambda: not any(map(_alive, _pids(folder))), 10)


def test_a_process_that_exits_counts_as_success(folder, written) -> None:
    """Exit code 7 together with an artifact counted as success."""
    file = written("""
import os, sys
from peira import Case, current_trial, study

@study(cases=[Case(i) for i in range(3)])
def leaves(case):
    current_trial().attach("result", b"done")
    if case.input == 1:
        os._exit(7)
    if case.input == 2:
        sys.exit(0)
    return case.input
""")
    results = run(file, store="s.db", runner="process", parallel=1, progress=False)
    failed = {row.trial.input: row.failure for row in results.failures}
    assert failed.keys() == {1, 2}
    assert (failed[1].type, failed[1].message) == ("ProcessDied", "its process ended with exit code 7")
    assert failed[2].type == "SystemExit"
    assert all(len(t.artifacts) == 1 for t in results.trials)


def test_a_300_kb_line_fails_a_unit(folder, written, capfd) -> None:
    """A line of 300 kB on standard output failed its unit."""
    file = written("""
from peira import Case, current_trial, step, study

@study(cases=[Case(i) for i in range(2)])
def prints(case):
    print("x" * 300_000)
    current_trial().log("line", text="y" * 300_000)
    return step("line", str, "z" * 300_000)
""")
    results = run(file, store="s.db", runner="process", parallel=1, progress=False)
    assert results.ok, results.failures
    assert [len(t.output) for t in results.trials] == [300_000] * 2
    capfd.readouterr()


def test_a_stale_end_of_a_former_run_is_not_taken_for_this_one() -> None:
    """What a former run left (an artifact, an end) was accepted as this run's."""

    @study(cases=[Case(i) for i in range(3)])
    def agent(case):
        return case.input

    store = MemoryStore()
    first = run(agent, store=store, progress=False)
    fresh = run(agent, store=store, fresh=True, progress=False)
    assert not {t.id for t in first.trials} & {t.id for t in fresh.trials}
    assert fresh.counts["succeeded"] == 3
    ends = [r.run for r in store.history() if isinstance(r.event, TaskFinished)]
    assert Counter(ends) == {first.run_id: 3, fresh.run_id: 3}
    assert all(t.state is State.succeeded and not t.reused for t in fresh.trials)


def test_blocked_units_are_tried_when_their_need_succeeds_later(store, tmp_path) -> None:
    """Blocked is this run's end, not for ever."""
    conduct(store, Units({"a": (), "b": ("a",)}, fails=["a"]), "first", tmp_path)
    assert states(store, ["a", "b"]) == {"a": "failed", "b": "blocked"}
    conduct(store, Units({"a": (), "b": ("a",)}), "second", tmp_path)
    assert states(store, ["a", "b"]) == {"a": "succeeded", "b": "succeeded"}


def test_a_long_chain_of_blocked_units_ends(store, tmp_path) -> None:
    """Blocking goes down a chain of any length."""
    names = [f"u{i}" for i in range(2000)]
    needs = {name: tuple(names[max(0, i - 1) : i]) for i, name in enumerate(names)}
    finished, _ = conduct(store, Units(needs, fails=["u0"]), "r", tmp_path)
    assert finished.counts == {"planned": 2000, "unit.failed": 1, "unit.blocked": 1999}


@pytest.mark.parametrize(
    "needs", [{"a": (), "b": ("nowhere",)}, {"a": (), "b": ("c",), "c": ("b",)}], ids=["unknown", "cycle"]
)
def test_a_need_that_nobody_can_meet_hangs_the_run(tmp_path, needs) -> None:
    """Nothing is under way or offered any more, and a unit still waits: it is blocked, not waited for."""
    store, ends = MemoryStore(), []
    thread = threading.Thread(
        target=lambda: ends.append(conduct(store, Units(needs), "r", tmp_path)[0]), daemon=True
    )
    thread.start()
    thread.join(timeout=5)
    assert ends, "the run never ends"
    assert ends[0].status is Status.failures
    assert states(store, needs) == {name: "blocked" if name in "bc" else "succeeded" for name in needs}
