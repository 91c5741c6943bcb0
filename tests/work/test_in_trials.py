"""A work plan inside a trial: the trial waits for its units, and so planners can be compared in a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira import Case, current_trial, fanout, run, step, study, unit
from peira.app.session import Session
from peira.core.log.events import TaskFinished, TaskWaiting
from peira.errors import Invalid

pytestmark = pytest.mark.timeout(300)


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
