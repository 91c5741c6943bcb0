"""While a batch is waited for, others look, runs stop and go on, and everybody gets through."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import peira
from peira import ask, ask_async, study, submit
from peira.core.log.events import CallIntended, CallLost
from peira.core.registry import HOOKS

from .conftest import (
    CASES,
    calls,
    either,
    notes,
    once,
    outputs,
    twice,
    until,
)


@either
def test_people_see_what_is_waited_for(provider, store) -> None:
    provider.plan(hold=True)
    handle = submit(
        study(agent=once(provider), name="s", cases=CASES), store=store, batch=True, progress=False
    )
    until(lambda: handle.progress().waiting == 3)
    assert handle.progress().running == 0
    until(lambda: bool(provider.batches()))
    provider.plan(hold=False)
    results = handle.result()
    handed_in, over = notes(store, results)
    assert handed_in.startswith(f"{provider.name}: 3 calls handed in as batch ")
    assert "3 of 3 calls answered" in over
    assert handle.progress().waiting == 0


def test_a_run_goes_on_with_the_batches_of_one_that_was_stopped(provider, handed, store) -> None:
    provider.plan(hold=True)
    first = study(agent=twice(provider), name="s", cases=CASES)
    handle = submit(first, store=store, batch=True, progress=False)
    until(lambda: len(provider.billed()) == 3 and handle.progress().waiting == 3)
    handle.cancel()
    provider.plan(hold=False)
    results = handed(twice(provider), batch=False)
    assert outputs(results) == ["!ab", "!cd", "!ef"]
    assert provider.batches() == [CASES]
    assert sorted(provider.billed()) == sorted([*CASES, "ba!", "dc!", "fe!"])
    assert {call.sends for call in calls(store)} == {1}


@either
def test_one_that_takes_its_time_to_leave_is_not_forgotten(provider, handed, store) -> None:
    """Its batch is over, and its answer there, before it has gone to sleep."""
    provider.plan(turns={"look": [{"status": 403}]})
    handed(once(provider))
    name = provider.name

    def slow(case):  # type: ignore[no-untyped-def]
        try:
            return ask(name, case.input)
        finally:
            threading.Event().wait(0.3)

    assert outputs(handed(slow)) == ["ba", "dc", "fe"]
    assert len(provider.batches()) == 1


@either
def test_whatever_ends_however_everybody_gets_through(provider, handed, store) -> None:
    cases = [f"{n:02}" for n in range(40)]
    name = provider.name

    async def agent(case):  # type: ignore[no-untyped-def]
        said = [case.input]
        for n in range(int(case.input) % 4 + 1):
            replies = await asyncio.gather(
                *(ask_async(name, f"{said[-1]} {n} {m}") for m in range(n % 2 + 1))
            )
            said.append("".join(sorted(reply.text for reply in replies)))
        return said[-1]

    ends = ({"ends": "expired", "times": 1}, {"error": 500, "times": 2}, {"error": 400}, {})
    provider.plan(items={f"{c} 0 0": ends[int(c) % 5] for c in cases if int(c) % 5 < 4})
    results = handed(agent, cases=cases, parallel=7)
    failed = [trial.case_id for trial in results.trials if trial.state.value != "succeeded"]
    assert len(failed) == 8
    assert max(Counter(provider.billed_keys()).values()) == 1
    assert len(provider.billed_keys()) == sum(call.state == "answered" for call in calls(store))


@either
def test_every_send_is_recorded_before_it_is_made(provider, handed, store) -> None:
    provider.plan(items={"cd": {"ends": "expired", "times": 1}})
    results = handed(once(provider))
    events = [record.event for record in store.events(results.run_id)]
    intended = Counter(event.key for event in events if isinstance(event, CallIntended))
    lost = [event.key for event in events if isinstance(event, CallLost)]
    assert all(event.batch for event in events if isinstance(event, CallIntended))
    assert sorted(intended.values()) == [1, 1, 2]
    assert [intended[key] for key in lost] == [2]
    assert set(provider.billed_keys()) <= set(intended)


@either
def test_both_orders_of_a_pair_and_all_of_a_panel_go_in_one_batch(provider, handed) -> None:
    """They wait for the same batch: a day, and not a day for each."""
    name = provider.name
    three = [peira.judge(name, what, repairs=0) for what in ("Right?", "Kind?", "Short?")]
    judges = [peira.pairwise(name, repairs=0), peira.panel(three)]
    results = handed(lambda case: case.input, cases=[(text, "?") for text in CASES], evaluators=judges)
    assert [len(batch) for batch in provider.batches()] == [15]
    assert results.ok
    assert len(results.no_verdicts) == 6  # it says everything backwards, which is no JSON


@either
def test_each_begin_has_its_end_though_attempts_sleep(provider, handed, hooked) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []

    def hear(name: str) -> Any:
        return lambda self, **facts: heard.append((name, facts))

    hooked(type("Listener", (), {name: hear(name) for name in HOOKS})())
    results = handed(twice(provider))
    told = Counter(name for name, _ in heard)
    assert told["trial_began"] == told["trial_ended"] == 3
    assert told["attempt_began"] == told["attempt_ended"]
    assert told["call_began"] == told["call_ended"] == 6
    states = Counter(facts["state"] for name, facts in heard if name == "attempt_ended")
    assert (states["succeeded"], states["waiting"] >= 6) == (len(results.trials), True)
    calls_told = [facts for name, facts in heard if name.startswith("call_")]
    assert {facts["run"] for facts in calls_told} == {results.run_id}
    assert all(facts["batch"] and facts["epoch"] == 0 for facts in calls_told)
