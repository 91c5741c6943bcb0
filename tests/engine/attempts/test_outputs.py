"""What an agent may return: anything JSON can carry. Anything else is a failed trial with a clear message."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from peira import Case, run, study
from peira.stores.memory import MemoryStore

WRONG = {
    "object": (object(), "object"),
    "NaN": (math.nan, "nan"),
    "infinity": ([1.0, math.inf], r"output\[1\]"),
    "lone surrogate": ({"a": "\ud800"}, "surrogate"),
    "a large integer": (2**53, r"2\^53"),
    "bytes": (b"raw", "bytes"),
    "a set": ({"a": {1, 2}}, "output.a"),
    "a function": (print, "output"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_output_that_json_cannot_carry_fails_its_trial_only(name) -> None:
    value, said = WRONG[name]
    values = {0: value, 1: "fine"}

    @study(cases=[Case(0), Case(1)])
    def returns(case):
        return values[case.input]

    results = run(returns, store=MemoryStore(), progress=False)
    (row,) = results.failures
    assert row.trial.input == 0
    assert row.failure.type in ("NotJson", "Invalid")
    assert row.failure.message.startswith("output")
    assert re.search(said, row.failure.message), row.failure.message
    assert results.counts["succeeded"] == 1


def test_an_output_that_json_cannot_carry_fails_its_trial_in_a_process_too(folder: Path, written) -> None:
    file = written("""
from peira import Case, study

@study(cases=[Case(0), Case(1), Case(2), Case(3)])
def returns(case):
    if case.input == 3:
        raise ValueError("with a lone \\ud800 surrogate")
    return [object(), "fine", "\\ud800"][case.input]
""")
    results = run(file, store="s.db", runner="process", parallel=1, progress=False)
    failed = {row.trial.input: row.failure for row in results.failures}
    assert failed.keys() == {0, 2, 3}
    assert failed[0].message.startswith("output")
    assert (failed[3].type, failed[3].message) == ("ValueError", "with a lone \\ud800 surrogate")


@pytest.mark.parametrize("size", [10, 5_000, 200_000])
def test_outputs_of_any_size_come_back_as_they_were(tmp_path: Path, size) -> None:
    @study(cases=[Case("é"), Case("x")], factors={"size": [size]})
    def long(case, size):
        return {"text": case.input * size, "none": None, "nested": [[1.5, True, {"k": []}]]}

    results = run(long, store=tmp_path / "s.db", progress=False)
    assert [t.output for t in results.trials] == [long(Case(c), size) for c in "éx"]


@pytest.mark.parametrize("runner", ["local", "process"])
@pytest.mark.parametrize("size", [10, 5_000, 200_000])
def test_steps_of_any_size_are_replayed_as_they_were(written, runner, size) -> None:
    file = written(f"""
from peira import Case, current_trial, step, study

def search(text):
    return {{"found": [text] * {size}, "attempt": current_trial().attempt}}

@study(cases=[Case("é")], policy={{"retries": 1, "backoff": 0}})
def searches(case):
    found = step("search", search, case.input)
    if current_trial().attempt == 1:
        raise OSError("after the step")
    return [len(found["found"]), set(found["found"]) == {{case.input}}, found["attempt"]]
""")
    results = run(file, store="s.db", runner=runner, parallel=1, progress=False)
    assert results.ok, results.failures
    assert results.trials[0].output == [size, True, 1]


class Refuses(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize("problem", [SystemExit(3), KeyboardInterrupt(), Refuses("no"), GeneratorExit()])
def test_whatever_an_agent_raises_is_its_trials_failure(problem) -> None:
    problems = {0: problem}

    @study(cases=[Case(0), Case(1)])
    def raises(case):
        if case.input in problems:
            raise problems[case.input]
        return case.input

    results = run(raises, store=MemoryStore(), progress=False)
    (row,) = results.failures
    assert row.failure.type == type(problem).__name__
    assert results.counts["succeeded"] == 1


def test_none_is_an_output() -> None:
    @study(cases=[Case(0)])
    def silent(case):
        return None

    results = run(silent, store=MemoryStore(), progress=False)
    assert (results.status, results.trials[0].output) == ("completed", None)
