"""Calls of models, from an agent's `ask` to the bills: budgets hold to the cent."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, ask_async
from peira.core.log.events import CallLost

from .conftest import (
    CENT,
    TEN_TOKENS,
    Project,
    at,
    conducted,
    events,
    notices,
    sound,
    studied,
)


def test_64_workers_spend_a_dollar_on_exactly_a_hundred_calls(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always({**TEN_TOKENS, "delay": 0.02})
    first = conducted(studied(cases=180, budget={"money": 1.0}), parallel=64)
    assert endpoint.bills() == endpoint.sends() == 100
    assert (first.results.status, first.finished.exit_code) == ("stopped by a limit", 3)
    assert first.finished.reason == "budget.money of $1 is used up"
    assert first.results.spent.money == pytest.approx(1.0)
    assert first.results.counts["succeeded"] == 100
    assert not first.results.ok

    again = conducted(studied(cases=180, budget={"money": 1.0}), parallel=64)
    assert (again.results.status, again.finished.exit_code) == ("stopped by a limit", 3)
    assert endpoint.sends() == 100
    assert again.finished.reason == "budget.money of $1 is used up ($1 of it by earlier runs)"

    raised = conducted(studied(cases=180, budget={"money": 1.25}), parallel=64)
    assert (endpoint.bills(), raised.finished.exit_code) == (125, 3)
    last = conducted(studied(cases=180, budget={"money": 5.0}), parallel=64)
    assert (endpoint.bills(), last.finished.exit_code) == (180, 0)
    assert [trial.output for trial in last.results.trials] == ["so it is"] * 180
    assert last.results.cost.money == pytest.approx(1.8)
    sound()


def test_judges_retries_and_second_calls_are_paid_from_the_same_purse(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always(TEN_TOKENS)
    endpoint.script(*[{"fail": "doubt"}] * 3)  # they may have been billed: they count

    async def twice(case):
        one = await ask_async("fast", case.input, max_tokens=10)
        return await ask_async("fast", f"sure? {one}", max_tokens=10)

    def judged(output):
        return ask("fast", f"is it right? {output}", max_tokens=10).text != ""

    asked = studied(twice, cases=40, evaluators=[judged], budget={"money": 0.5})
    outcome = conducted(asked, parallel=16)
    assert (endpoint.bills(), outcome.finished.exit_code) == (50, 3)
    assert len(events(CallLost)) == 3


def test_where_a_call_has_no_bound_the_overshoot_is_at_most_the_calls_in_flight(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    sizes = [(7 * i) % 31 + 10 for i in range(300)]
    endpoint.script(*({"text": "x", "usage": {"input": 1, "output": n}, "delay": 0.01} for n in sizes))

    async def unbounded(case):
        return await ask_async("fast", case.input)

    outcome = conducted(studied(unbounded, cases=250, budget={"money": 1.0}), parallel=16)
    spent = sum(sizes[: endpoint.bills()]) / 1000
    assert outcome.finished.exit_code == 3
    assert 1.0 - 0.041 <= spent <= 1.0 + 16 * 0.040
    assert outcome.results.spent.money == pytest.approx(spent)


def test_a_budget_says_before_the_run_what_calls_without_a_limit_reserve(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT), few=at(endpoint, price=CENT, limits={"max_output_tokens": 30}))

    def unbounded(case, model):
        return ask(model, case.input)

    asked = studied(unbounded, cases=1, factors={"model": ["fast", "few"]}, budget={"money": 1.0})
    said = [note for note in peira.plan(asked, store="s.db").notes if note.startswith("budget:")]
    assert len(said) == 1
    assert said[0].startswith("budget: fast: its largest output is not known, so calls without a limit")
    assert '[models."fast"] limits = {max_output_tokens = ...}' in said[0]
    conducted(asked)
    assert said[0] in notices()
    limited = studied(cases=1, budget={"money": 1.0}, factors={"model": ["fast"]})
    assert not [note for note in peira.plan(limited, store="s.db").notes if note.startswith("budget:")]


def test_a_provider_that_adds_to_requests_is_noticed(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, price={"input": 10}))
    endpoint.always({"text": "x", "usage": {"input": 900, "output": 1}})
    conducted(studied(cases=3, budget={"money": 1.0}), parallel=1)
    said = [text for text in notices() if "more than the" in text]
    assert len(said) == 1
    assert said[0].startswith("fast: a call took 900 + 1 tokens, more than the ")


def test_a_trial_has_its_own_budget_and_the_run_goes_on(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always(TEN_TOKENS)

    def greedy(case):
        return [ask("fast", f"{case.input} {n}", max_tokens=10).text for n in range(int(case.input[1:]) + 1)]

    outcome = conducted(studied(greedy, cases=6, budget={"per_trial": {"calls": 3}}))
    states = [trial.state.value for trial in outcome.results.trials]
    assert states == ["succeeded"] * 3 + ["exhausted"] * 3
    assert outcome.finished.exit_code != 0
    assert endpoint.bills() == 1 + 2 + 3 + 3 * 3
    raised = conducted(studied(greedy, cases=6, budget={"per_trial": {"calls": 6}}))
    assert (raised.finished.exit_code, endpoint.bills()) == (0, 1 + 2 + 3 + 4 + 5 + 6)


def test_an_exhausted_trial_is_no_failure(endpoint: Any, project: Project, tmp_path: Path) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always(TEN_TOKENS)

    def greedy(case):
        return [ask("fast", f"{case.input} {n}", max_tokens=10).text for n in range(int(case.input[1:]) + 1)]

    strict = {"fail_fast": True, "max_failures": 0}
    asked = studied(greedy, cases=6, budget={"per_trial": {"calls": 3}}, policy=strict)
    first = conducted(asked, parallel=1)
    assert (first.results.status, first.finished.exit_code) == ("stopped by a limit", 3)
    assert first.finished.reason == "3 exhausted by budget.per_trial"
    assert first.results.counts == {"planned": 6, "succeeded": 3, "exhausted": 3}
    kept = conducted(asked, policy={"retry_failed": False})
    assert kept.results.counts == {"planned": 6, "reused": 3, "kept_exhausted": 3}
    assert kept.finished.exit_code == 3
    first.results.export(tmp_path / "folder", "artifact")
    rows = list(csv.DictReader((tmp_path / "folder" / "runs.csv").read_text().splitlines()))
    assert [row["status"] for row in rows] == ["success"] * 3 + ["skipped"] * 3
    assert rows[-1]["error_info"].startswith("exhausted: ")


def test_a_budget_of_a_trial_is_for_all_its_attempts(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always(TEN_TOKENS)
    tried: list[int] = []

    def anew(case):
        tried.append(1)
        ask("fast", "the same", max_tokens=10)  # replayed: it is counted once
        ask("fast", f"{len(tried)}", max_tokens=10)
        raise ValueError("again")

    budget = {"per_trial": {"money": 0.04}}
    outcome = conducted(studied(anew, cases=1, budget=budget, policy={"retries": 9, "backoff": 0}))
    assert (endpoint.bills(), len(tried)) == (4, 4)
    assert [trial.state.value for trial in outcome.results.trials] == ["exhausted"]


def test_a_model_has_its_own_budget_and_the_others_go_on(endpoint: Any, project: Project) -> None:
    other = endpoint.other("other")
    project(fast=at(endpoint, price=CENT), dear=at(other, price=CENT))
    asked = studied(
        lambda case, model: ask(model, case.input, max_tokens=10),
        cases=10,
        factors={"model": ["fast", "dear"]},
        budget={"per_model": {"dear": {"calls": 4}}},
    )
    outcome = conducted(asked, parallel=4)
    assert (endpoint.bills(), other.bills()) == (10, 4)
    assert outcome.finished.exit_code == 3
    assert "calls of 4 is used up" in outcome.finished.reason


def test_a_budget_for_a_model_without_a_price_is_refused_before_anything_is_asked(fast: Any) -> None:
    asked = studied(lambda case, model: ask(model, case.input), factors={"model": ["fast"]})
    with pytest.raises(peira.PeiraError, match="fast: its price is unknown"):
        conducted(asked.model_copy(update={"budget": peira.Budget(money=1.0)}))
    assert fast.sends() == 0
    assert not Path("s.db").exists()


def test_what_a_content_filter_refuses_is_counted_and_not_asked_again(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always({"status": 400, "error": {"error": {"code": "content_filter", "message": "not this"}}})

    def agent(case):
        reply = ask("fast", case.input, max_tokens=10)
        return [reply.text, reply.finish]

    first = conducted(studied(agent, cases=3))
    assert [trial.output for trial in first.results.trials] == [["not this", "refusal"]] * 3
    assert {trial.metrics["refusals"] for trial in first.results.trials} == {1.0}
    assert first.results.spent.money == 0
    sent = endpoint.sends()
    assert sent == 3
    again = conducted(studied(lambda case: agent(case), cases=3))
    assert (again.finished.exit_code, endpoint.sends()) == (0, sent)
    sound()
