"""A work plan inside a trial: the trial waits for its units, and so planners can be compared in a study."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from peira import Case, current_trial, fanout, run, step, study, unit
from peira.app.session import Session
from peira.core.log.events import TaskFinished, TaskWaiting
from peira.core.log.rows import Task
from peira.errors import Invalid
from peira.sandbox.confinement import confinement

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
]


def test_a_fan_out_is_an_agent_under_test(folder: Path) -> None:
    seen: list[str] = []

    def agent(case, planner):
        seen.append(step("plan", lambda: f"{planner} {case.input}"))
        parts = 3 if planner == "fine" else 1
        units = [
            unit(f"part{n}", ["sh", "-c", f"echo {n} > out{n}/part"], may_write=[f"out{n}"])
            for n in range(parts)
        ]
        names, words = [one.name for one in units], ["sh", "-c", "cat out*/part > all/all"]
        whole = unit("whole", words, names, may_write=["all"])
        outcome = fanout({"base": str(folder / "base"), "units": [*units, whole]})
        assert outcome.succeeded
        return len(outcome["whole"].changed) + len(units)

    experiment = study(
        name="planners",
        agent=agent,
        cases=[Case(input=n) for n in range(2)],
        factors={"planner": ["fine", "coarse"]},
        repeats=2,
        evaluators=[lambda output: output],
        version="1",
    )
    results = run(experiment, store="w.db", parallel=2, progress=False)
    assert results.status == "completed"
    outputs = sorted(trial.output for trial in results.trials)
    assert outputs == [2, 2, 2, 2, 4, 4, 4, 4]
    assert len(seen) == 16  # each trial was continued once, with its step replayed
    again = run(experiment, store="w.db", progress=False)
    assert sorted(trial.output for trial in again.trials) == outputs
    assert len(seen) == 16


def test_waiting_takes_no_worker_and_units_of_a_trial_are_its_own(folder: Path) -> None:
    """With one worker for trials and one for units both trials come to their end."""
    made: list[str] = []

    def part() -> int:
        made.append("part")
        return len(made)

    def agent(case):
        return fanout([unit("part", part)])["part"].value

    experiment = study(name="own", agent=agent, cases=[Case(input=n) for n in range(3)])
    results = run(experiment, store="w.db", parallel=1, progress=False)
    assert sorted(trial.output for trial in results.trials) == [1, 2, 3]


def test_a_failed_unit_is_the_agents_to_judge(folder: Path) -> None:
    def agent(case):
        outcome = fanout({"units": {"a": {"run": ["false"]}, "b": {"run": ["true"], "needs": ["a"]}}})
        current_trial().report(failed=1.0)
        return {name: one.state for name, one in outcome.units.items()}

    results = run(study(name="judge", agent=agent, cases=[Case(input=1)]), store="w.db", progress=False)
    assert results.status == "completed"
    assert results.trials[0].output == {"a": "failed", "b": "blocked"}


def test_what_belongs_to_the_study_is_refused_in_a_trial(folder: Path) -> None:
    def agent(case):
        try:
            fanout({"parallel": 3, "units": {"a": {"run": ["nonesuch"]}}})
        except Invalid as error:
            return list(error.problems)

    results = run(study(name="refused", agent=agent, cases=[Case(input=1)]), store="w.db", progress=False)
    assert results.trials[0].output == [
        "parallel: is that of the study, for all its trials",
        "units.a.run: there is no program 'nonesuch' here",
    ]


def test_a_wait_for_units_is_no_attempt(folder: Path) -> None:
    def agent(case):
        return fanout([unit("a", lambda: 1)])["a"].value

    results = run(study(name="events", agent=agent, cases=[Case(input=1)]), store="w.db", progress=False)
    with Session.find("w.db").reading() as store:
        events = [record.event for record in store.events(results.run_id)]
        assert store.find("task", [results.trials[0].id])[results.trials[0].id].attempts == 1
    assert sum(isinstance(event, TaskWaiting) for event in events) == 1
    assert sum(isinstance(event, TaskFinished) for event in events) == 2


PROGRAM = """
from pathlib import Path
from peira import Case, fanout, run, study, unit
from peira.sandbox.confinement import confinement

def work(unit, needs):
    with open("executed", "ab", buffering=0) as file:
        file.write(f"{unit} {sum(needs.values())}\\n".encode())
    return 1 + sum(needs.values())

def agent(case):
    units = [unit(f"{case.input}{n}", work, [f"{case.input}{n - 1}"] if n else []) for n in range(3)]
    return fanout(units)[f"{case.input}2"].value

made = study(name="killed", agent=agent, cases=[Case(input=x) for x in "ab"], version="1")
results = run(made, store="w.db", parallel=2, progress=False)
Path("done").write_text(str(sorted(trial.output for trial in results.trials)))
"""


@pytest.mark.parametrize("kill", ["engine.before_wait:2", "engine.before_end:3", "store.after_commit:6"])
def test_a_killed_trial_finds_its_units_again(folder: Path, warm: Any, kill: str) -> None:
    (folder / "p.py").write_text(PROGRAM)
    words = [sys.executable, "p.py"]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    env = {**os.environ, "PEIRA_FAILPOINT": kill}
    warm.start(words, cwd=folder, env=env, **streams).communicate(timeout=120)
    assert not (folder / "done").exists()
    before = _succeeded(folder)
    executed = _executed(folder)
    _, said = warm.start(words, cwd=folder, env=dict(os.environ), **streams).communicate(timeout=120)
    assert (folder / "done").exists(), said
    assert (folder / "done").read_text() == "[3, 3]"
    again = _executed(folder) - executed
    assert set(again) <= {f"{x}{n} {n}" for x in "ab" for n in range(3)}
    assert sum(again.values()) + before == 6  # those that had ended are not executed again


def _executed(folder: Path) -> Counter[str]:
    log = folder / "executed"
    return Counter(log.read_text().splitlines() if log.exists() else [])


def _succeeded(folder: Path) -> int:
    """How many units have succeeded by the store, as its next owner sees it."""
    with Session.find(folder / "w.db").owned() as store:
        rows = [row for row in store.rows() if isinstance(row, Task) and row.kind == "unit"]
    return sum(row.state == "succeeded" for row in rows)
