"""What goes wrong with one call of a batch concerns no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira import ask

from .conftest import (
    CASES,
    anthropic_alone,
    calls,
    either,
    failures,
    once,
    outputs,
)


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


ODD_LINES = {
    "types": '{"custom_id": "KEY", "response": {"status_code": "200", "body": {}}, "result": 7}',
    "cut": '{"custom_id": "KEY", "response": {"status_code": 200, "body": {"choices": [',
    "deep": '{"x": ' + "[" * 5000 + "]" * 5000 + ', "custom_id": "KEY"}',
    "separator": '{"custom_id": "KEY", "result": "\\u2028"}',
}


@pytest.mark.parametrize("line", ODD_LINES)
def test_a_line_that_cannot_be_read_costs_that_line(provider, handed, store, line) -> None:
    provider.plan(items={"cd": {"line": ODD_LINES[line]}})
    results = handed(once(provider))
    assert outputs(results) == ["ba", None, "fe"]
    [said] = failures(results)
    assert "\n" not in said
    assert "an answer " in said
    assert provider.billed() == CASES
    assert outputs(handed(once(provider))) == ["ba", None, "fe"]
    assert provider.billed() == sorted([*CASES, "cd"])  # a later run asks again, once
    assert [call.state for call in calls(store)] == ["answered"] * 3


def test_each_retry_asks_once_more_for_what_cannot_be_read(provider, handed) -> None:
    """The attempt that woke up to such an answer asked for it again, and again."""
    provider.plan(items={"cd": {"strange": True}})
    results = handed(once(provider), policy={"retries": 2, "backoff": 0})
    assert outputs(results) == ["ba", None, "fe"]
    assert [len(batch) for batch in provider.batches()] == [3, 1, 1]


def test_a_line_that_does_not_say_whose_it_is_leaves_the_others_answered(provider, handed, store) -> None:
    provider.plan(items={"cd": {"line": "not even JSON"}})
    results = handed(once(provider), policy={"in_doubt": "hold"})
    assert outputs(results) == ["ba", None, "fe"]
    assert [call.state for call in calls(store)].count("in_doubt") == 1
    assert provider.billed() == CASES
