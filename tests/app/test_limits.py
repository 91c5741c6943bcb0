"""Limits on failures, wall time and trials: a run that hits one stops cleanly and says so."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from peira import Budget, Case, ask, run, study
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


def in_part_failing(cases: int, fails: set[int], **settings):
    def answer(case):
        said = ask("scripted:echo", case.input).text
        if int(said) in fails:
            raise OSError("no answer")
        return said

    return study(agent=answer, name="in_part", cases=[str(n) for n in range(cases)], **settings)


def shown(results) -> dict[str, int]:
    """The counts of a run that the states of its trials stand for."""
    counts = results.counts
    return {
        "failed": counts.get("failed", 0) + counts.get("kept", 0),
        "exhausted": counts.get("exhausted", 0) + counts.get("kept_exhausted", 0),
        "queued": counts.get("left", 0),
        "succeeded": counts.get("succeeded", 0) + counts.get("reused", 0),
    }


@pytest.mark.parametrize("cases", [8, 16])
@pytest.mark.parametrize("calls", [8, 9, 10])
def test_failures_that_a_stopped_run_has_not_tried_again_are_not_new_trials(cases, calls) -> None:
    """The budget allows some of the new attempts; the failures for which nothing is left stay failures."""
    fails, anew = {0, 2, 3, 5}, {"retries": 0, "redraw": True}
    store = MemoryStore()
    first = run(in_part_failing(8, fails, policy=anew), store=store, parallel=1, progress=False)
    assert first.counts == {"planned": 8, "succeeded": 4, "failed": 4}
    limited = in_part_failing(cases, fails, policy=anew, budget={"calls": calls})
    for _ in range(3):
        again = run(limited, store=store, parallel=1, progress=False)
        assert again.status == "stopped by a limit"
        assert again.counts.get("kept", 0) > 0
        states = Counter(trial.state.value for trial in again.trials)
        assert {state: n for state, n in shown(again).items() if n} == states


def test_failures_before_are_not_new_trials_when_the_first_failure_stops_a_run() -> None:
    store, once = MemoryStore(), {"retries": 0}
    run(in_part_failing(200, set(range(200)), policy=once), store=store, progress=False)
    strict = in_part_failing(200, set(range(200)), policy={**once, "fail_fast": True})
    again = run(strict, store=store, parallel=1, progress=False)
    states = Counter(trial.state.value for trial in again.trials)
    assert again.counts["kept"] > 0
    assert {state: n for state, n in shown(again).items() if n} == states
