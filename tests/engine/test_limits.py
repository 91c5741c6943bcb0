"""Limits on failures, wall time and trials: a run that hits one stops cleanly and says so."""

from __future__ import annotations

import threading
import time

import pytest

from peira import Budget, Case, run, study
from peira.app import execute
from peira.app.run import RunOptions
from peira.errors import OverBudget
from peira.stores.memory import MemoryStore

MANY = [Case(i) for i in range(200)]


def conducted(asked, **wishes):
    outcome = execute(asked, RunOptions(store=MemoryStore(), progress=False, **wishes))
    return outcome.results, outcome.finished


def test_fail_fast_stops_at_the_first_failure() -> None:
    @study(cases=MANY, policy={"fail_fast": True})
    def failing(case):
        time.sleep(0.002)
        raise OSError("at once")

    results, finished = conducted(failing, parallel=2)
    assert (results.status, finished.exit_code) == ("stopped by a limit", 1)
    assert "fail_fast" in finished.reason
    assert 1 <= results.counts["failed"] < 50
    assert results.counts["failed"] + results.counts["left"] == results.counts["planned"] == 200


def test_fail_fast_keeps_what_succeeded() -> None:
    @study(cases=MANY, policy={"fail_fast": True})
    def fails_late(case):
        time.sleep(0.001)
        if case.input == 77:
            raise OSError("one")
        return case.input

    results, _ = conducted(fails_late, parallel=2)
    done = [trial for trial in results.trials if trial.state == "succeeded"]
    assert len(done) == results.counts.get("succeeded", 0)
    assert all(trial.output == trial.input for trial in done)
    assert not results.ok


@pytest.mark.parametrize(("most", "allowed"), [(3, 3), (0.1, 20), (0, 0)])
def test_more_failures_than_allowed_stop_the_run(most, allowed) -> None:
    @study(cases=MANY, policy={"max_failures": most})
    def failing(case):
        time.sleep(0.001)
        raise OSError("always")

    results, finished = conducted(failing, parallel=2)
    assert (results.status, finished.exit_code) == ("stopped by a limit", 1)
    assert f"more than the {allowed} allowed" in finished.reason
    assert allowed < results.counts["failed"] < 200


@pytest.mark.parametrize("most", [3, 0.015])
def test_as_many_failures_as_allowed_do_not_stop_it(most) -> None:
    @study(cases=MANY, policy={"max_failures": most})
    def failing(case):
        if case.input in (5, 50, 150):
            raise OSError("three")
        return case.input

    results, finished = conducted(failing, parallel=4)
    assert (results.status, finished.exit_code) == ("completed with failures", 1)
    assert (results.counts["failed"], results.counts["succeeded"]) == (3, 197)


def test_the_time_limit_stops_the_run_and_the_next_one_goes_on() -> None:
    calls: list[int] = []

    @study(cases=[Case(i) for i in range(40)], budget={"time": 0.3})
    def slow(case):
        calls.append(case.input)
        time.sleep(0.05)
        return case.input

    store = MemoryStore()
    outcome = execute(slow, RunOptions(store=store, parallel=2, progress=False))
    assert (outcome.results.status, outcome.finished.exit_code) == ("stopped by a limit", 3)
    assert "budget.time" in outcome.finished.reason
    done = outcome.results.counts["succeeded"]
    assert 0 < done < 40
    raised = slow.model_copy(update={"budget": Budget()})
    again = run(raised, store=store, parallel=8, progress=False)
    assert (again.status, again.counts["reused"], again.counts["succeeded"]) == ("completed", done, 40 - done)
    assert sorted(calls) == list(range(40))


def test_the_time_limit_ends_a_run_whose_trial_hangs() -> None:
    """A limit on wall time that waits for a hung trial would limit nothing."""
    free = threading.Event()

    @study(cases=[Case(i) for i in range(4)], budget={"time": 0.3})
    def hangs(case):
        if case.input == 2:
            assert not free.wait(4), "the run was held by its hung trial"
        return case.input

    results, finished = conducted(hangs, parallel=2)
    free.set()
    assert (results.status, finished.exit_code) == ("stopped by a limit", 3)
    assert {trial.state.value for trial in results.trials if trial.input == 2} != {"succeeded"}


def test_a_plan_over_its_budget_is_refused_before_anything_is_called() -> None:
    calls: list[int] = []

    @study(cases=MANY, budget={"trials": 10})
    def costly(case):
        calls.append(case.input)

    store = MemoryStore()
    with pytest.raises(OverBudget, match="200 trials and the budget allows 10"):
        run(costly, store=store, progress=False)
    assert calls == []
    assert list(store.history()) == []


def test_an_output_over_its_limit_is_a_failed_trial() -> None:
    @study(cases=[Case(i) for i in range(4)], policy={"output_limit": 1000})
    def chatty(case):
        return "x" * (2000 if case.input == 1 else 10)

    results = run(chatty, store=MemoryStore(), progress=False)
    (row,) = results.failures
    assert (row.trial.input, row.failure.type) == (1, "TooLarge")
    assert "policy.output_limit" in row.failure.message
