"""Attempts that take too long: abandoned, reported, and never in the way of the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from peira import Case, current_trial, run, step, study
from peira.core.log.events import StepRecorded
from peira.stores.memory import MemoryStore

CASES = [Case(i) for i in range(6)]
LIMIT = {"timeout": 0.3}


def check(results) -> None:
    assert results.status == "completed with failures"
    (row,) = results.failures
    assert (row.trial.input, row.failure.type) == (1, "TimedOut")
    assert "0.3 s" in row.failure.message
    assert results.counts["succeeded"] == 5


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_hung_function_is_abandoned_and_the_run_goes_on(parallel) -> None:
    free = threading.Event()

    @study(cases=CASES, policy=LIMIT)
    def hangs(case):
        if case.input == 1:
            free.wait(30)
        return case.input

    check(run(hangs, store=MemoryStore(), parallel=parallel, progress=False))
    free.set()


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_hung_coroutine_is_cancelled_and_the_run_goes_on(parallel) -> None:
    @study(cases=CASES, policy=LIMIT)
    async def hangs(case):
        if case.input == 1:
            await asyncio.sleep(30)
        return case.input

    check(run(hangs, store=MemoryStore(), parallel=parallel, progress=False))


def test_a_coroutine_that_will_not_be_cancelled_does_not_hold_the_run() -> None:
    late: list[int] = []

    @study(cases=CASES, policy=LIMIT)
    async def stubborn(case):
        until = time.monotonic() + 4
        while case.input == 1 and time.monotonic() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        if case.input == 1:
            late.append(case.input)
        return case.input

    check(run(stubborn, store=MemoryStore(), parallel=1, progress=False))
    assert not late, "the run waited for it"


def test_a_coroutine_that_blocks_the_loop_does_not_hold_the_run() -> None:
    """`time.sleep` in an `async def` agent stops its event loop; the run still ends, and says so."""
    free, late = threading.Event(), []

    @study(cases=CASES, policy=LIMIT)
    async def blocks(case):
        if case.input == 1 and not free.wait(4):
            late.append(case.input)
        return case.input

    results = run(blocks, store=MemoryStore(), parallel=2, progress=False)
    assert not late, "the run waited for the blocked loop"
    free.set()
    assert (1, "TimedOut") in {(row.trial.input, row.failure.type) for row in results.failures}


def test_a_hung_process_is_killed_with_what_it_started(folder: Path, written) -> None:
    written("""
import os, subprocess, time
from pathlib import Path
from peira import Case, study

@study(cases=[Case(i) for i in range(6)], policy={"timeout": 3})
def hangs(case):
    if case.input == 1:
        child = subprocess.Popen(["sleep", "60"])
        Path("pids").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(60)
    return case.input
""")
    results = run("s.py", store="s.db", runner="process", parallel=2, progress=False)
    (row,) = results.failures
    assert (row.trial.input, row.failure.type) == (1, "TimedOut")
    assert results.counts["succeeded"] == 5
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_an_abandoned_attempt_can_record_and_spend_nothing_more() -> None:
    late = threading.Event()
    refused: list[str] = []

    @study(cases=[Case(1)], policy={"timeout": 0.1})
    def hangs(case):
        time.sleep(0.4)
        for use in (
            lambda: step("late", int, "1"),
            lambda: current_trial().log("late"),
            lambda: current_trial().report(late=1),
            lambda: current_trial().attach("late", b"late"),
            lambda: current_trial().workdir,
        ):
            try:
                use()
            except BaseException as signal:
                refused.append(type(signal).__name__)
        late.set()
        return "too late"

    store = MemoryStore()
    results = run(hangs, store=store, progress=False)
    (row,) = results.failures
    assert row.failure.type == "TimedOut"
    assert late.wait(10)
    assert refused == ["Abandoned"] * 5
    assert not [r for r in store.events(results.run_id) if isinstance(r.event, StepRecorded)]
    assert row.trial.output is None


def test_a_trial_that_timed_out_is_tried_again_when_retries_are_asked_for() -> None:
    @study(cases=[Case(1)], policy={"timeout": 0.2, "retries": 1, "backoff": 0})
    def slow_at_first(case):
        if current_trial().attempt == 1:
            time.sleep(1)
        return os.getpid()

    results = run(slow_at_first, store=MemoryStore(), progress=False)
    assert results.ok
    assert results.trials[0].attempts == 2


def test_a_hung_evaluator_is_a_failed_score_and_the_output_stays() -> None:
    free = threading.Event()

    def judge(output):
        if output == 1:
            free.wait(30)
        return True

    @study(cases=CASES, evaluators=[judge], policy=LIMIT)
    def fine(case):
        return case.input

    results = run(fine, store=MemoryStore(), progress=False)
    free.set()
    assert results.counts["succeeded"] == 6
    (row,) = results.failures
    assert (row.stage, row.trial.output, row.failure.type) == ("evaluate", 1, "TimedOut")
