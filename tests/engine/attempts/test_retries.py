"""Failed attempts: tried again after a back-off, each one recorded; and what the next run does about them."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import peira
from peira import Case, Policy, current_trial, run, study
from peira.core.log.events import TaskFinished, TaskRetried, TasksClaimed
from peira.engine.attempts.endings import back_off
from peira.stores.memory import MemoryStore

CASES = [Case(i) for i in range(4)]


def kinds(store, results, kind):
    return [r for r in store.events(results.run_id, limit=10_000) if isinstance(r.event, kind)]


def test_a_retry_is_a_recorded_attempt_with_its_failure_and_its_back_off() -> None:
    @study(cases=CASES, policy={"retries": 3, "backoff": 0.02, "jitter": False})
    def flaky(case):
        attempt = current_trial().attempt
        if case.input == 1 and attempt < 3:
            raise OSError(f"no luck in attempt {attempt}")
        return attempt

    store = MemoryStore()
    results = run(flaky, store=store, progress=False)
    assert results.ok
    assert {t.case_id: (t.output, t.attempts) for t in results.trials} == {
        t.case_id: (3, 3) if t.input == 1 else (1, 1) for t in results.trials
    }
    first, second = kinds(store, results, TaskRetried)
    assert [r.event.result.failure.message for r in (first, second)] == [
        "no luck in attempt 1",
        "no luck in attempt 2",
    ]
    assert [r.event.epoch for r in (first, second)] == [1, 2]
    assert first.event.not_before < second.event.not_before
    claims = [r for r in kinds(store, results, TasksClaimed) if first.event.task in r.event.tasks]
    for retried, claim in zip((first, second), claims[1:], strict=True):
        assert claim.at >= retried.event.not_before - 0.001, "tried again before its time"


@given(st.integers(1, 12), st.floats(0.001, 5), st.floats(0, 60), st.text())
def test_a_back_off_doubles_up_to_its_bound(tries, first, most, task) -> None:
    policy = Policy(backoff=first, max_backoff=most, jitter=False)
    assert back_off(policy, tries, task) == min(first * 2 ** (tries - 1), most)
    jittered = back_off(policy.model_copy(update={"jitter": True}), tries, task)
    assert 0.5 * back_off(policy, tries, task) <= jittered <= back_off(policy, tries, task)


def test_a_trial_waiting_for_its_retry_leaves_its_worker_to_others() -> None:
    done: list[int] = []

    @study(cases=[Case(i) for i in range(5)], policy={"retries": 1, "backoff": 0.5, "jitter": False})
    def flaky(case):
        if current_trial().attempt == 1 and case.input == 0:
            raise OSError("wait for me")
        done.append(case.input)
        return case.input

    assert run(flaky, store=MemoryStore(), parallel=1, progress=False).ok
    assert done[-1] == 0
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_retries_used_up_are_a_failure_with_one_end() -> None:
    @study(cases=CASES, policy={"retries": 2, "backoff": 0})
    def failing(case):
        raise OSError(f"attempt {current_trial().attempt}")

    store = MemoryStore()
    results = run(failing, store=store, progress=False)
    assert (results.status, results.counts["failed"]) == ("completed with failures", 4)
    assert not results.ok
    assert {row.failure.message for row in results.failures} == {"attempt 3"}
    ends = Counter(r.event.task for r in kinds(store, results, TaskFinished))
    assert set(ends.values()) == {1}
    assert len(kinds(store, results, TaskRetried)) == 8


def test_a_value_that_is_wrong_in_kind_is_not_tried_again() -> None:
    calls: list[int] = []

    @study(cases=[Case(1)], policy={"retries": 5, "backoff": 0})
    def wrong(case):
        calls.append(1)
        return object()

    results = run(wrong, store=MemoryStore(), progress=False)
    (row,) = results.failures
    assert "output" in row.failure.message
    assert "object" in row.failure.message
    assert len(calls) == 1


@pytest.mark.parametrize("retry", [True, False])
def test_the_next_run_tries_failures_again_unless_told_not_to(retry) -> None:
    healed = threading.Event()

    @study(cases=CASES)
    def sick(case):
        if case.input == 2 and not healed.is_set():
            raise OSError("sick")
        return case.input

    store = MemoryStore()
    assert run(sick, store=store, progress=False).counts["failed"] == 1
    healed.set()
    again = run(sick, store=store, policy={"retry_failed": retry}, progress=False)
    assert again.ok is retry
    assert again.counts["reused"] == 3
    assert len(again.failures) == (0 if retry else 1)


def test_a_run_by_its_id_goes_on_from_its_own_snapshot(folder, written) -> None:
    source = """
from pathlib import Path
from peira import Case, study

@study(cases=[Case(i) for i in range(4)])
def sick(case):
    if case.input == 2 and not Path("healed").exists():
        raise OSError("sick")
    return case.input
"""
    written(source)
    first = run("s.py", store="s.db", progress=False)
    (folder / "s.py").unlink()
    (folder / "healed").touch()
    second = run(first.run_id, store="s.db", progress=False)
    assert second.ok
    assert dict(second.counts) == {"planned": 4, "succeeded": 1, "reused": 3}
    assert peira.open("s.db").run(second.run_id).resumes == first.run_id


def test_the_order_of_tries_is_kept_in_the_record() -> None:
    @study(cases=[Case(1)], policy={"retries": 2, "backoff": 0})
    def failing(case):
        raise OSError("never")

    store = MemoryStore()
    results = run(failing, store=store, progress=False)
    seqs = [r.seq for r in store.events(results.run_id, limit=1000)]
    assert all(after == before + 1 for before, after in pairwise(seqs))
