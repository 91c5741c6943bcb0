"""kill -9 in the middle of a run that may stop: it goes on to the same answer, and repeats nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import peira
from peira.core.log.events import RunDecided
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

SCRIPT = """
import os, sys, time
from peira import Case, current_trial, exact, run, study


@study(cases=[Case(i, expected=1) for i in range(200)], factors={"m": ["a", "b", "c"]}, evaluators=[exact()],
       hypotheses=[{"id": "H1", "factor": "m", "levels": ["a", "b"], "direction": "greater"}],
       stop=RULE, seed=5)
def coins(case, m):
    trial = current_trial()
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{trial.id}\\n")
    time.sleep(0.002)
    return int(trial.rng.random() < {"a": 0.85, "b": 0.45, "c": 0.3}[m])


if __name__ == "__main__":
    run(coins, store=sys.argv[1], parallel=4, progress=False)
"""
RULES = ['"when decided"', '{"rule": "racing", "by": "m"}']


@pytest.fixture(scope="module", params=RULES, ids=["decided", "racing"])
def undisturbed(request, tmp_path_factory, warm):
    """A rule, and what it says of a run that nobody disturbs."""
    look = _finished(warm, tmp_path_factory.mktemp("reference"), request.param).look
    assert look.answer
    return request.param, look


@pytest.mark.parametrize("trials", [30, 120])
def test_killed_and_resumed(tmp_path, undisturbed, trials, warm):
    rule, reference = undisturbed
    folder = _written(tmp_path / "killed", rule)
    process = _start(warm, folder)
    while process.poll() is None and len(_notes(folder)) < trials:
        time.sleep(0.001)
    process.kill()
    process.communicate(timeout=30)
    done = _succeeded(folder)
    results = _finished(warm, folder, rule)
    assert results.look == reference
    later = _notes(folder)
    assert not {trial for trial in later if later.count(trial) > 1} & done
    _check_sound(folder, results.run_id)


def _written(folder, rule):
    folder.mkdir(exist_ok=True)
    (folder / "coins.py").write_text(SCRIPT.replace("RULE", rule))
    return folder


def _start(warm, folder):
    env = {**os.environ, "NOTES": str(folder / "notes")}
    command = [sys.executable, str(folder / "coins.py"), str(folder / "coins.db")]
    return warm.start(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _notes(folder):
    file = folder / "notes"
    return file.read_text().splitlines() if file.exists() else []


def _succeeded(folder):
    """The trials that were recorded when the process died."""
    if not (folder / "coins.db").exists():
        return set()
    results = peira.open(folder / "coins.db").results()
    return {trial.id for trial in results if trial.state == "succeeded"}


def _finished(warm, folder, rule):
    _, problem = _start(warm, _written(folder, rule)).communicate(timeout=50)
    assert not problem, problem.decode()
    return peira.open(folder / "coins.db").results()


def _check_sound(folder, run):
    store = SqliteStore(folder / "coins.db", readonly=True)
    try:
        assert list(verify(store)) == []
        events = [record.event for record in store.events(run, 0, 10_000)]
    finally:
        store.close()
    assert sum(isinstance(event, RunDecided) for event in events) == 1
