"""Batches in both forms: what is handed in, what comes back, and what each ending means for the bill."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from peira.core.models import Answer, Batches, Request
from peira.errors import CallFailed
from peira.models import anthropic, openai
from peira.models.http.model import ServedModel

CANARY = "canary-7f3a91c2-key-0b5d"
MAKE = {"openai": openai, "anthropic": anthropic}
KEYS = [f"{n:064x}" for n in range(6)]


@pytest.fixture
def model(provider) -> ServedModel:
    return MAKE[provider.form](provider.model)


def asks(*said: str, **parameters: Any) -> dict[str, Request]:
    return {
        key: Request(({"role": "user", "content": text},), parameters=parameters)
        for key, text in zip(KEYS, said, strict=False)
    }


def doing(model: ServedModel, *steps: Any) -> list[Any]:
    """What each step brings, on one event loop: a value, or the failure."""

    async def all_of_them() -> list[Any]:
        found = []
        for step in steps:
            try:
                found.append(await step(model.batches, *found[:1]))
            except CallFailed as problem:
                found.append(problem)
        await model.close()
        return found

    return asyncio.run(all_of_them())


def handing_in(*said: str, **parameters: Any) -> Any:
    return lambda batches: batches.submit("a label", asks(*said, **parameters))


async def looking(batches: Batches, name: str) -> Any:
    return await batches.look(name)


async def collecting(batches: Batches, name: str) -> Any:
    return await batches.collect(name)


def collected(model: ServedModel, *said: str) -> dict[str, Answer | CallFailed]:
    return doing(model, handing_in(*said), looking, collecting)[2]


def test_answers_come_back_under_the_keys_of_their_requests(provider, model) -> None:
    name, state, found = doing(model, handing_in("one", "two", "three"), looking, collecting)
    assert name == provider.log()["batches"][0]["id"]
    assert (state.over, state.done, state.total, state.failure) == (True, 3, 3, "")
    assert {key: model.read(answer).text for key, answer in found.items()} == {
        KEYS[0]: "eno",
        KEYS[1]: "owt",
        KEYS[2]: "eerht",
    }
    assert model.read(found[KEYS[0]]).usage.input == 10
    order = [item["said"] for item in provider.log()["batches"][0]["items"]]
    assert provider.billed_keys() == KEYS[:3]
    assert sorted(order) == ["one", "three", "two"]


def test_what_is_said_in_a_batch_is_what_is_said_alone(provider, model) -> None:
    doing(
        model,
        handing_in("one", max_tokens=7),
        lambda batches, _: model.send(asks("one", max_tokens=7)[KEYS[0]]),
    )
    headers = provider.log()["headers"]
    own = {"authorization", "x-api-key", "anthropic-version"}
    assert {json.dumps({n: v for n, v in h.items() if n in own}, sort_keys=True) for h in headers} == {
        json.dumps({n: v for n, v in headers[0].items() if n in own}, sort_keys=True)
    }


def test_a_batch_is_not_over_before_it_is(provider, model) -> None:
    provider.plan(slow=1)
    _, first, second = doing(model, handing_in("one", "two"), looking, looking)
    assert (first.over, first.done, first.total, first.said) == (False, 0, 2, "in_progress")
    assert (second.over, second.done) == (True, 2)


def test_what_was_not_worked_on_is_left_out(provider, model) -> None:
    provider.plan(items={"late": {"ends": "expired"}})
    found = collected(model, "one", "late")
    assert list(found) == KEYS[:1]
    assert provider.billed() == ["one"]


def test_what_somebody_cancelled_is_not_handed_in_again(provider, model) -> None:
    provider.plan(items={"stop": {"ends": "cancelled"}})
    found = collected(model, "one", "stop")
    assert isinstance(found[KEYS[0]], Answer)
    problem = found[KEYS[1]]
    assert isinstance(problem, CallFailed)
    assert "cancelled" in str(problem)
    assert not problem.free
    assert not problem.doubt


@pytest.mark.parametrize(
    ("status", "kind", "free"),
    [
        (400, "invalid_request_error", False),
        (404, "not_found_error", False),
        (413, "request_too_large", False),
        (429, "rate_limit_error", True),
        (500, "api_error", True),
        (529, "overloaded_error", True),
    ],
)
def test_an_errored_request_costs_nothing(provider, model, status, kind, free) -> None:
    problem_of = status if provider.form == "openai" else kind
    provider.plan(items={"bad": {"error": problem_of, "message": f"no good, {CANARY}"}})
    problem = collected(model, "bad", "good")[KEYS[0]]
    assert isinstance(problem, CallFailed)
    assert (problem.free, problem.doubt, problem.status) == (free, False, status)
    assert f"{status}: no good" in str(problem)
    assert len(str(problem).splitlines()) == 1
    assert CANARY not in str(problem)
    assert provider.billed() == ["good"]


def test_a_request_that_cannot_be_said_is_found_before_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:1")
    batches = anthropic("m").batches
    with pytest.raises(CallFailed, match="no parameter 'seed'"):
        batches.check(asks("one", seed=3)[KEYS[0]])
    batches.check(asks("one")[KEYS[0]])


@pytest.mark.parametrize("turn", [{"status": 500}, {"do": "reset"}, {"do": "garbage"}])
def test_a_batch_that_may_have_been_taken_is_in_doubt(provider, model, turn) -> None:
    provider.plan(turns={"submit": [{**turn, "taken": True}]})
    [problem] = doing(model, handing_in("one"))
    assert isinstance(problem, CallFailed)
    assert problem.doubt
    assert provider.billed() == ["one"]


@pytest.mark.parametrize(
    ("status", "free"), [(404, False), (400, False), (401, False), (429, True), (503, True)]
)
def test_a_batch_that_was_refused_was_not_taken(provider, model, status, free) -> None:
    provider.plan(turns={"submit": [{"status": status, "headers": {"retry-after": "3"}}]})
    [problem] = doing(model, handing_in("one"))
    assert (problem.free, problem.doubt, problem.status) == (free, False, status)
    assert problem.retry_after == (3 if free else None)
    assert provider.batches() == []


@pytest.mark.parametrize("form", ["openai", "anthropic"])
def test_without_the_key_nothing_is_taken_and_the_key_is_not_told(
    provider, model, form, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = f"{CANARY}-of-somebody-else"
    monkeypatch.setenv("OPENAI_API_KEY", wrong)
    monkeypatch.setenv("ANTHROPIC_API_KEY", wrong)
    [problem] = doing(model, handing_in("one"))
    assert problem.status == 401
    assert CANARY not in str(problem)


@pytest.mark.parametrize("turn", [{"do": "garbage"}, {"status": 503}])
def test_a_look_that_fails_says_so(provider, model, turn) -> None:
    provider.plan(turns={"look": [turn]})
    _, problem, state = doing(model, handing_in("one"), looking, looking)
    assert isinstance(problem, CallFailed)
    assert state.over


# OpenAI's form alone

openai_alone = pytest.mark.parametrize("provider", ["openai"], indirect=True)


@openai_alone
@pytest.mark.parametrize("turn", [{"status": 500}, {"do": "reset"}])
def test_a_file_costs_nothing_whatever_became_of_it(provider, model, turn) -> None:
    provider.plan(turns={"upload": [turn]})
    problem, name = doing(model, handing_in("one"), lambda batches, _: batches.submit("x", asks("one")))
    assert (problem.free, problem.doubt) == (True, False)
    assert isinstance(name, str)


@openai_alone
def test_a_batch_is_found_by_its_label_on_whatever_page(provider, model) -> None:
    async def more(batches: Batches, first: str) -> str:
        for n in range(7):
            await batches.submit(f"another {n}", asks("two"))
        return await batches.find("a label")

    name, found, nothing = doing(model, handing_in("one"), more, lambda batches, _: batches.find("no such"))
    assert (found, nothing) == (name, "")


@openai_alone
def test_why_a_whole_batch_failed(provider, model) -> None:
    provider.plan(whole={"status": "failed", "code": "invalid_model", "message": "no such model here"})
    _, state, found = doing(model, handing_in("one"), looking, collecting)
    assert (state.over, state.said, state.failure, state.busy) == (
        True,
        "failed",
        "no such model here",
        False,
    )
    assert found == {}
    provider.plan(whole={"status": "failed", "code": "token_limit_exceeded", "message": "too much"})
    assert doing(model, handing_in("one"), looking)[1].busy
    provider.plan(whole={"status": "cancelled"})
    assert "cancelled" in doing(model, handing_in("one"), looking)[1].failure


@openai_alone
def test_the_responses_form_and_deployments_have_their_own_places(provider) -> None:
    [name] = doing(openai(provider.model, form="responses", base_url=f"{provider.base}/v1"), handing_in("x"))
    assert name == provider.log()["batches"][0]["id"]
    azure = openai("mine", base_url=provider.base, api_version="2024-10-21", key="OPENAI_API_KEY")
    [problem] = doing(azure, handing_in("one"))
    assert "/openai/files: 404" in str(problem)
    assert problem.status == 404


@pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
def test_without_labels_nothing_can_be_found(provider, model) -> None:
    _, problem = doing(model, handing_in("one"), lambda batches, _: batches.find("a label"))
    assert isinstance(problem, CallFailed)
    assert (problem.free, problem.doubt) == (False, False)
