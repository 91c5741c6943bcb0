"""Life-cycle hooks: each begin has its end, and a failing hook never fails a trial."""

from __future__ import annotations

import logging
import threading
from collections import Counter

from peira import Case, current_trial, exact, run, study
from peira.stores.memory import MemoryStore


class Listener:
    """Notes what it is told, from whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.heard: list[tuple[str, dict]] = []

    def _hear(self, name: str, facts: dict) -> None:
        with self._lock:
            self.heard.append((name, facts))

    def names(self) -> Counter:
        return Counter(name for name, _ in self.heard)


for hook in ("run", "stage", "trial", "attempt"):
    for when in ("began", "ended"):
        name = f"{hook}_{when}"
        setattr(Listener, name, lambda self, _name=name, **facts: self._hear(_name, facts))


@study(
    cases=[Case(i, expected=i) for i in range(5)], evaluators=[exact()], policy={"retries": 1, "backoff": 0}
)
def flaky(case):
    if case.input == 2 and current_trial().attempt == 1:
        raise OSError("once")
    if case.input == 3:
        raise OSError("always")
    return case.input


def test_every_begin_has_its_end(hooked) -> None:
    listener = hooked(Listener())
    results = run(flaky, store=MemoryStore(), parallel=2, progress=False)
    names = listener.names()
    assert names["run_began"] == names["run_ended"] == 1
    assert names["stage_began"] == names["stage_ended"] == 2
    assert names["trial_began"] == names["trial_ended"] == 5
    assert names["attempt_began"] == names["attempt_ended"] == 7 + 4  # five trials, two retries; four scores
    assert listener.heard[0] == ("run_began", {"run": results.run_id})
    assert listener.heard[-1] == ("run_ended", {"run": results.run_id, "status": "completed with failures"})


def test_hooks_are_told_what_the_store_says(hooked) -> None:
    listener = hooked(Listener())
    results = run(flaky, store=MemoryStore(), parallel=2, progress=False)
    told = {facts["task"]: facts["state"] for name, facts in listener.heard if name == "trial_ended"}
    assert told == {trial.id: trial.state.value for trial in results.trials}
    attempts = Counter(f["task"] for name, f in listener.heard if name == "attempt_began")
    assert {trial.id: attempts[trial.id] for trial in results.trials} == {
        trial.id: trial.attempts for trial in results.trials
    }


def test_trial_hooks_come_around_its_attempts(hooked) -> None:
    listener = hooked(Listener())
    results = run(flaky, store=MemoryStore(), parallel=4, progress=False)
    for trial in results.trials:
        its = [name for name, facts in listener.heard if facts.get("task") == trial.id]
        assert its[0] == "trial_began"
        assert its[-1] == "trial_ended"


def test_a_retried_failure_has_its_begin_and_end_in_the_next_run(hooked) -> None:
    """A trial that failed in an earlier run is begun again: its begin is told again."""
    store = MemoryStore()
    run(flaky, store=store, progress=False)
    listener = hooked(Listener())
    run(flaky, store=store, progress=False)
    began = [f["task"] for name, f in listener.heard if name == "trial_began"]
    ended = [f["task"] for name, f in listener.heard if name == "trial_ended" and f["state"] == "failed"]
    assert began == ended
    assert len(began) == 1


def test_a_failing_hook_fails_nothing_and_is_named_once(hooked, caplog) -> None:
    class Broken:
        def attempt_began(self, **_):
            raise RuntimeError("hook is broken")

        trial_ended = run_began = run_ended = stage_began = stage_ended = attempt_ended = attempt_began

    hooked(Broken())
    with caplog.at_level(logging.WARNING, logger="peira"):
        results = run(flaky, store=MemoryStore(), progress=False)
    assert results.counts["succeeded"] == 4
    assert [r.message for r in caplog.records if "hook is broken" in r.message]
    assert len(caplog.records) == 1
