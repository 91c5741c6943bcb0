"""Breaks found in a study library. Each is impossible here, and a test shows it.

Tested elsewhere, at length:

    kill -9 lost finished results           tests/faults/test_kill.py
    a torn store                            tests/faults, tests/stores (power loss)
    secrets in checkpoints                  tests/engine/test_secrets.py

Not in scope yet: hypotheses and analysis plans are carried and said to be "declared, not executed".
"""

from __future__ import annotations

import csv
import itertools
import json
import signal
import threading
import time
from collections import Counter

import pytest

import peira
from peira import Case, Study, current_trial, exact, plan, run, study
from peira.app import execute
from peira.app.run import RunOptions
from peira.core.log.events import TasksClaimed
from peira.errors import Invalid, PeiraError, StoreDamaged, StoreInUse
from peira.stores.memory import MemoryStore

COUNTED = """
import os, time
from pathlib import Path
from peira import Case, run, study

@study(cases=[Case(i) for i in range(40)])
def counted(case):
    with open("calls", "a") as file:
        file.write(f"{case.input}\\n")
    time.sleep(0.01)
    return case.input

if __name__ == "__main__":
    run(counted, store="s.db", parallel=4)
"""


def calls(folder) -> Counter:
    file = folder / "calls"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def test_parallel_runs_not_reproducible() -> None:
    """39 of 40 outputs differed between parallel runs: the global generator was seeded in threads."""

    @study(cases=[Case(i) for i in range(40)])
    def draws(case):
        rng = current_trial().rng
        first = rng.random()
        time.sleep(0.001)
        return [first, rng.random()]

    one, two = (run(draws, store=MemoryStore(), parallel=n, progress=False) for n in (8, 3))
    assert [t.output for t in one.trials] == [t.output for t in two.trials]


def test_failed_runs_never_retried_on_resume() -> None:
    """A failed run counted as done, and resuming left it failed."""
    healed = threading.Event()

    @study(cases=[Case(i) for i in range(6)])
    def sick(case):
        if case.input % 2 and not healed.is_set():
            raise OSError("sick")
        return case.input

    store = MemoryStore()
    assert run(sick, store=store, progress=False).counts["failed"] == 3
    preview = plan(sick, store=store)
    assert (preview.reused, preview.retried) == (3, 3)
    healed.set()
    again = run(sick, store=store, progress=False)
    assert dict(again.counts) == {"planned": 6, "reused": 3, "succeeded": 3}


def test_ctrl_c_with_4_workers_lost_paid_results(folder, written, spawned, until) -> None:
    """Interrupting four workers lost 76 results that had been paid for."""
    written(COUNTED)
    process = spawned()
    until(lambda: sum(calls(folder).values()) >= 8)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) != 0
    paid = calls(folder)
    done = {str(t.input) for t in peira.open("s.db").results().trials if t.state == "succeeded"}
    assert done == set(paid)
    assert run("s.py", store="s.db", progress=False).status == "completed"
    assert set(calls(folder).values()) == {1}, "something was called twice"


def test_kill_9_lost_finished_results(folder, written, spawned, until) -> None:
    """At least 25 finished results were gone after kill -9: they were written in bulk, later."""
    written(COUNTED)
    process = spawned()
    until(lambda: (folder / "s.db").exists() and sum(calls(folder).values()) >= 12)
    time.sleep(0.1)  # completions are durable within a few tens of milliseconds
    before = calls(folder)
    process.kill()
    process.wait()
    done = {str(t.input) for t in peira.open("s.db").results().trials if t.state == "succeeded"}
    assert len(done) >= 8
    assert run("s.py", store="s.db", progress=False).status == "completed"
    again = calls(folder) - before
    assert not [n for n in done if again[n]]


