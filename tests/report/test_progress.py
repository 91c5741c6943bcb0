"""Progress in a line: what there is of it, and what the stopping rule sees."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace

from peira import Case, Study, run, submit
from peira.core.looks import Look, Standing
from peira.engine.progress import Progress
from peira.report.progress import Bar, describe
from peira.stores.memory import MemoryStore

HALF = Progress(total=20, done=10, reused=0, failed=0, running=2, scores=10, elapsed=5.0)


def test_what_there_is_of_it() -> None:
    assert describe(HALF) == "10/20 trials, 2 running, 2.0/s, 5 s left"


def test_what_the_rule_sees() -> None:
    standing = Standing("H1", "b", "a", 0.08, -0.01, 0.17)
    progress = Progress(20, 10, 0, 0, 0, 10, 5.0, look=Look(3, 120, (standing,)))
    assert describe(progress).endswith(" | after 120 cases: b - a +0.080 [-0.010, +0.170], undecided")
    decided = Progress(20, 10, 0, 0, 0, 10, 5.0, look=Look(3, 120, (standing,), answer="H1 supported"))
    assert describe(decided).endswith(", H1 supported")


def test_a_bar_says_once_in_full_what_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    line = "waiting for m: 1 call unanswered for 12 s (given up after 5 min: timeouts.first_byte)"
    with Bar("s") as bar:
        bar(HALF)
        bar(replace(HALF, waits=(line,)))
        bar(replace(HALF, waits=(line.replace("12 s", "13 s"),)))
    said = " ".join(capsys.readouterr().err.split())
    assert said.count(f"peira: {line}") == 1
    assert "peira: waiting for m: 1 call unanswered for 13 s" not in said


def slow(case):
    time.sleep(0.3 if case.input == 3 else 0.05)
    return case.input


def test_a_function_is_given_the_progress() -> None:
    seen: list[Progress] = []
    study = Study(name="s", agent=slow, cases=[Case(n) for n in range(4)])
    run(study, store=MemoryStore(), parallel=1, progress=seen.append)
    assert len(seen) > 1
    assert [one.total for one in seen] == [4] * len(seen)
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    assert seen[-1].done == 4


def test_a_callback_that_waits_or_fails_does_not_touch_the_run(caplog: pytest.LogCaptureFixture) -> None:
    study = Study(name="s", agent=slow, cases=[Case(n) for n in range(4)])
    calls: list[Progress] = []

    def failing(progress: Progress) -> None:
        calls.append(progress)
        raise OSError("no screen")

    assert run(study, store=MemoryStore(), parallel=1, progress=failing).ok
    assert len(calls) == 1
    assert "progress callback failed and is not called again: OSError: no screen" in caplog.text
    held = threading.Event()
    calls.clear()

    def waiting(progress: Progress) -> None:
        calls.append(progress)
        held.wait(2)

    handle = submit(study, store=MemoryStore(), parallel=1, progress=waiting)
    while handle.progress().done < 4:
        time.sleep(0.01)
    assert len(calls) <= 1
    held.set()
    assert handle.result().ok
    assert calls[-1].done == 4
