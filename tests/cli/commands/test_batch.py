"""`peira run --batch` and `peira batch`: stopped or killed anywhere, nothing is lost or bought twice."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest

STUDY = """
from peira import ask, study

@study(cases=["ab", "cd", "ef"])
def asking(case):
    return ask("MODEL", ask("MODEL", case.input).text + "!").text
"""
KEY = "canary-7f3a91c2-key-0b5d"
OUTPUTS = ["!ab", "!cd", "!ef"]
BOTH = sorted(["ab", "cd", "ef", "ba!", "dc!", "fe!"])
PRICE = '[models."{name}"]\nprice = {{input = 200.0, output = 400.0}}\n'
FULL = (10 * 200.0 + 5 * 400.0) / 1_000_000
openai_alone = pytest.mark.parametrize("provider", ["openai"], indirect=True)


@pytest.fixture(autouse=True)
def asking(folder: Path, provider) -> None:
    (folder / "asking.py").write_text(STUDY.replace("MODEL", provider.name))


@pytest.fixture
def killed(ended, monkeypatch):
    """Run until the plug is pulled at this place."""

    def run(point: str) -> None:
        monkeypatch.setenv("PEIRA_FAILPOINT", point)
        assert ended("run", "asking.py", "--batch").code == -9
        monkeypatch.delenv("PEIRA_FAILPOINT")

    return run


@pytest.fixture
def waiting(spawn, provider):
    """A run in a process of its own that waits for its first batch."""
    provider.plan(hold=True)
    process = spawn("run", "asking.py", "--batch")
    while not provider.asked("look"):
        time.sleep(0.02)
    return process


@pytest.fixture
def left_open(peira, provider) -> None:
    """A batch that was handed in, and could not be looked at."""
    provider.plan(turns={"look": [{"status": 403}]})
    assert peira("run", "asking.py", "--batch").code == 1


def check(peira, provider, store: str, billed_before: int = 0, sends_before: int = 0) -> None:
    """The study is done, the store is sound, and no bill is without a recorded send."""
    shown = peira("show", "--trials", "--json", "--store", store)
    assert sorted(trial["output"] for trial in shown.document["trials"]) == OUTPUTS
    assert peira("verify", "--store", store).out.endswith("sound\n")
    calls = peira("calls", "--json", "--store", store).document["calls"]
    assert {call["state"] for call in calls} == {"answered"}
    assert len(calls) == 6
    assert len(provider.billed()) - billed_before <= sum(call["sends"] for call in calls) - sends_before


def test_a_run_with_batches_says_what_it_does(peira, provider):
    Path("peira.toml").write_text(PRICE.format(name=provider.name))
    done = peira("run", "asking.py", "--batch", "--json")
    assert (done.code, done.document["status"]) == (0, "completed")
    assert done.document["counts"] == {"planned": 3, "succeeded": 3, "batches": 2}
    assert done.document["spent"]["money"] == pytest.approx(6 * FULL / 2)
    assert done.err.count("3 calls handed in as batch") == 2
    assert "3 of 3 calls answered" in done.err
    again = peira("run", "asking.py")
    assert (again.code, "3 trials: 0 new, 3 reused" in again.out) == (0, True)
    assert provider.billed() == BOTH
    check(peira, provider, ".peira/peira.db")
    assert peira("batch").out == "no batches are open\n"
    assert peira("batch", "collect", "--json").document == {"batches": []}


def test_calls_in_batches_are_in_the_log(peira, provider, folder):
    (folder / "peira.toml").write_text(PRICE.format(name=provider.name))
    assert peira("run", "asking.py", "--batch", "--log", "l.jsonl").code == 0
    lines = [json.loads(line) for line in (folder / "l.jsonl").read_text().splitlines()]
    handed = {line["key"]: line["batch"] for line in lines if line["kind"] == "call.intended"}
    answered = [line for line in lines if line["kind"] == "call.answered"]
    assert sorted(handed) == sorted(line["key"] for line in answered) == provider.billed_keys()
    assert len(set(handed.values())) == 2
    read = [line for line in lines if line["kind"] == "call.read"]
    assert sorted(line["key"] for line in read) == sorted(handed)
    assert {(line["input"], line["output"]) for line in read} == {(10, 5)}
    assert [line["cost"] for line in read] == [pytest.approx(FULL / 2)] * 6


def test_an_estimate_says_what_calls_in_batches_cost(peira, provider, folder):
    (folder / "peira.toml").write_text(PRICE.format(name=provider.name))
    tokens = ["--assume", "calls=2", "--assume", "input_tokens=10", "--assume", "output_tokens=5"]
    alone = peira("estimate", "asking.py", *tokens, "--json").document
    batched = peira("estimate", "asking.py", "--batch", *tokens, "--json").document
    assert (alone["batch"], batched["batch"]) == (False, True)
    assert alone["cost"]["expected"] == pytest.approx(6 * FULL)
    assert batched["cost"]["expected"] == pytest.approx(6 * FULL / 2)
    assert alone["calls"] == batched["calls"]
    assert (alone["seconds"] is None, batched["seconds"] is None) == (False, True)
    said = f"in batches: {provider.name} at 50% of its price"
    assert said in peira("estimate", "asking.py", "--batch").out.splitlines()
    assert f"  {said}" in peira("plan", "asking.py", "--batch").out.splitlines()
    assert "in batches" not in peira("plan", "asking.py").out


def test_what_was_paid_in_batches_tells_what_both_ways_cost(peira, provider, folder):
    (folder / "peira.toml").write_text(PRICE.format(name=provider.name))
    first = peira("run", "asking.py", "--batch", "--json").document
    assert first["estimate"]["batch"]
    batched = peira("estimate", "asking.py", "--fresh", "--batch", "--json").document
    assert batched["cost"]["expected"] == pytest.approx(6 * FULL / 2)
    assert not [line for line in batched["basis"] if line.startswith("price of")]
    alone = peira("estimate", "asking.py", "--fresh", "--json").document
    assert alone["cost"]["expected"] == pytest.approx(6 * FULL)
    assert alone["seconds"]["expected"] > 1


@pytest.mark.parametrize(
    "point", ["batch.after_intent", "batch.after_submit", "batch.after_submit:2", "ledger.before_answer:2"]
)
def test_killed_at_any_step_it_goes_on(peira, provider, killed, point):
    killed(point)
    billed = len(provider.billed())
    calls = peira("calls", "--json").document["calls"]
    sends = sum(call["sends"] for call in calls)
    assert billed <= sends
    assert {call["status"] for call in calls} <= {"in a batch", "answered"}
    [open_now] = peira("batch", "status", "--json").document["batches"]
    assert (open_now["calls"], open_now["model"]) == (3, provider.name)
    assert peira("resolve", "--json").document["in_doubt"] == []
    for way in ("run --batch", "run", "collect"):
        store = f"{way.replace(' ', '')}/peira.db"
        shutil.copytree(".peira", Path(store).parent)
        now, before = len(provider.billed()), sends if way != "run --batch" else 0
        if way == "collect":
            collected = peira("batch", "collect", "--store", store)
            assert collected.code == 0
            assert "1 batch" in collected.out
            assert peira("batch", "--store", store).out == "no batches are open\n"
        flags = ["--batch"] if way == "run --batch" else []
        assert peira("run", "asking.py", "--store", store, *flags).code == 0
        check(peira, provider, store, now if before else 0, before)


def test_killed_while_it_waits_it_goes_on(peira, provider, waiting):
    waiting.kill()
    waiting.communicate()
    [batch] = peira("batch", "status", "--json").document["batches"]
    assert (batch["over"], batch["said"], batch["done"]) == (False, "in_progress", 0)
    early = peira("batch", "collect")
    assert (early.code, early.out.splitlines()[-1]) == (0, "none is over yet")
    provider.plan(hold=False)
    status = peira("batch", "status")
    assert status.out.splitlines()[-1] == "1 batch over: `peira batch collect` fetches the answers"
    collected = peira("batch", "collect")
    assert collected.out.splitlines()[-1] == "1 batch collected; `peira run` goes on with the answers"
    assert len(provider.batches()) == 1
    assert peira("run", "asking.py", "--batch").code == 0
    assert [len(batch) for batch in provider.batches()] == [3, 3]
    assert provider.billed() == BOTH
    check(peira, provider, ".peira/peira.db")


def test_ctrl_c_while_it_waits_says_how_to_go_on(peira, provider, waiting):
    Path("peira.toml").write_text(PRICE.format(name=provider.name))
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert "handed in and not answered yet: 3 calls; `peira batch status` says where they stand" in said
    assert said.splitlines()[-1] == "peira: interrupted; to go on: peira run asking.py --batch"
    listed = peira("calls")
    assert listed.out.count("in a batch") == 3
    run = peira("runs", "--json").document["runs"][0]["run"]
    provider.plan(hold=False)
    assert peira("batch", "collect").code == 0
    spent = peira("status", run, "--json")
    assert spent.code == 0
    assert "3 calls" in peira("status", run).out
    assert f"${3 * FULL / 2:.3g}" in peira("status", run).out
    assert peira("run", "asking.py").code == 0
    assert provider.billed() == BOTH
    check(peira, provider, ".peira/peira.db")


@openai_alone
def test_while_a_run_waits_others_look_and_do_not_touch(peira, provider, waiting):
    done = peira("batch", "status", "--json")
    assert (done.code, done.document["batches"][0]["said"]) == (0, "in_progress")
    refused = peira("batch", "collect")
    assert (refused.code, "is in use" in refused.err) == (4, True)
    assert "3 waiting for batches" in peira("status").out
    provider.plan(hold=False)
    waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    check(peira, provider, ".peira/peira.db")


@openai_alone
def test_a_call_in_a_batch_is_not_sent_again_by_hand(peira, provider, left_open):
    key = peira("calls", "--json").document["calls"][0]["key"]
    assert peira("resolve").out == "no call is in doubt\n"
    assert "nothing to send again" in peira("resolve", "--resend", "--all").out
    done = peira("resolve", key, "--resend")
    assert (done.code, "is in a batch, and waits for its answer" in done.err) == (2, True)
    assert "status  in a batch" in peira("calls", key).out


@openai_alone
def test_without_the_key_a_batch_is_listed_and_left_alone(peira, provider, left_open, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "another-key-than-before")
    status = peira("batch", "status", "--json")
    assert (status.code, "401" in status.document["batches"][0]["problem"]) == (0, True)
    collected = peira("batch", "collect")
    assert (collected.code, "401" in collected.out) == (1, True)
    assert "another-key" not in collected.out + status.out
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert peira("batch", "collect").code == 0
    assert peira("run", "asking.py").code == 0
    check(peira, provider, ".peira/peira.db")


@openai_alone
def test_a_model_that_the_project_no_longer_knows(peira, provider, folder):
    (folder / "asking.py").write_text(STUDY.replace("MODEL", "main"))
    (folder / "peira.toml").write_text(f'[models.main]\nmodel = "{provider.name}"\n')
    provider.plan(turns={"look": [{"status": 403}]})
    assert peira("run", "asking.py", "--batch").code == 1
    (folder / "peira.toml").unlink()
    done = peira("batch", "status")
    assert (done.code, "model 'main': write provider:name" in done.out) == (0, True)
    (folder / "peira.toml").write_text(f'[models.main]\nmodel = "{provider.name}"\n')
    assert peira("batch", "collect").code == 0
    assert peira("run", "asking.py").code == 0
    check(peira, provider, ".peira/peira.db")


@openai_alone
def test_what_cannot_be_done(peira, folder):
    assert peira("batch").problems == ["peira: there is no store at .peira/peira.db"]
    assert peira("batch", "collect").code == 2
    assert not Path(".peira").exists()
    assert peira("batch", "colect").code == 2
    (folder / "scripted.py").write_text(STUDY.replace("MODEL", "scripted:"))
    for command in ("run", "estimate", "plan"):
        refused = peira(command, "scripted.py", "--batch")
        assert (refused.code, refused.problems) == (
            2,
            ["peira: scripted: has no batch endpoint; run without --batch"],
        )
    assert not Path(".peira").exists()
