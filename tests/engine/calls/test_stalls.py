"""Calls that hang or wait: they are in nobody's way, and their waiting is no agent's time."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp  # noqa: F401 - imported by the first call, which takes time that attempts are limited in
import pytest
from hypothesis import given
from hypothesis import strategies as st

import peira
from peira import ask, ask_async
from peira.core.log.events import CallAnswered, CallIntended
from peira.core.models import ModelLimits, NamedModel
from peira.engine.calls.budget import Reservation, RunAccounts
from peira.engine.calls.open_calls import LONG, OpenSend, QueueTime, unanswered
from peira.engine.calls.rate_limit import RateLimiter
from peira.engine.progress import Progress
from peira.report.progress import describe
from peira.spec.limits import Budget

from .conftest import Project, at, conducted, events, problems, sound, studied

ONE = {"limits": {"concurrency": 1}}


@pytest.mark.parametrize("parallel", [1, 8])
def test_a_call_that_hangs_costs_its_own_trial_only(endpoint: Any, project: Project, parallel: int) -> None:
    project(fast=at(endpoint, **ONE))
    endpoint.script({"delay": 60})
    outcome = conducted(studied(cases=8, policy={"timeout": 1.0}), parallel=parallel)
    assert (outcome.results.counts["succeeded"], outcome.results.counts["failed"]) == (7, 1)
    assert problems(outcome) == {
        "no answer within 1 s (policy.timeout); 1 of its model calls is unanswered",
    }
    assert endpoint.sends() == 8
    sound()


def test_a_reservation_for_a_call_that_hangs_holds_nobody_up(endpoint: Any, project: Project) -> None:
    """With a budget of calls that is all set aside, others would wait for the hung one to be settled."""
    project(fast=at(endpoint, **ONE))
    endpoint.script({"delay": 60})
    outcome = conducted(studied(cases=3, policy={"timeout": 1.0}, budget={"calls": 3}), parallel=3)
    assert (outcome.results.counts["succeeded"], outcome.results.counts["failed"]) == (2, 1)
    more = conducted(studied(cases=4, policy={"timeout": 1.0}, budget={"calls": 3}))
    assert more.finished.exit_code == 3  # the one that hangs may be billed
    sound()


def test_a_hung_call_is_sent_again_by_the_retry(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, **ONE))
    endpoint.script({"delay": 60})
    policy = {"timeout": 0.5, "retries": 1, "backoff": 0.01}
    outcome = conducted(studied(cases=2, policy=policy))
    assert outcome.results.ok, problems(outcome)
    assert sorted(event.send for event in events(CallIntended)) == [1, 1, 2]
    (spent,) = outcome.results.spent_by_model
    assert (spent.sends, spent.answers, spent.doubtful) == (3, 2, 1)
    sound()


def test_the_late_answer_is_recorded_and_given_to_whoever_asked_again(
    endpoint: Any, project: Project
) -> None:
    """The first send is answered after the call was sent again, which is not answered in time."""
    project(fast=at(endpoint, **ONE))
    endpoint.script({"delay": 1.6, "text": "late"}, {"delay": 60})
    policy = {"timeout": 0.6, "retries": 1, "backoff": 0.01}
    outcome = conducted(studied(cases=1, policy=policy))
    assert [trial.output for trial in outcome.results.trials] == ["late"], problems(outcome)
    assert [event.send for event in events(CallIntended)] == [1, 2]
    assert len(events(CallAnswered)) == 1
    (spent,) = outcome.results.spent_by_model
    assert (spent.sends, spent.answers, spent.doubtful) == (2, 1, 1)
    sound()


def test_an_answer_after_the_time_limit_is_kept_for_the_next_run(fast: Any) -> None:
    fast.always({"delay": 1.2})
    asked = studied(cases=2, policy={"timeout": 0.5})
    assert conducted(asked).results.counts["failed"] == 2
    assert conducted(asked).results.ok
    assert fast.bills() == 2
    sound()


def test_a_call_that_its_agent_cancels_frees_its_slot(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, **ONE))
    endpoint.script({"delay": 60})

    async def impatient(case: Any) -> str:
        try:
            return (await asyncio.wait_for(ask_async("fast", case.input), 0.5)).text
        except TimeoutError:
            return "too late"

    outcome = conducted(studied(impatient, cases=4), parallel=1)
    assert [trial.output for trial in outcome.results.trials].count("too late") == 1


def test_waiting_in_our_queue_is_not_the_agents_time(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, **ONE))
    endpoint.always({"delay": 0.1})

    def six(case: Any) -> str:
        for nth in range(6):
            said = ask("fast", f"{case.input} {nth}")
        return said.text

    outcome = conducted(studied(six, cases=8, policy={"timeout": 2.0}), parallel=8)
    assert outcome.results.ok, problems(outcome)
    for trial in outcome.results.trials:
        assert 0.6 <= trial.took < 2.0
    waited = [trial.queued for trial in outcome.results.trials]
    assert max(waited) > 2.0, "eight at a time share one slot"
    sound()


def test_a_rate_limit_is_not_the_agents_time_either(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, limits={"requests_per_minute": 60}))
    outcome = conducted(studied(cases=5, policy={"timeout": 0.9}), parallel=5)
    assert outcome.results.ok, problems(outcome)
    assert sum(trial.queued for trial in outcome.results.trials) > 3
    assert all(trial.took < 0.9 for trial in outcome.results.trials)


MOVES = st.lists(st.tuples(st.sampled_from(["ask", "send", "back", "end"]), st.floats(0, 5)), max_size=40)


@given(MOVES)
def test_queue_time_is_the_time_with_calls_in_queues_and_none_with_a_model(
    moves: list[tuple[str, float]],
) -> None:
    now, queued, sent, expected = 0.0, 0, 0, 0.0
    time = QueueTime(lambda: now)
    change = {"ask": (1, 0), "send": (-1, 1), "back": (1, -1), "end": (-1, 0)}
    for what, later in moves:
        if queued and not sent:
            expected += later
        now += later
        more, out = change[what]
        if queued + more >= 0 and sent + out >= 0:
            queued, sent = queued + more, sent + out
            time.move(more, out)
        assert time.seconds() == pytest.approx(expected)
        assert time.seconds() <= now + 1e-9


class Slow:
    name, silence = "openai:mock", 300.0


def open_send(sent_at: float) -> OpenSend:
    named = NamedModel("openai:mock", Slow(), ModelLimits())  # type: ignore[arg-type]
    limiter = RateLimiter("openai:mock", ModelLimits(), lambda: 0.0, lambda _: None)
    return OpenSend(named, "k", limiter, RunAccounts(Budget()), None, Reservation(), sent_at)


def test_the_progress_says_which_model_does_not_answer() -> None:
    sends = [open_send(10.0), open_send(20.0), open_send(49.0)]
    assert unanswered(sends, 15.0) == []
    assert LONG == 10.0
    (line,) = unanswered(sends, 50.0)
    assert (
        line == "waiting for openai:mock: 2 calls unanswered for 40 s (given up after 5 min: "
        "timeouts.first_byte)"
    )
    sends[0].give_up()
    (line,) = unanswered(sends, 50.0)
    assert line.startswith("waiting for openai:mock: 1 call unanswered for 30 s")
    shown = describe(Progress(8, 0, 0, 0, 8, 0, 50.0, waits=(line,)))
    assert shown.startswith("0/8 trials, 8 running | waiting for openai:mock")


def test_the_progress_of_a_run_says_it_too(fast: Any) -> None:
    fast.script({"delay": 11.5})
    seen: list[str] = []
    handle = peira.submit(studied(cases=1), store="s.db", progress=False)
    while not handle.wait(0.2):
        seen.extend(handle.progress().waits)
    assert any(line.startswith("waiting for fast: 1 call unanswered for 1") for line in seen), seen[-1:]
