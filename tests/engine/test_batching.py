"""Calls in batches: handed in together, answered later, never bought twice, and nobody is left waiting."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, ask_async, run, study, submit
from peira.core.contracts import CallQuery
from peira.core.events import CallIntended, CallLost, RunNoted
from peira.core.models import Answer, BatchState, Reply, Request
from peira.core.registry import HOOKS, registry
from peira.errors import Invalid
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

PRICE = '[models."{name}"]\nprice = {{input = 200.0, output = 400.0}}\n'
FULL = (10 * 200.0 + 5 * 400.0) / 1_000_000
"""What a call costs by itself: the endpoint counts 10 tokens in and 5 out."""
KEY = "canary-7f3a91c2-key-0b5d"
CASES = ["ab", "cd", "ef"]
openai_alone = pytest.mark.parametrize("provider", ["openai"], indirect=True)
anthropic_alone = pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
either = openai_alone
"""What does not depend on the form is shown in one."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    made = SqliteStore(tmp_path / "s.db")
    yield made
    assert verify(made) == []
    made.close()


Hand = Callable[..., peira.Results]


@pytest.fixture
def handed(store: Any) -> Hand:
    """Run a study with its calls in batches."""

    def hand(agent: Any, batch: bool = True, **more: Any) -> peira.Results:
        wishes = {name: more.pop(name) for name in ("policy", "parallel", "runner", "fresh") if name in more}
        asked = study(**{"agent": agent, "name": "s", "cases": CASES, **more})
        return run(asked, store=store, progress=False, batch=batch, **wishes)

    return hand


def outputs(results: peira.Results) -> list[Any]:
    return [trial.output for trial in results.trials]


def failures(results: peira.Results) -> list[str]:
    return [row.failure.message for row in results.failures if row.failure]


def calls(store: Any) -> list[Any]:
    return list(store.calls(CallQuery(limit=1000)))


def notes(store: Any, results: peira.Results) -> list[str]:
    events = (record.event for record in store.events(results.run_id))
    return [event.text for event in events if isinstance(event, RunNoted)]


def once(provider: Any) -> Any:
    name = provider.name
    return lambda case: ask(name, case.input)


def twice(provider: Any) -> Any:
    name = provider.name

    def agent(case):  # type: ignore[no-untyped-def]
        return ask(name, ask(name, case.input).text + "!")

    return agent


# What comes of it


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


# What goes wrong with one of them


def test_an_errored_call_fails_its_trial_and_no_other(provider, handed, store) -> None:
    wrong = 400 if provider.form == "openai" else "invalid_request_error"
    provider.plan(items={"cd": {"error": wrong, "message": "no such thing"}})
    results = handed(once(provider), policy={"retries": 2, "backoff": 0})
    assert outputs(results) == ["ba", None, "fe"]
    [line] = failures(results)
    assert "400: no such thing" in line
    assert provider.billed() == ["ab", "ef"]
    assert [len(batch) for batch in provider.batches()] == [3]
    provider.plan(items={})
    assert outputs(handed(once(provider))) == ["ba", "dc", "fe"]
    assert provider.billed() == CASES


@pytest.mark.parametrize("end", ["expired", "failing"])
def test_a_call_that_was_not_worked_on_is_handed_in_again(provider, handed, store, end) -> None:
    broken = 500 if provider.form == "openai" else "api_error"
    ends = {"ends": "expired"} if end == "expired" else {"error": broken}
    provider.plan(items={"cd": {**ends, "times": 2}})
    results = handed(once(provider))
    assert outputs(results) == ["ba", "dc", "fe"]
    assert [len(batch) for batch in provider.batches()] == [3, 1, 1]
    assert provider.billed() == CASES
    assert max(call.sends for call in calls(store)) == 3


@either
def test_what_always_expires_is_given_up(provider, handed) -> None:
    provider.plan(items={"cd": {"ends": "expired"}})
    results = handed(once(provider), policy={"call_tries": 3})
    assert failures(results) == ["its batch ended before it was worked on"]
    assert [len(batch) for batch in provider.batches()] == [3, 1, 1]


def test_what_was_cancelled_at_the_provider_is_not_handed_in_again(provider, handed) -> None:
    provider.plan(items={"cd": {"ends": "cancelled"}})
    [line] = failures(handed(once(provider)))
    assert "cancelled" in line
    assert len(provider.batches()) == 1


def test_an_answer_that_cannot_be_read_fails_its_trial_and_is_kept(provider, handed, store) -> None:
    provider.plan(items={"cd": {"strange": True}})
    results = handed(once(provider))
    assert len(failures(results)) == 1
    assert {call.state for call in calls(store)} == {"answered"}


@anthropic_alone
def test_a_request_that_cannot_be_said_fails_its_own_trial(provider, handed) -> None:
    name = provider.name

    def agent(case):  # type: ignore[no-untyped-def]
        return ask(name, case.input, **({"seed": 1} if case.input == "cd" else {}))

    results = handed(agent)
    assert outputs(results) == ["ba", None, "fe"]
    assert "no parameter 'seed'" in failures(results)[0]
    assert provider.batches() == [["ab", "ef"]]


