"""Calls of models: what may have been billed, and nobody knows."""

from __future__ import annotations

from typing import Any

import aiohttp  # noqa: F401 - imported by the first call, which takes time that attempts are limited in
import pytest

from peira import study
from peira.core.log.events import CallIntended, CallLost

from .conftest import (
    CENT,
    TEN_TOKENS,
    Project,
    asks,
    at,
    conducted,
    events,
    problems,
    sound,
    studied,
)


def test_a_retry_waits_for_the_answer_that_is_on_its_way(fast: Any) -> None:
    """The first attempt timed out while its call was under way: nobody pays for it a second time."""
    fast.always({"delay": 0.9})
    policy = {"timeout": 0.6, "retries": 1, "backoff": 0.01}
    outcome = conducted(studied(cases=2, policy=policy))
    assert outcome.results.ok, problems(outcome)
    assert fast.bills() == 2
    sound()


@pytest.mark.parametrize("turn", [{"do": "reset"}, {"do": "cut"}, {"fail": "doubt"}])
def test_what_is_held_is_billed_at_most_once(fast: Any, turn: dict[str, Any]) -> None:
    fast.always(turn)
    held = studied(cases=4, policy={"in_doubt": "hold", "retries": 3, "backoff": 0.01})
    for _ in range(2):
        outcome = conducted(held)
        assert {trial.state.value for trial in outcome.results.trials} == {"in_doubt"}
        assert outcome.finished.exit_code == 1
    assert sorted(fast.billed()) == [f"q{i}" for i in range(4)]


def test_what_was_cut_off_when_the_run_ended_counts_as_sent(fast: Any) -> None:
    fast.script({"delay": 30, "text": "never heard"})
    asked = studied(cases=1, policy={"timeout": 0.3}, budget={"calls": 2})
    outcome = conducted(asked)
    (spent,) = outcome.results.spent_by_model
    assert (spent.sends, spent.answers, spent.doubtful) == (1, 0, 1)
    again = conducted(asked)  # sent again, which is the second of two
    assert (again.results.ok, fast.bills()) == (True, 2)
    more = conducted(studied(cases=2, budget={"calls": 2}))
    assert (more.finished.exit_code, fast.bills()) == (3, 2)
    sound()


DOUBTS = [
    ({"do": "reset"}, {"in_doubt": "hold"}),
    ({"fail": "doubt"}, {"in_doubt": "hold"}),
    ({"delay": 30}, {"timeout": 0.3}),
]


@pytest.mark.parametrize(("turn", "policy"), DOUBTS, ids=["reset", "failed", "cut off"])
def test_later_runs_count_what_a_send_without_an_answer_may_have_cost(
    endpoint: Any, project: Project, turn: dict[str, Any], policy: dict[str, Any]
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.script(turn)
    endpoint.always(TEN_TOKENS)
    first = conducted(studied(cases=1, policy=policy, budget={"money": 0.04}))
    spent = first.results.spent
    assert (spent.money, spent.doubtful, spent.doubtful_money) == (0.0, 1, pytest.approx(0.01))
    assert spent.price == "$0.00 and 1 in doubt (perhaps $0.010 more)"
    assert spent.doubtful_tokens >= 10
    others = study(agent=asks, name="s", cases=[f"another {i}" for i in range(9)], budget={"money": 0.04})
    second = conducted(others, parallel=4)
    assert (second.finished.exit_code, second.results.spent.price) == (3, "$0.030")
    more = conducted(others)
    assert (more.finished.exit_code, more.results.spent.calls, endpoint.bills()) == (3, 0, 4)
    sound()


def test_without_a_budget_an_intent_says_nothing_of_money_and_a_doubt_does(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.script({"do": "reset"})
    outcome = conducted(studied(cases=1))
    assert [(event.tokens, event.money) for event in events(CallIntended)] == [(0, 0.0)] * 2
    (lost,) = events(CallLost)
    assert (lost.money, outcome.results.spent.doubtful_money) == (pytest.approx(0.01),) * 2
    conducted(studied(cases=2, budget={"calls": 10, "money": 1.0}))
    assert events(CallIntended)[0].money == pytest.approx(0.01)
    sound()


def test_what_is_sent_again_is_recorded_first(fast: Any) -> None:
    fast.script({"do": "reset"}, {"fail": "doubt"}, {"do": "cut"})
    outcome = conducted(studied(cases=3), parallel=3)
    assert outcome.results.ok
    lost = [event for event in events(CallLost) if event.doubt]
    assert fast.bills() <= 3 + len(lost) == 6
    assert outcome.results.spent.doubtful == 3
    sound()
