"""Calls of models: who asks, and where from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import peira
from peira import ask, ask_async, study
from peira.app.run import RunOutcome
from peira.core.log.events import CallAnswered, TaskFinished

from .conftest import (
    conducted,
    events,
    problems,
    sound,
    studied,
)


def test_evaluators_ask_through_the_ledger_too(fast: Any) -> None:
    def plain(output):
        return ask("fast", f"plain {output}").text.startswith("plain")

    async def waiting(output):
        return (await ask_async("fast", f"waiting {output}")).text.startswith("waiting")

    first = conducted(studied(cases=5, evaluators=[plain, waiting]))
    assert {score.score.value for score in first.results.scores} == {True}
    assert fast.bills() == 15
    assert first.results.trials[0].scores["plain"].metrics["calls"] == 1

    # The same judges, with another opinion of the same answers.
    def plain(output):
        return len(ask("fast", f"plain {output}").text)

    async def waiting(output):
        return len((await ask_async("fast", f"waiting {output}")).text)

    again = conducted(studied(cases=5, evaluators=[plain, waiting]))
    assert {score.score.value for score in again.results.scores} == {len("plain q0"), len("waiting q0")}
    assert fast.bills() == 15
    sound()


def test_a_judge_does_not_get_the_answer_that_the_agent_got(fast: Any) -> None:
    def judged(case):
        return ask("fast", case.input).text != ""

    assert conducted(studied(lambda case: ask("fast", case.input), cases=3, evaluators=[judged])).results.ok
    assert fast.bills() == 6


def test_an_evaluator_that_asks_is_limited_like_an_agent(fast: Any) -> None:
    def judged(output):
        return ask("fast", f"judge {output}").text != ""

    asked = studied(lambda case: case.input, cases=8, evaluators=[judged])
    outcome = conducted(asked.model_copy(update={"budget": peira.Budget(calls=5)}))
    assert (outcome.finished.exit_code, fast.bills()) == (3, 5)
    outcome = conducted(asked.model_copy(update={"budget": peira.Budget(calls=8)}))
    assert (outcome.finished.exit_code, fast.bills()) == (0, 8)


PROCESS = """
import os
from peira import ask, ask_async, study

CASES = [f"q{i}" for i in range(6)]

@study(cases=CASES, name="s")
def plain(case):
    return [ask("fast", case.input).text, os.getpid()]

@study(cases=CASES, name="s", budget={"calls": 4})
def limited(case):
    return [ask("fast", case.input).text, os.getpid()]

@study(cases=CASES, name="w")
async def waiting(case):
    return [(await ask_async("fast", case.input)).text, os.getpid()]

@study(cases=CASES[:1], name="f")
def fails(case):
    ask("fast", case.input)

@study(cases=CASES[:1], name="h", policy={"in_doubt": "hold"})
def held(case):
    ask("fast", case.input)

@study(cases=CASES[:2], name="t", policy={"timeout": 1.5})
def late(case):
    return ask("fast", case.input).text
"""


@pytest.fixture
def in_processes(fast: Any, written: Any) -> Callable[..., RunOutcome]:
    written(PROCESS)
    return lambda name, parallel=2: conducted(f"s.py:{name}", runner="process", parallel=parallel)


def test_in_other_processes_a_budget_holds_and_goes_on_when_raised(fast: Any, in_processes: Any) -> None:
    stopped = in_processes("limited")
    assert (stopped.finished.exit_code, fast.bills()) == (3, 4)
    assert stopped.finished.reason == "budget.calls of 4 is used up"
    states = {trial.state.value for trial in stopped.results.trials}
    assert {"succeeded", "exhausted"} <= states <= {"succeeded", "exhausted", "queued"}
    raised = in_processes("plain")
    assert (raised.finished.exit_code, fast.bills()) == (0, 6)
    outputs = [trial.output for trial in raised.results.trials]
    assert [text for text, _ in outputs] == [f"q{i}" for i in range(6)]
    assert len({pid for _, pid in outputs}) >= 2
    sound()


def test_in_other_processes_a_long_wait_frees_the_worker(fast: Any, in_processes: Any) -> None:
    fast.script({"status": 429, "retry_after": 3.2})
    outcome = in_processes("waiting")
    assert outcome.results.ok
    assert fast.bills() == 6
    assert {trial.attempts for trial in outcome.results.trials} == {1}
    sound()


def test_in_other_processes_failures_are_what_they_are(fast: Any, in_processes: Any) -> None:
    fast.script({"status": 404, "message": "no such model"}, {"do": "reset"})
    (problem,) = problems(in_processes("fails", parallel=1))
    assert "no such model" in problem
    outcome = in_processes("held", parallel=1)
    assert [trial.state.value for trial in outcome.results.trials] == ["in_doubt"]


def test_in_other_processes_a_timeout_frees_the_worker_at_once(fast: Any, in_processes: Any) -> None:
    """The second trial ends while the call of the first is still under way; its answer is kept, too."""
    fast.script({"delay": 6, "text": "late"})
    outcome = in_processes("late", parallel=1)
    assert sorted(trial.state.value for trial in outcome.results.trials) == ["failed", "succeeded"]
    kinds = [type(event) for event in events((TaskFinished, CallAnswered))]
    assert kinds == [TaskFinished, CallAnswered, TaskFinished, CallAnswered]
    sound()


def test_two_agents_that_ask_the_same_at_the_same_time_both_get_an_answer(fast: Any) -> None:
    fast.always({"delay": 0.05})

    async def loud(case):
        return (await ask_async("fast", case.input)).text.upper()

    async def quiet(case):
        return (await ask_async("fast", case.input)).text

    asked = study(agents={"loud": loud, "quiet": quiet}, name="s", cases=["a", "b", "c"])
    outcome = conducted(asked, parallel=6)
    assert outcome.results.ok, problems(outcome)
    assert sorted(trial.output for trial in outcome.results.trials) == ["A", "B", "C", "a", "b", "c"]
    sound()


@pytest.mark.filterwarnings("ignore:ask\\(\\) in an async def agent")
def test_an_async_agent_that_asks_without_awaiting_is_answered(fast: Any) -> None:
    """It blocks the event loop, on which nothing may depend that its own call needs."""

    async def blocking(case):
        return ask("fast", case.input).text

    found = conducted(studied(blocking, cases=3))
    assert found.results.ok
    assert fast.bills() == 3