@either
def test_a_model_that_fails_is_replaced_by_its_fallback(provider, handed, store) -> None:
    other = f"{provider.model}-b"
    Path("peira.toml").write_text(
        f'[models.main]\nmodel = "{provider.name}"\nfallbacks = ["{provider.form}:{other}"]\n'
    )
    wrong = 400 if provider.form == "openai" else "invalid_request_error"
    provider.plan(items={"cd": {"error": wrong}})
    results = handed(lambda case: ask("main", case.input))
    assert outputs(results) == ["ba", "dc", "fe"]
    assert results.trials[1].about["served"] == f"{provider.form}:{other}"
    assert provider.billed() == ["ab", "ef"]
    assert type(provider)(provider.base, other, provider.form).billed() == ["cd"]


# What goes wrong with all of them


def test_an_endpoint_without_batches_is_one_clear_line(provider, handed, store) -> None:
    provider.plan(turns={"submit": [{"status": 404, "message": "no such path"}]})
    results = handed(once(provider))
    assert len(set(failures(results))) == 1
    assert "404: no such path" in failures(results)[0]
    assert (provider.asked("submit"), len(failures(results))) == (1, 3)
    assert {call.state for call in calls(store)} == {"lost"}
    assert results.counts["batches failed"] == 1
    assert outputs(handed(once(provider))) == ["ba", "dc", "fe"]


def test_the_key_is_nowhere_whatever_the_provider_says(provider, handed, store, capfd) -> None:
    wrong = 400 if provider.form == "openai" else "invalid_request_error"
    provider.plan(items={"cd": {"error": wrong, "message": f"your key is {KEY}"}})
    provider.plan(turns={"submit": [{"status": 503, "message": KEY, "headers": {"retry-after": "0"}}]})
    provider.plan(turns={"look": [{"status": 503, "message": f"still {KEY}"}]})
    results = handed(once(provider))
    assert "your key is" in failures(results)[0]
    assert KEY not in repr(results.failures)
    kept = [file.read_bytes() for file in Path().rglob("*") if file.is_file()]
    assert not any(KEY.encode() in data for data in kept)
    assert KEY not in "".join(capfd.readouterr())


def test_a_model_without_batches_is_refused_before_anything_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = study(
        agent=lambda case, model: ask(model, case.input),
        name="s",
        cases=CASES,
        factors={"model": ["scripted:", "openai:x"]},
    )
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with pytest.raises(Invalid) as refusal:
        run(both, store="s.db", batch=True, progress=False)
    assert refusal.value.problems == ("scripted: has no batch endpoint; run without --batch",)
    assert not Path("s.db").exists()


