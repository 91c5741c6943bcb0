"""Processes that die of their own trials, that meet on one store, or that were cut off while making it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest

import peira
from peira.core.log.events import Status
from peira.errors import StoreDamaged, StoreInUse

DEADLY = """
import os
from peira import Case, exact, run, study

@study(cases=[Case(i, expected=i) for i in range(12)], evaluators=[exact()])
def deadly(case):
    with open("executed", "a") as file:
        file.write(f"{case.input}\\n")
    if case.input == 5:
        os.kill(os.getpid(), 9)
    return case.input

if __name__ == "__main__":
    run(deadly, store="deadly.db", parallel=4)
"""
SLOW = """
import os, time
from pathlib import Path
from peira import Case, run, study

@study(cases=[Case(i) for i in range(4)])
def slow(case):
    Path(f"began {os.getpid()} {case.input}").touch()
    until = time.monotonic() + 20
    while not Path("go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return case.input

if __name__ == "__main__":
    run(slow, store="slow.db", parallel=4)
"""
ASKING = """
import asyncio, os
from pathlib import Path
from peira import ask_async, run, study

@study(cases=["x"])
async def asking(case):
    asked = [asyncio.ensure_future(ask_async(os.environ["PEIRA_TEST_MODEL"], f"q{i}")) for i in range(6)]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    Path(f"began {os.getpid()}").touch()
    return [(await one).text for one in asked]

if __name__ == "__main__":
    run(asking, store="asking.db", runner="process")
"""
QUESTIONS = [f"q{i}" for i in range(6)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder: Path, warm: Any) -> Callable[..., Any]:
    """A script in a process of its own."""

    def start(source: str, stderr: int = subprocess.DEVNULL) -> Any:
        (folder / "script.py").write_text(source)
        return warm.start([sys.executable, "script.py"], cwd=folder, stderr=stderr)

    return start


def wait_for(there: Path) -> None:
    while not list(there.parent.glob(there.name)):
        time.sleep(0.01)


def wait_gone(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=20)


def test_a_trial_that_kills_its_process_fails_in_the_end_and_no_other(folder, start) -> None:
    codes = []
    while not codes or codes[-1] == -9:
        assert len(codes) < 6, "it kills its process for ever"
        codes.append(start(DEADLY).wait(timeout=50))
    assert codes == [-9, -9, -9, 0]
    results = peira.open("deadly.db").results()
    assert results.status == "completed with failures"
    (failure,) = results.failures
    assert (failure.trial.input, failure.failure.type) == (5, "Interrupted")
    assert "3 times" in failure.failure.message
    assert sorted(t.output for t in results.trials if t.state == "succeeded") == [
        i for i in range(12) if i != 5
    ]
    assert (folder / "executed").read_text().splitlines().count("5") == 3


def test_a_trial_that_kills_its_process_kills_only_a_child_in_the_process_runner(folder) -> None:
    (folder / "script.py").write_text(DEADLY)
    results = peira.run("script.py", store="deadly.db", runner="process", parallel=2, progress=False)
    (failure,) = results.failures
    assert (failure.trial.input, failure.failure.type) == (5, "ProcessDied")
    assert "signal 9" in failure.failure.message
    assert results.counts["succeeded"] == 11


def test_a_child_with_calls_under_way_ends_with_its_parent_and_the_next_run_goes_on(
    folder, start, endpoint, monkeypatch
) -> None:
    monkeypatch.setenv("PEIRA_TEST_MODEL", f"openai:{endpoint.model}")
    endpoint.script({"text": "first"}, *({"text": "lost", "delay": 30} for _ in QUESTIONS[1:]))
    parent = start(ASKING)
    wait_for(folder / "began *")
    [began] = folder.glob("began *")
    while endpoint.sends() < len(QUESTIONS):
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    wait_gone(int(began.name.split()[1]))
    results = peira.run("script.py", store="asking.db", runner="process", progress=False)
    [trial] = results.trials
    heard = f"q{trial.output.index('first')}"
    assert ["first" if q == heard else q for q in QUESTIONS] == trial.output
    billed = Counter(endpoint.billed())
    assert billed == {q: 1 if q == heard else 2 for q in QUESTIONS}


def test_a_second_process_is_refused_at_once_and_does_nothing(folder, start) -> None:
    first = start(SLOW)
    wait_for(folder / "began *")
    before = peira.open("slow.db").events()
    since = time.monotonic()
    with pytest.raises(StoreInUse, match=str(first.pid)):
        peira.run("script.py", store="slow.db", progress=False)
    assert time.monotonic() - since < 2
    assert [e.event for e in peira.open("slow.db").events()][: len(before)] == [e.event for e in before]
    assert len(peira.open("slow.db").runs()) == 1
    assert not list(folder.glob(f"began {os.getpid()} *"))
    (folder / "go").touch()
    assert first.wait(timeout=50) == 0
    assert peira.open("slow.db").run().status is Status.completed


def test_a_run_that_is_alive_is_running_and_after_a_kill_interrupted(folder, start) -> None:
    process = start(SLOW)
    wait_for(folder / "began *")
    assert peira.open("slow.db").run().status is Status.running
    process.kill()
    process.wait()
    assert peira.open("slow.db").run().status is Status.interrupted
    (folder / "go").touch()
    assert peira.run("script.py", store="slow.db", progress=False).status == "completed"
    newest, oldest = peira.open("slow.db").runs()
    assert (newest.status, oldest.status) == (Status.completed, Status.interrupted)


def test_a_store_cut_off_while_it_was_made_is_an_empty_store(folder) -> None:
    """Killed between the file's creation and its tables: looking finds no runs, running works."""
    (folder / "slow.db").touch()
    assert peira.open("slow.db").runs() == []
    (folder / "script.py").write_text(SLOW)
    (folder / "go").touch()
    assert peira.run("script.py", store="slow.db", progress=False).status == "completed"


def test_ctrl_c_lets_running_trials_finish_and_the_next_run_goes_on(folder, start) -> None:
    process = start(SLOW.replace("range(4)", "range(40)"), stderr=subprocess.PIPE)
    while len(list(folder.glob("began *"))) < 4:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert any(b"stopping: 4 running will be finished" in line for line in process.stderr)
    (folder / "go").touch()
    process.wait(timeout=50)
    assert process.returncode != 0
    look = peira.open("slow.db")
    assert look.run().status is Status.interrupted
    assert sum(t.state == "succeeded" for t in look.results().trials) == 4
    again = peira.run("script.py", store="slow.db", progress=False)
    assert (again.status, again.counts["reused"]) == ("completed", 4)


def test_a_second_ctrl_c_cancels_what_runs(folder, start) -> None:
    process = start(SLOW)
    wait_for(folder / "began *")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    assert peira.open("slow.db").run().status is Status.interrupted
    states = {t.state.value for t in peira.open("slow.db").results().trials}
    assert states <= {"cancelled", "queued"}


def test_a_database_of_something_else_is_refused_and_left_alone(folder) -> None:
    other = apsw.Connection("other.db")
    other.execute("CREATE TABLE places (name)")
    other.close()
    (folder / "script.py").write_text(SLOW)
    before = (folder / "other.db").read_bytes()
    for use in (peira.open, lambda store: peira.run("script.py", store=store, progress=False)) * 2:
        with pytest.raises(StoreDamaged, match="not a peira store"):
            use("other.db")
    assert (folder / "other.db").read_bytes() == before