def test_a_torn_checkpoint_stops_resume_naming_no_file(folder, written) -> None:
    """A half-written checkpoint file stopped the resume, with an error that did not say which file."""
    written(COUNTED)
    (folder / "s.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 8)
    with pytest.raises(StoreDamaged, match=r"s\.db"):
        run("s.py", store="s.db", progress=False)
    with pytest.raises(StoreDamaged, match=r"s\.db"):
        peira.open("s.db")


def test_a_torn_log_tail_stops_nothing(folder, written, spawned, until) -> None:
    """The tail that a power cut tears off the log costs that tail, never the rest."""
    written(COUNTED)
    process = spawned()
    until(lambda: sum(calls(folder).values()) >= 8)
    process.kill()
    process.wait()
    log = folder / "s.db-wal"
    torn = log.read_bytes()[:-5000]
    log.write_bytes(torn + b"\xff" * 700)
    assert run("s.py", store="s.db", progress=False).status == "completed"


def test_two_resumers_made_80_calls(folder, written, spawned, until) -> None:
    """Two processes resuming one study made 80 calls for 40 runs."""
    written(COUNTED)
    first = spawned()
    until(lambda: sum(calls(folder).values()) >= 4)
    with pytest.raises(StoreInUse):
        run("s.py", store="s.db", progress=False)
    others = [spawned(), spawned()]  # refused, or too late to find anything to do
    assert first.wait(timeout=30) == 0
    for other in others:
        other.wait(timeout=30)
    assert sum(calls(folder).values()) == 40


def test_a_hung_agent_hangs_the_study() -> None:
    """One agent that never returned kept the whole study waiting for ever."""
    free = threading.Event()

    @study(cases=[Case(i) for i in range(8)], policy={"timeout": 0.2})
    def hangs(case):
        if case.input == 3:
            free.wait(30)
        return case.input

    results = run(hangs, store=MemoryStore(), parallel=2, progress=False)
    free.set()
    assert (results.counts["succeeded"], results.counts["failed"]) == (7, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed changed from 0 to 1: 6 of 6 trials are new"),
        ({"levels": ["a", "c"]}, "1 level of level added ('c'): 3 of 6 trials are new"),
        ({"body": "case.input + 1"}, "agent code changed (agent): 6 of 6 trials are new"),
    ],
    ids=["seed", "levels", "agent"],
)
def test_changed_seed_levels_or_agent_silently_mixes_old_results(folder, written, change, said) -> None:
    """Old results were mixed with new ones, unsaid, after the seed, the levels or the agent had changed."""

    def source(seed=0, levels=("a", "b"), body="case.input"):
        return f"""
from peira import Case, study

@study(name="mixed", cases=[Case(i) for i in range(3)], factors={{"level": {list(levels)}}}, seed={seed})
def agent(case, level):
    return [{body}, level]
"""

    written(source())
    before = run("s.py", store="s.db", progress=False)
    written(source(**change))
    preview = plan("s.py", store="s.db")
    assert said in preview.reasons
    after = run("s.py", store="s.db", progress=False)
    new = {t.id for t in after.trials} - {t.id for t in before.trials}
    assert len(new) == preview.new == after.counts["succeeded"]
    wanted = {"levels": ("a", "b"), "body": "case.input", **change}
    bump = 1 if "+ 1" in wanted["body"] else 0
    assert [t.output for t in after.trials] == [
        [i + bump, level] for level in wanted["levels"] for i in range(3)
    ]


def test_max_runs_cuts_unbalanced() -> None:
    """A limit of 60 runs kept 50 of level a and 10 of level b."""

    @study(
        cases=[Case(i) for i in range(50)],
        factors={"level": ["a", "b"]},
        budget={"trials": 60, "excess": "subset"},
    )
    def agent(case, level):
        return level

    results = run(agent, store=MemoryStore(), progress=False)
    assert Counter(t.output for t in results.trials) == {"a": 30, "b": 30}
    by_case = Counter(t.case_id for t in results.trials)
    assert set(by_case.values()) == {2}, "comparisons are not paired"
    limited = run(agent, store=MemoryStore(), limit=7, progress=False)
    assert sorted(Counter(t.output for t in limited.trials).values()) == [3, 4]


def test_randomize_left_aaaabbbb() -> None:
    """With "randomize" on, all runs of level a still came before all of level b."""

    @study(cases=[Case(i) for i in range(20)], factors={"level": ["a", "b"]}, seed=3)
    def agent(case, level):
        return level

    def order(seed):
        store = MemoryStore()
        results = run(agent.model_copy(update={"seed": seed}), store=store, parallel=1, progress=False)
        levels = {t.id: t.output for t in results.trials}
        claims = [r.event for r in store.events(results.run_id) if isinstance(r.event, TasksClaimed)]
        return "".join(levels[task] for claim in claims for task in claim.tasks)

    first = order(3)
    changes = sum(a != b for a, b in itertools.pairwise(first))
    assert first.count("a") == first.count("b") == 20
    assert changes > 8, first
    assert order(3) == first
    assert order(4) != first


def test_an_evaluator_crash_drops_the_output_and_its_spend() -> None:
    """A crashing evaluator dropped the output, and $5 already spent was recorded as 0."""

    def crashes(output):
        raise ZeroDivisionError("in the metric")

    @study(cases=[Case(i, expected=i) for i in range(3)], evaluators=[crashes, exact()])
    def agent(case):
        current_trial().report(cost=5.0)
        return case.input

    results = run(agent, store=MemoryStore(), progress=False)
    assert results.status == "completed with failures"
    for trial in results.trials:
        assert (trial.state, trial.output, trial.metrics["cost"]) == ("succeeded", trial.input, 5.0)
        assert trial.scores["exact"].value is True
        assert trial.scores["crashes"].failure.message == "in the metric"
    table = str(results.table(score="exact"))
    assert "1" in table


