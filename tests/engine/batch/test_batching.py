"""Calls in batches: handed in together, answered later, never bought twice."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from peira import ask, ask_async, run, study
from peira.stores.memory import MemoryStore

from .conftest import (
    CASES,
    FULL,
    PRICE,
    calls,
    either,
    once,
    outputs,
    twice,
)


def test_an_agent_that_asks_twice_takes_two_batches(provider, handed, store) -> None:
    results = handed(twice(provider))
    assert outputs(results) == ["!ab", "!cd", "!ef"]
    assert provider.batches() == [CASES, ["ba!", "dc!", "fe!"]]
    assert provider.billed_keys() == sorted(call.key for call in calls(store))
    assert {(call.state, call.sends, call.input, call.output) for call in calls(store)} == {
        ("answered", 1, 10, 5)
    }
    assert results.counts == {"planned": 3, "succeeded": 3, "batches": 2}


def test_async_agents_wait_for_batches_too(provider, handed) -> None:
    name = provider.name

    async def agent(case):  # type: ignore[no-untyped-def]
        first = await ask_async(name, case.input)
        return await ask_async(name, first.text + "!")

    assert outputs(handed(agent)) == ["!ab", "!cd", "!ef"]
    assert provider.batches() == [CASES, ["ba!", "dc!", "fe!"]]


@either
def test_what_is_asked_in_the_same_breath_is_in_one_batch(provider, handed) -> None:
    name = provider.name

    async def gathers(case):  # type: ignore[no-untyped-def]
        replies = await asyncio.gather(*(ask_async(name, f"{case.input}{n}") for n in range(3)))
        return [reply.text for reply in replies]

    async def groups(case):  # type: ignore[no-untyped-def]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_async(name, f"{case.input}{n}")) for n in range(3)]
        return [task.result().text for task in tasks]

    expected = [[f"{n}ba" for n in range(3)]]
    assert outputs(handed(gathers, cases=["ab"])) == expected
    assert provider.batches() == [["ab0", "ab1", "ab2"]]
    assert outputs(handed(groups, cases=["ab"], fresh=True)) == expected
    assert provider.batches()[1:] == [["ab0", "ab1", "ab2"]]


@either
def test_run_again_asks_nothing(provider, handed) -> None:
    first = handed(twice(provider))
    before = provider.log()["asked"]
    for batch in (True, False):
        assert outputs(handed(twice(provider), batch=batch)) == outputs(first)
    assert provider.log()["asked"] == before


@either
def test_an_edited_agent_replays_what_was_answered_in_batches(provider, handed) -> None:
    handed(twice(provider))
    name = provider.name

    def edited(case):  # type: ignore[no-untyped-def]
        return ask(name, ask(name, case.input).text + "!").text.upper()

    assert outputs(handed(edited, batch=False)) == ["!AB", "!CD", "!EF"]
    assert len(provider.billed()) == 6


def test_a_call_in_a_batch_costs_half(provider, handed, store) -> None:
    Path("peira.toml").write_text(PRICE.format(name=provider.name))
    results = handed(twice(provider))
    assert [call.cost for call in calls(store)] == [pytest.approx(FULL / 2)] * 6
    metrics = results.trials[0].metrics
    assert (metrics["calls"], metrics["input_tokens"], metrics["output_tokens"]) == (2, 20, 10)
    assert (metrics["cost"], metrics["spent"]) == (pytest.approx(FULL), pytest.approx(FULL))
    [spent] = store.find("run", [results.run_id])[results.run_id].spent
    assert (spent.sends, spent.answers, spent.money) == (6, 6, pytest.approx(6 * FULL / 2))
    again = handed(twice(provider), name="another")
    assert (again.trials[0].metrics["cost"], again.trials[0].metrics["calls"]) == (pytest.approx(FULL), 2)


@either
def test_the_share_that_is_paid_can_be_said(provider, handed, store) -> None:
    Path("peira.toml").write_text(PRICE.format(name=provider.name).replace("}", ", batch = 0.25}"))
    handed(once(provider))
    assert [call.cost for call in calls(store)] == [pytest.approx(FULL / 4)] * 3


@either
def test_judges_are_asked_in_batches_after_the_agents(provider, handed) -> None:
    name = provider.name

    def fair(output):  # type: ignore[no-untyped-def]
        return ask(name, f"is {output} fair?").text.startswith("?")

    results = handed(once(provider), evaluators=[fair])
    assert results.ok
    assert results.trials[0].scores["fair"].value is True
    assert provider.batches() == [CASES, ["is ba fair?", "is dc fair?", "is fe fair?"]]


@either
def test_agents_in_other_processes_wait_for_batches(provider, store, tmp_path) -> None:
    file = tmp_path / "other.py"
    file.write_text(
        "from peira import ask, study\n"
        f"@study(cases={CASES!r})\n"
        "def s(case):\n"
        f"    return ask({provider.name!r}, ask({provider.name!r}, case.input).text + '!')\n"
    )
    results = run(str(file), store=store, progress=False, batch=True, runner="process", parallel=2)
    assert outputs(results) == ["!ab", "!cd", "!ef"]
    assert len(provider.batches()) == 2


@either
def test_what_another_process_asks_in_the_same_breath_is_in_one_batch(provider, store, tmp_path) -> None:
    file = tmp_path / "other.py"
    file.write_text(
        "import asyncio\n"
        "from peira import ask_async, study\n"
        f"@study(cases={CASES!r})\n"
        "async def s(case):\n"
        f"    asked = (ask_async({provider.name!r}, f'{{case.input}}{{n}}') for n in range(3))\n"
        "    return [reply.text for reply in await asyncio.gather(*asked)]\n"
    )
    results = run(str(file), store=store, progress=False, batch=True, runner="process", parallel=2)
    assert outputs(results) == [[f"{n}{case[::-1]}" for n in range(3)] for case in CASES]
    assert provider.batches() == [[f"{case}{n}" for case in CASES for n in range(3)]]


@either
def test_more_than_workers_are_gathered(provider, handed) -> None:
    cases = [f"case {n}" for n in range(150)]
    results = handed(twice(provider), cases=cases, parallel=3)
    assert results.ok
    assert [len(batch) for batch in provider.batches()] == [150, 150]


@either
def test_those_who_sleep_keep_nobody_out(provider) -> None:
    """There are more trials than are at hand at once otherwise, and they all go into one batch."""
    many = study(agent=once(provider), name="s", cases=[str(n) for n in range(5_200)])
    assert run(many, store=MemoryStore(), progress=False, batch=True).ok
    assert [len(batch) for batch in provider.batches()] == [5_200]


@either
def test_whoever_waits_is_woken_once(provider, handed, store) -> None:
    """An attempt for each batch that a trial waits for, and one that comes through."""
    began = Counter[str]()
    name, lock = provider.name, threading.Lock()

    def agent(case):  # type: ignore[no-untyped-def]
        with lock:
            began[case.input] += 1
        return ask(name, ask(name, ask(name, case.input).text + "!").text + "?")

    cases = [f"case {n}" for n in range(60)]
    assert handed(agent, cases=cases, parallel=8).ok
    assert set(began.values()) == {4}
    assert [len(batch) for batch in provider.batches()] == [60, 60, 60]
