"""What an agent reports beside its value: kept with the trial, also when the agent fails later."""

from __future__ import annotations

from pathlib import Path

import pytest

import peira
from peira import run
from peira.core.log.events import Observed

SOURCE = """
import os
from pathlib import Path
from peira import Case, current_trial, study

@study(cases=[Case(i) for i in range(4)])
def reports(case):
    trial = current_trial()
    trial.log("thought", text=f"about {case.input}", depth=2)
    trial.report(tokens=10 + case.input)
    trial.describe(kind="chain", model="m-1", request_id=f"r{case.input}")
    (trial.workdir / "scratch.txt").write_text(f"scratch {case.input}")
    trial.attach("scratch", trial.workdir / "scratch.txt", "text/plain")
    trial.attach("big", bytes([case.input]) * 100_000)
    if case.input % 2:
        raise ValueError("after all that")
    return str(trial.workdir)
"""


@pytest.fixture(params=["local", "process"])
def results(request, folder: Path, written):
    return run(written(SOURCE), store="s.db", runner=request.param, parallel=2, progress=False)


def test_all_that_was_reported_survives_with_the_trial(results) -> None:
    look = peira.open("s.db")
    assert (results.counts["succeeded"], results.counts["failed"]) == (2, 2)
    for trial in results.trials:
        assert trial.metrics == {"tokens": 10.0 + trial.input}
        assert trial.about == {"kind": "chain", "model": "m-1", "request_id": f"r{trial.input}"}
        kept = {a.name: (look.blob(a.digest), a.size, a.media) for a in trial.artifacts}
        text = f"scratch {trial.input}".encode()
        assert kept == {
            "scratch": (text, len(text), "text/plain"),
            "big": (bytes([trial.input]) * 100_000, 100_000, ""),
        }
    observed = [r for r in look.events(limit=10_000) if isinstance(r.event, Observed)]
    assert {r.event.task for r in observed} == {trial.id for trial in results.trials}
    assert {r.event.name for r in observed} == {"thought"}
    assert all(b'"depth":2' in bytes(r.event.data) for r in observed)


def test_what_failed_says_why_and_where(results) -> None:
    for row in results.failures:
        assert (row.failure.type, row.failure.message) == ("ValueError", "after all that")
        assert "raise ValueError" in row.failure.trace


def test_each_attempt_has_a_folder_of_its_own_that_goes_with_it(results) -> None:
    folders = {Path(trial.output) for trial in results.trials if trial.output}
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)
    assert not Path("s.db.work").exists()


def test_a_retry_finds_an_empty_folder(folder: Path, written) -> None:
    file = written("""
from peira import Case, current_trial, study

@study(cases=[Case(1)], policy={"retries": 1, "backoff": 0})
def twice(case):
    trial = current_trial()
    found = sorted(f.name for f in trial.workdir.iterdir())
    (trial.workdir / "left").touch()
    if trial.attempt == 1:
        raise OSError("again")
    return found
""")
    results = run(file, store="s.db", progress=False)
    assert results.ok
    assert results.trials[0].output == []


def test_resources_are_reachable_and_are_no_part_of_identity(folder: Path, written) -> None:
    file = written("""
from peira import Case, current_trial, study

@study(cases=[Case(i) for i in range(3)])
def uses(case):
    return current_trial().resources["client"](case.input)
""")
    first = run(file, store="s.db", resources={"client": lambda n: n * 10}, progress=False)
    assert sorted(trial.output for trial in first.trials) == [0, 10, 20]
    second = run(file, store="s.db", resources={"client": lambda n: n * 99}, progress=False)
    assert second.counts["reused"] == 3


@pytest.mark.parametrize("runner", ["local", "process"])
def test_a_metric_that_is_no_number_is_the_agents_failure(folder: Path, written, runner) -> None:
    file = written("""
from peira import Case, current_trial, study

@study(cases=[Case(1)])
def reports(case):
    current_trial().report(loss=float("nan"))
""")
    results = run(file, store="s.db", runner=runner, progress=False)
    (row,) = results.failures
    assert "'loss' is not a finite number" in row.failure.message
