"""What goes wrong with a whole batch is told in one line, and nobody is left waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, run, study
from peira.core.models import Answer, BatchState, Reply, Request
from peira.core.registry import registry
from peira.errors import Invalid

from .conftest import (
    CASES,
    KEY,
    anthropic_alone,
    calls,
    either,
    failures,
    notes,
    once,
    openai_alone,
    outputs,
)


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