@pytest.mark.parametrize("where", ["output", "error", "input", "observation"])
def test_a_lone_surrogate_aborts_the_study(folder, where) -> None:
    """One lone surrogate in an output ended the whole study with a traceback."""

    @study(cases=[Case(i) for i in range(5)])
    def agent(case):
        if case.input == 2 and where == "output":
            return "\ud800"
        if case.input == 2 and where == "error":
            raise ValueError("\ud800")
        if case.input == 2 and where == "observation":
            current_trial().log("seen", text="\ud800")
        return case.input

    if where == "input":
        with pytest.raises(Invalid, match="surrogate"):
            study(agent.function, cases=[Case("fine"), {"input": "\ud800"}])
        return
    results = run(agent, store="s.db", progress=False)
    (row,) = results.failures
    assert row.trial.input == 2
    assert results.counts["succeeded"] == 4
    results.to_csv("out.csv")
    results.to_jsonl("out.jsonl")


def test_nan_written_as_bad_json(folder) -> None:
    """NaN was written to JSON files, where no other reader accepts it."""

    def nan_score(output):
        return float("nan") if output == 1 else 1.0

    @study(cases=[Case(i) for i in range(3)], evaluators=[nan_score])
    def agent(case):
        return float("nan") if case.input == 2 else case.input

    results = run(agent, store="s.db", progress=False)
    assert {(row.stage, row.trial.input) for row in results.failures} == {("generate", 2), ("evaluate", 1)}
    results.to_jsonl("out.jsonl")

    def refuse(constant):
        raise AssertionError(constant)

    rows = [
        json.loads(line, parse_constant=refuse) for line in (folder / "out.jsonl").read_text().splitlines()
    ]
    assert len(rows) == 3


RESERVED = [
    "order",
    "group",
    "select",
    "index",
    "table",
    "where",
    "values",
    "state",
    "id",
    "output",
    "mean",
    "n",
]


@pytest.mark.parametrize("name", RESERVED)
def test_factor_named_order(folder, name) -> None:
    """A factor named "order" broke the SQLite export, being a word of SQL."""
    namespace: dict = {}
    exec(f"def agent(case, {name}):\n    return [case.input, {name}]", namespace)
    asked = Study(name="words", cases=[Case(1)], factors={name: ["x", "y"]}, agent=namespace["agent"])
    results = run(asked, store="s.db", progress=False)
    assert [t.output for t in results.trials] == [[1, "x"], [1, "y"]]
    assert len(results.table(name).rows) == 2
    results.to_csv("out.csv")
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    assert run(asked, store="s.db", where=f"{name} == 'x'", progress=False).counts["reused"] == 1


def test_misspelt_keys_accepted() -> None:
    """Misspelt keys of a study were taken without a word."""
    with pytest.raises(Invalid) as caught:
        study(agent=lambda case: 1, cases=[Case(1)], repets=3, policy={"time_out": 3}, budget={"trial": 2})
    text = str(caught.value)
    for wrong, right in (("repets", "repeats"), ("time_out", "timeout"), ("trial", "trials")):
        assert wrong in text
        assert f"'{right}'" in text


def test_duplicate_level_values_share_run_ids() -> None:
    """Two equal levels got one run id, and one of them was never run."""
    for levels in (["a", "a"], [1, 1.0], [0, -0.0], [[1], (1,)]):
        with pytest.raises(Invalid, match="duplicate"):
            study(cases=[Case(1)], factors={"level": levels})(lambda case, level: 1)


def test_all_runs_failed_yet_exit_code_0() -> None:
    """A study whose every run had failed ended with exit code 0."""

    @study(cases=[Case(i) for i in range(3)])
    def failing(case):
        raise OSError("no")

    outcome = execute(failing, RunOptions(store=MemoryStore(), progress=False))
    assert outcome.finished.exit_code == 1
    assert outcome.results.status == "completed with failures"
    assert not outcome.results.ok
    assert len(outcome.results.failures) == 3


def test_hypotheses_and_analysis_plans_are_never_executed() -> None:
    """Declared hypotheses and plans were ignored in silence; here each ends with a verdict."""

    @study(
        cases=[Case(1, expected=1)],
        factors={"level": ["a", "b"]},
        evaluators=[exact()],
        outcomes=[{"name": "exact"}],
        hypotheses=[{"id": "h1", "statement": "a is better than b", "factor": "level", "outcome": "exact"}],
    )
    def agent(case, level):
        return 1

    (found,) = run(agent, store=MemoryStore(), progress=False).hypotheses().found
    assert (found.hypothesis, found.verdict) == ("h1", "undecided")


def test_errors_are_ours_to_catch() -> None:
    """Whatever is refused is a PeiraError, never a bare traceback from inside."""
    for error in (Invalid, StoreInUse, StoreDamaged):
        assert issubclass(error, PeiraError)
