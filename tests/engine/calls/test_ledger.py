"""The ledger: a recorded answer is never bought again, and every send is recorded before it is made."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import peira
from peira import Case, ask, ask_async, run, study
from peira.core.contracts import Attempt
from peira.core.ids import canonical, digest, digest_bytes
from peira.core.log.events import CallAnswered, CallIntended, CallLost, TaskSpec
from peira.core.models import Answer, Model, NamedModel, Reply, Request, Usage
from peira.core.registry import registry
from peira.engine.calls.ledger import Ledger
from peira.engine.calls.purchase import CallRequest
from peira.engine.context import CallSettings, NoCallbacks, RunContext
from peira.errors import CallFailed
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

BILLS: Counter[str] = Counter()
PLANS: dict[str, Any] = {}


class Till:
    """A model that counts what it is paid for. What it does on its n-th send, PLANS says."""

    def __init__(self, model: str) -> None:
        self.name = f"till:{model}"
        self.identity = {"till": model}
        self._plan = PLANS.get(model, lambda n: None)

    def check(self) -> None:
        return None

    async def send(self, request: Request) -> Answer:
        text = str(request.messages[-1]["content"])
        BILLS[text] += 1
        outcome = self._plan(BILLS[text])
        if isinstance(outcome, CallFailed):
            BILLS[text] -= outcome.free
            raise outcome
        if outcome is not None:
            await asyncio.sleep(outcome)
        return Answer(200, json.dumps({"said": text[::-1], "bill": sum(BILLS.values())}).encode(), 0.0)

    def read(self, answer: Answer) -> Reply:
        return Reply(json.loads(answer.body)["said"], model=self.name, usage=Usage(len(answer.body), 1))

    async def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def till() -> Iterator[None]:
    registry.add("model", "till", Till)
    BILLS.clear()
    PLANS.clear()
    yield
    BILLS.clear()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Any]:
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield made
    assert verify(made) == []
    made.close()


def twice(case, model="till:x"):  # type: ignore[no-untyped-def]
    first = ask(model, case.input)
    return ask(model, first.text + "!")


def studied(agent: Any, **more: Any) -> peira.Study:
    return study(**{"agent": agent, "name": "s", "cases": ["ab", "cd"], **more})


def outputs(results: peira.Results) -> list[Any]:
    return [trial.output for trial in results.trials]


def test_a_model_is_a_model() -> None:
    model: Model = Till("x")
    assert model.name == "till:x"


def test_a_reply_counts_as_its_text_and_its_tokens_stay_with_the_trial(store: Any) -> None:
    results = run(studied(twice), store=store, progress=False)
    assert outputs(results) == ["!ab", "!cd"]
    assert results.trials[0].metrics["calls"] == 2
    assert results.trials[0].metrics["output_tokens"] == 2


def test_an_edited_agent_replays_the_calls_that_did_not_change(store: Any) -> None:
    run(studied(twice), store=store, progress=False)
    paid = dict(BILLS)

    def edited(case, model="till:x"):  # type: ignore[no-untyped-def]
        first = ask(model, case.input)
        return ask(model, first.text + "!").text.upper()

    assert outputs(run(studied(edited), store=store, progress=False)) == ["!AB", "!CD"]
    assert dict(BILLS) == paid


def test_a_changed_request_is_a_new_call(store: Any) -> None:
    run(studied(twice), store=store, progress=False)

    def changed(case, model="till:x"):  # type: ignore[no-untyped-def]
        first = ask(model, case.input)
        return ask(model, first.text + "?")

    assert outputs(run(studied(changed), store=store, progress=False)) == ["?ab", "?cd"]
    assert BILLS == {"ab": 1, "cd": 1, "ba!": 1, "dc!": 1, "ba?": 1, "dc?": 1}


def test_repeats_conditions_and_generations_never_share_an_answer(store: Any) -> None:
    def one(case, model, heat):  # type: ignore[no-untyped-def]
        return ask(model, case.input, temperature=0)

    levels = {"model": ["till:x"], "heat": [1, 2]}
    asked = studied(one, cases=["ab"], factors=levels, repeats=3)
    run(asked, store=store, progress=False)
    assert BILLS["ab"] == 6
    run(asked, store=store, progress=False, fresh=True)
    assert BILLS["ab"] == 12


def test_equal_requests_in_a_trial_are_told_apart_by_order_or_by_key(store: Any) -> None:
    def thrice(case):  # type: ignore[no-untyped-def]
        return [
            ask("till:x", "same").text,
            ask("till:x", "same").text,
            ask("till:x", "same", key="third").text,
        ]

    run(studied(thrice, cases=["ab"]), store=store, progress=False)
    assert BILLS["same"] == 3


def test_another_study_that_needs_the_same_call_gets_the_recorded_answer(store: Any) -> None:
    run(studied(twice), store=store, progress=False)
    paid = dict(BILLS)
    other = studied(twice, name="another", cases=[Case("ab"), Case("ef")])
    run(other, store=store, progress=False)
    assert BILLS - Counter(paid) == {"ef": 1, "fe!": 1}


def test_async_agents_ask_without_blocking_their_loop(store: Any) -> None:
    PLANS["slow"] = lambda n: 0.2
    together = []

    async def waits(case):  # type: ignore[no-untyped-def]
        reply = await ask_async("till:slow", case.input)
        together.append(threading.active_count())
        return reply

    cases = [str(i) for i in range(8)]
    results = run(studied(waits, cases=cases), store=store, parallel=8, progress=False)
    assert outputs(results) == cases
    assert results.trials[0].took < 8 * 0.2


@pytest.mark.parametrize("kind", ["free", "doubt"])
def test_a_send_that_failed_is_made_again_and_recorded_first(store: Any, kind: str) -> None:
    flaky = Counter[str]()

    def once(n: int) -> CallFailed | None:
        flaky["n"] += 1
        return CallFailed("busy", **{kind: True}, retry_after=0.001) if flaky["n"] == 1 else None

    PLANS["x"] = once
    results = run(studied(lambda case: ask("till:x", case.input), cases=["ab"]), store=store, progress=False)
    assert outputs(results) == ["ba"]
    events = [record.event for record in store.events(results.run_id)]
    sends = [event.send for event in events if isinstance(event, CallIntended)]
    lost = [event.doubt for event in events if isinstance(event, CallLost)]
    assert (sends, lost) == ([1, 2], [kind == "doubt"])
    assert BILLS["ab"] <= 1 + lost.count(True)


def test_a_call_in_doubt_can_be_held_and_is_never_sent_again(store: Any) -> None:
    PLANS["x"] = lambda n: CallFailed("reset by peer", doubt=True)
    held = studied(twice, cases=["ab"], policy={"in_doubt": "hold"})
    for _ in range(3):
        results = run(held, store=store, progress=False)
        assert [trial.state.value for trial in results.trials] == ["in_doubt"]
        assert not results.ok
    assert BILLS["ab"] == 1


def test_what_will_not_help_is_not_sent_again(store: Any) -> None:
    PLANS["x"] = lambda n: CallFailed("no such model", status=404)
    results = run(studied(twice, cases=["ab"]), store=store, progress=False)
    assert [row.failure.message for row in results.failures if row.failure] == ["no such model"]
    assert BILLS["ab"] == 1


def test_an_unknown_model_is_one_clear_line(store: Any) -> None:
    results = run(studied(twice, factors={"model": ["tlil:x", "till"]}), store=store, progress=False)
    messages = {row.failure.message for row in results.failures if row.failure}
    assert any("did you mean 'till'" in message for message in messages)
    assert any("write provider:name" in message for message in messages)


def test_an_answer_that_comes_after_the_timeout_is_recorded_and_used_later(store: Any) -> None:
    PLANS["x"] = lambda n: 1.0
    late = studied(lambda case: ask("till:x", case.input), cases=["ab"], policy={"timeout": 0.3})
    first = run(late, store=store, progress=False)
    assert [row.failure.type for row in first.failures if row.failure] == ["TimedOut"]
    kinds = [type(record.event) for record in store.events(first.run_id)]
    assert kinds.count(CallAnswered) == 1
    assert outputs(run(late, store=store, progress=False)) == ["ba"]
    assert BILLS["ab"] == 1


def test_a_model_that_is_slow_to_be_made_holds_up_no_other() -> None:
    """Models are made by anybody's code: it runs under no lock but one of that name."""
    making, free, made = threading.Event(), threading.Event(), []

    def make(name: str) -> NamedModel:
        made.append(name)
        if name == "slow":
            making.set()
            assert free.wait(30)
        return NamedModel(name, Till(name))

    request = Request(({"role": "user", "content": "hello"},))
    body = canonical(msgspec.to_builtins(request))
    attempt: Any = Attempt(TaskSpec(digest("t"), "generate", "generate"), 1, None)
    asked = CallRequest(attempt, "scope", "generate", "1", request, body, digest_bytes(body))
    ledger = Ledger(RunContext("r", "1", MemoryStore()), CallSettings(make), NoCallbacks())
    slow = [threading.Thread(target=ledger.ask, args=("slow", asked)) for _ in range(2)]
    for thread in slow:
        thread.start()
    assert making.wait(10)
    quick = threading.Thread(target=ledger.ask, args=("quick", asked))
    quick.start()
    quick.join(10)
    assert not quick.is_alive()
    free.set()
    for thread in slow:
        thread.join(10)
    ledger.close()
    assert sorted(made) == ["quick", "slow"]
