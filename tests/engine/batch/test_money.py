"""Budgets hold for what is in batches, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from peira import ask, ask_async, study, submit

from .conftest import (
    FULL,
    PRICE,
    calls,
    either,
    once,
    until,
)


def test_a_budget_of_calls_holds_for_batches(provider, handed, store) -> None:
    cases = [f"case {n}" for n in range(12)]
    results = handed(once(provider), cases=cases, budget={"calls": 5})
    assert (results.status, results.counts["succeeded"]) == ("stopped by a limit", 5)
    assert len(provider.billed()) == 5
    more = handed(once(provider), cases=cases, budget={"calls": 9})
    assert (more.status, more.counts["succeeded"], more.counts["reused"]) == ("stopped by a limit", 4, 5)
    assert len(provider.billed()) == 9
    assert handed(once(provider), cases=cases).ok
    assert len(provider.billed()) == 12


@either
def test_a_budget_of_money_is_spent_to_the_last_call(provider, handed, store) -> None:
    """Each is thought to cost more than it does, so those that did not fit come in a second batch."""
    Path("peira.toml").write_text(PRICE.format(name=provider.name))
    name, cases = provider.name, [f"case {n}" for n in range(12)]
    agent = lambda case: ask(name, case.input, max_tokens=20)  # noqa: E731
    results = handed(agent, cases=cases, budget={"money": 8 * FULL / 2})
    assert results.status == "stopped by a limit"
    spent = sum(call.cost for call in calls(store) if call.state == "answered")
    assert spent <= 8 * FULL / 2 * (1 + 1e-9)
    assert len(provider.batches()) > 1
    assert 5 <= len(provider.billed()) <= 8


@either
def test_a_budget_of_a_trial_holds_for_batches(provider, handed, store) -> None:
    name = provider.name

    async def gathers(case):  # type: ignore[no-untyped-def]
        await asyncio.gather(*(ask_async(name, f"{case.input}{n}") for n in range(3)))

    results = handed(gathers, budget={"per_trial": {"calls": 2}})
    assert {trial.state.value for trial in results.trials} == {"exhausted"}
    assert len(provider.billed()) == 6


@either
def test_what_a_trial_still_waits_for_counts_when_it_asks_again(provider, store) -> None:
    """One of its batches is over and wakes it, another is not."""
    slow = type(provider)(provider.base, f"{provider.model}-b", provider.form)
    slow.plan(hold=True)
    name, other = provider.name, slow.name

    async def gathers(case):  # type: ignore[no-untyped-def]
        await asyncio.gather(ask_async(name, "x"), ask_async(other, "y"), ask_async(name, "z"))

    asked = study(agent=gathers, name="s", cases=["ab"], budget={"per_trial": {"calls": 2}})
    handle = submit(asked, store=store, progress=False, batch=True)
    until(lambda: {call.state for call in calls(store)} == {"answered", "intended"})
    until(lambda: handle.progress().waiting == 1)
    slow.plan(hold=False)
    assert [trial.state.value for trial in handle.result().trials] == ["exhausted"]
    assert (provider.billed(), slow.billed()) == (["x"], ["y"])


def test_what_is_in_an_open_batch_counts(provider, handed, store) -> None:
    """A run that goes on may not spend what an earlier one has handed in."""
    provider.plan(hold=True)
    cases = [f"case {n}" for n in range(8)]
    few = study(agent=once(provider), name="s", cases=cases[:5], budget={"calls": 7})
    begun = submit(few, store=store, batch=True, progress=False)
    until(lambda: len(provider.billed()) == 5)
    begun.cancel()
    assert begun.result().status == "cancelled"
    many = study(agent=once(provider), name="s", cases=cases, budget={"calls": 7})
    going_on = submit(many, store=store, batch=True, progress=False)
    until(lambda: len(provider.billed()) == 7)
    provider.plan(hold=False)
    results = going_on.result()
    assert (results.status, results.counts["succeeded"]) == ("stopped by a limit", 7)
    assert len(provider.billed()) == 7


@either
@pytest.mark.parametrize("budget", [{}, {"money": 1.0}], ids=["no budget", "budget"])
def test_what_a_batch_in_doubt_may_have_cost_is_told_at_the_price_of_batches(
    provider, handed, store, budget
) -> None:
    Path("peira.toml").write_text(PRICE.format(name=provider.name))
    provider.plan(turns={"look": [{"status": 404, "message": "no such batch"}]})
    name = provider.name
    agent = lambda case: ask(name, case.input, max_tokens=20)  # noqa: E731
    spent = handed(agent, policy={"in_doubt": "hold"}, budget=budget).spent
    full = ((spent.doubtful_tokens - 3 * 20) * 200.0 + 3 * 20 * 400.0) / 1_000_000
    assert (spent.money, spent.doubtful, spent.doubtful_money) == (0.0, 3, pytest.approx(full / 2))
