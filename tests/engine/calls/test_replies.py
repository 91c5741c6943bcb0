"""Calls of models: a reply that must fit is asked for again, and counted."""

from __future__ import annotations

from typing import Any

from peira import ask_async

from .conftest import (
    conducted,
    problems,
    sound,
    studied,
)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def extracts(case):
    return (await ask_async("fast", case.input, schema=SCHEMA)).parsed["n"]


def test_a_reply_that_does_not_fit_is_told_why_and_asked_again(fast: Any) -> None:
    fast.script({"text": "seven"}, {"text": '{"n": "7"}'}, {"text": '```json\n{"n": 7}\n```'})
    outcome = conducted(studied(extracts, cases=1))
    assert outcome.results.trials[0].output == 7
    assert outcome.results.trials[0].metrics["calls"] == 3
    first, second, third = (seen["body"]["messages"] for seen in fast.seen())
    assert (len(first), len(second), len(third)) == (1, 3, 5)
    assert "no JSON" in second[-1]["content"]
    assert "'7' is not of type 'integer'" in third[-1]["content"]
    assert all("response_format" in seen["body"] for seen in fast.seen())


def test_a_model_that_never_fits_fails_its_trial_and_no_other(fast: Any) -> None:
    fast.script(*[{"text": "no"}] * 3, {"text": '{"n": 1}'})
    outcome = conducted(studied(extracts, cases=2), parallel=1)
    assert sorted(trial.state.value for trial in outcome.results.trials) == ["failed", "succeeded"]
    (problem,) = problems(outcome)
    assert problem.startswith("fast: its reply does not fit the schema after 2 repairs: it is no JSON")
    assert fast.bills() == 4
    conducted(studied(extracts, cases=2), parallel=1)
    assert fast.bills() == 4  # the same three answers, and the same end


def test_a_failure_by_replay_alone_is_not_tried_again(fast: Any) -> None:
    fast.always({"text": "not a number"})

    async def parses(case):
        return int((await ask_async("fast", case.input)).text)

    policy = {"retries": 5, "backoff": 0.01}
    outcome = conducted(studied(parses, cases=1, policy=policy))
    (trial,) = outcome.results.trials
    assert (trial.state.value, trial.attempts, fast.bills()) == ("failed", 2, 1)


def test_redrawing_asks_anew_and_is_counted(fast: Any) -> None:
    fast.script({"text": "x"}, {"text": "y"}, {"text": "3"})

    async def parses(case):
        return int((await ask_async("fast", case.input)).text)

    policy = {"retries": 5, "backoff": 0.01, "redraw": True}
    outcome = conducted(studied(parses, cases=1, policy=policy))
    (trial,) = outcome.results.trials
    assert (trial.output, trial.attempts, fast.bills()) == (3, 3, 3)
    assert trial.metrics["redraws"] == 2
    sound()


def test_an_answer_without_sense_is_recorded_fails_its_trial_and_is_asked_again_by_the_next_run(
    fast: Any,
) -> None:
    fast.always({"raw": '{"choices": "none"}'})
    for bills in (2, 4):
        outcome = conducted(studied(cases=2))
        assert all("unknown shape" in problem for problem in problems(outcome))
        assert len(outcome.results.failures) == 2
        assert fast.bills() == bills
    sound()