def test_a_model_without_batches_that_nobody_saw_coming_fails_its_trials(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    hidden = study(agent=lambda case: ask("".join(["scripted", ":"]), case.input), name="s", cases=["ab"])
    assert failures(run(hidden, store="s.db", batch=True, progress=False)) == [
        "scripted: has no batch endpoint; run without --batch"
    ]


@either
def test_judges_without_batches_do_not_stand_in_the_way_of_generation(provider, store) -> None:
    class Judge:
        models = ("scripted:",)

        def __call__(self, output):  # type: ignore[no-untyped-def]
            return bool(ask("scripted:", output))

    asked = study(agent=once(provider), name="s", cases=CASES, evaluators=[Judge()])
    generated = peira.generate(asked, store=store, progress=False, batch=True)
    assert outputs(generated) == ["ba", "dc", "fe"]


def test_a_provider_that_is_busy_is_asked_again(provider, handed, store) -> None:
    provider.plan(turns={"submit": [{"status": 503, "headers": {"retry-after": "0"}}] * 2})
    results = handed(once(provider))
    assert outputs(results) == ["ba", "dc", "fe"]
    assert provider.asked("submit") == 3
    assert {call.sends for call in calls(store)} == {1}


@openai_alone
def test_a_provider_that_takes_less_at_once_gets_less(provider, handed) -> None:
    limit = {
        "status": "failed",
        "code": "token_limit_exceeded",
        "message": "enqueued token limit",
        "above": 2,
    }
    provider.plan(whole=limit)
    results = handed(once(provider), cases=[str(n) for n in range(9)])
    assert results.ok
    assert sorted(provider.billed()) == [str(n) for n in range(9)]
    assert max(len(batch["items"]) for batch in provider.log()["batches"] if not batch["whole"]) <= 2


@openai_alone
@pytest.mark.parametrize("code", ["token_limit_exceeded", "invalid_model"])
def test_a_batch_that_always_fails_fails_its_trials(provider, handed, code) -> None:
    provider.plan(whole={"status": "failed", "code": code, "message": "not with us"})
    results = handed(once(provider), cases=["ab", "cd"])
    assert failures(results) == ["not with us"] * 2
    assert len(provider.batches()) <= 4


@openai_alone
@pytest.mark.parametrize("policy", ["resend", "hold"])
def test_a_batch_that_was_taken_without_a_word_is_found_again(provider, handed, store, policy) -> None:
    provider.plan(turns={"submit": [{"do": "reset", "taken": True}]})
    results = handed(once(provider), policy={"in_doubt": policy})
    assert outputs(results) == ["ba", "dc", "fe"]
    assert provider.billed() == CASES
    assert {call.sends for call in calls(store)} == {1}


@anthropic_alone
def test_a_batch_that_cannot_be_found_again_is_in_doubt(provider, handed, store) -> None:
    provider.plan(turns={"submit": [{"do": "reset", "taken": True}]})
    held = handed(once(provider), policy={"in_doubt": "hold"})
    assert {trial.state.value for trial in held.trials} == {"in_doubt"}
    assert {call.state for call in calls(store)} == {"in_doubt"}
    assert provider.billed() == CASES
    again = handed(once(provider), policy={"in_doubt": "hold"})
    assert {trial.state.value for trial in again.trials} == {"in_doubt"}
    assert provider.billed() == CASES
    assert outputs(handed(once(provider))) == ["ba", "dc", "fe"]
    sends = [call.sends for call in calls(store)]
    assert len(provider.billed()) <= sum(sends)
    assert sends == [2, 2, 2]


def test_a_batch_that_is_gone_is_in_doubt(provider, handed, store) -> None:
    provider.plan(turns={"look": [{"status": 404, "message": "no such batch"}]})
    results = handed(once(provider), policy={"in_doubt": "hold"})
    assert {trial.state.value for trial in results.trials} == {"in_doubt"}
    assert "no such batch" in calls(store)[0].why


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


@either
def test_a_look_that_fails_is_made_again(provider, handed, store) -> None:
    provider.plan(turns={"look": [{"status": 503}], "results": [{"status": 500}]})
    results = handed(once(provider))
    assert outputs(results) == ["ba", "dc", "fe"]
    assert provider.billed() == CASES
    assert sum("cannot be looked at" in note for note in notes(store, results)) == 1


@either
def test_a_batch_that_we_may_not_look_at_is_left_for_later(provider, handed, store) -> None:
    provider.plan(turns={"look": [{"status": 403, "message": "not yours"}]})
    results = handed(once(provider))
    assert all("403: not yours" in line for line in failures(results))
    assert {call.state for call in calls(store)} == {"intended"}
    assert outputs(handed(once(provider), batch=False)) == ["ba", "dc", "fe"]
    assert provider.billed() == CASES


class Odd:
    """A model whose batches do what nobody expects of them."""

    def __init__(self, model: str) -> None:
        self.name, self.identity, self.batches = f"odd:{model}", {"odd": model}, self

    def check(self, request: Request | None = None) -> None:
        return None

    async def submit(self, label: str, requests: Any) -> str:
        return "name"

    async def look(self, batch: str) -> BatchState:
        raise ZeroDivisionError("a defect")

    def read(self, answer: Answer) -> Reply:
        return Reply("")

    async def close(self) -> None:
        return None


def test_a_defect_ends_the_run_and_leaves_nobody_waiting(store) -> None:
    registry.add("model", "odd", Odd)
    with pytest.raises(ZeroDivisionError):
        run(
            study(agent=lambda case: ask("odd:x", case.input), name="s", cases=["ab"]),
            store=store,
            batch=True,
        )


# Money


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
    _until(lambda: {call.state for call in calls(store)} == {"answered", "intended"})
    _until(lambda: handle.progress().waiting == 1)
    slow.plan(hold=False)
    assert [trial.state.value for trial in handle.result().trials] == ["exhausted"]
    assert (provider.billed(), slow.billed()) == (["x"], ["y"])


def test_what_is_in_an_open_batch_counts(provider, handed, store) -> None:
    """A run that goes on may not spend what an earlier one has handed in."""
    provider.plan(hold=True)
    cases = [f"case {n}" for n in range(8)]
    few = study(agent=once(provider), name="s", cases=cases[:5], budget={"calls": 7})
    begun = submit(few, store=store, batch=True, progress=False)
    _until(lambda: len(provider.billed()) == 5)
    begun.cancel()
    assert begun.result().status == "cancelled"
    many = study(agent=once(provider), name="s", cases=cases, budget={"calls": 7})
    going_on = submit(many, store=store, batch=True, progress=False)
    _until(lambda: len(provider.billed()) == 7)
    provider.plan(hold=False)
    results = going_on.result()
    assert (results.status, results.counts["succeeded"]) == ("stopped by a limit", 7)
    assert len(provider.billed()) == 7


# While it waits


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


def _until(true: Callable[[], bool]) -> None:
    while not true():
        threading.Event().wait(0.02)


@either
def test_people_see_what_is_waited_for(provider, store) -> None:
    provider.plan(hold=True)
    handle = submit(
        study(agent=once(provider), name="s", cases=CASES), store=store, batch=True, progress=False
    )
    _until(lambda: handle.progress().waiting == 3)
    assert handle.progress().running == 0
    _until(lambda: bool(provider.batches()))
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
    _until(lambda: len(provider.billed()) == 3 and handle.progress().waiting == 3)
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
