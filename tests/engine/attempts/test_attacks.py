"""Agents that leave things behind, or say what cannot be kept: only their own trial is touched."""

from __future__ import annotations

import os
from typing import Any

import pytest

from peira import current_trial, plan, run, study
from peira.core.code.fingerprint import fingerprint
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify

FORKING = """
import os, sys
from peira import Case, exact, study

@study(cases=[Case(i, expected=i) for i in range(6)], evaluators=[exact()])
def forking(case):
    if case.input == 2 and os.fork() == 0:
        sys.exit(1)
    return case.input
"""
LEAVING = """
import threading, time
from peira import current_trial, study

@study(cases=[0, 1, 2, 3])
def leaving(case):
    trial = current_trial()
    def late():
        for _ in range(30):
            try:
                trial.report(**{f"of_{case.input}": 1.0})
            except BaseException:
                return
            time.sleep(0.002)
    threading.Thread(target=late, daemon=True).start()
    time.sleep(0.01)
    return case.input
"""


def in_processes(folder: Any, source: str, name: str) -> Any:
    (folder / f"{name}.py").write_text(source)
    results = run(f"{folder / name}.py", store=folder / "s.db", runner="process", parallel=1, progress=False)
    return results


def test_a_forked_process_answers_for_nobody(tmp_path: Any) -> None:
    results = in_processes(tmp_path, FORKING, "forking")
    assert [(trial.input, trial.output) for trial in results.trials] == [(i, i) for i in range(6)]


def test_a_thread_left_behind_speaks_for_no_other_trial_and_hangs_nothing(tmp_path: Any) -> None:
    results = in_processes(tmp_path, LEAVING, "leaving")
    assert len(results.trials) == 4
    for trial in results.trials:
        assert set(trial.metrics) <= {f"of_{trial.input}"}


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


def speaking(act: Any) -> Any:
    def agent(case):  # type: ignore[no-untyped-def]
        if case.input == 1:
            act()
        return case.input

    return study(agent=agent, cases=[0, 1, 2], name="s")


def mute() -> None:
    raise Mute


@pytest.mark.parametrize(
    "act",
    [
        mute,
        lambda: current_trial().log("\ud800"),
        lambda: current_trial().log(5),  # type: ignore[arg-type]
        lambda: current_trial().describe(model="\ud800"),
        lambda: current_trial().attach("\ud800", "x"),
        lambda: current_trial().attach("x", "\ud800"),
        lambda: current_trial().attach("x", "x", "\ud800"),
        lambda: current_trial().attach(5, "x"),  # type: ignore[arg-type]
        lambda: current_trial().report(**{"\ud800": 1.0}),
    ],
)
def test_what_cannot_be_kept_fails_its_own_trial_only(act: Any) -> None:
    store = MemoryStore()
    results = run(speaking(act), store=store, progress=False)
    assert [trial.state.value for trial in results.trials] == ["succeeded", "failed", "succeeded"]
    assert verify(store) == []


def test_a_where_about_a_factor_that_an_agent_does_not_take_does_not_fit_it() -> None:
    def warm(case, heat):  # type: ignore[no-untyped-def]
        return heat

    def plain(case):  # type: ignore[no-untyped-def]
        return 0

    both = study(agents={"warm": warm, "plain": plain}, cases=["a"], factors={"heat": [1, 2]}, name="s")
    assert plan(both, store=MemoryStore(), where="heat > 1").trials == 1


KEY = os.environ.setdefault("PEIRA_TEST_KEY", "sk-a-key-that-is-long-enough")


def test_a_key_from_the_environment_is_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(case):  # type: ignore[no-untyped-def]
        return KEY

    before = fingerprint(asks)
    assert any(what.startswith("environment value") for what in before.unseen)
    monkeypatch.setenv("PEIRA_TEST_KEY", "sk-another-key-that-is-long")
    monkeypatch.setitem(globals(), "KEY", "sk-another-key-that-is-long")
    assert fingerprint(asks).digest == before.digest
