"""Budgets beside a provider that counts the money: for any mix of sizes, at any parallelism, through failures
and kill -9, it bills no more than the budget."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

import peira
from peira import ask, study
from peira.app import execute
from peira.app.run import RunOptions, RunOutcome
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

PRICE = {"input": 100.0, "output": 400.0}
"""Dollars for a million tokens."""
ROUNDING = 1 + 1e-9
_numbers = count()


@dataclass(frozen=True)
class Bill:
    """What the provider billed for one model."""

    input: int = 0
    output: int = 0
    calls: int = 0

    @property
    def money(self) -> float:
        return (self.input * PRICE["input"] + self.output * PRICE["output"]) / 1e6

    @property
    def tokens(self) -> int:
        return self.input + self.output


@dataclass(frozen=True)
class Provider:
    base: str
    model: str = field(default_factory=lambda: f"m{next(_numbers)}")

    def bill(self) -> Bill:
        with urllib.request.urlopen(f"{self.base}/bill?model={self.model}") as answer:
            return Bill(**json.loads(answer.read()))

    def project(self, **more: Any) -> None:
        """Write a project file whose model `m` is asked here."""
        model = {"model": f"openai:{self.model}", "base_url": f"{self.base}/v1", "price": PRICE, **more}
        Path("peira.toml").write_text(tomli_w.dumps({"models": {"m": model}}))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    script = Path(__file__).with_name("billing_server.py")
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture
def provider(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    monkeypatch.chdir(tmp_path)
    made = Provider(address)
    made.project()
    return made


def asks(case):
    """Ask all that the case says, one after the other; the provider reads the same."""
    for nth, told in enumerate(json.loads(case.input)):
        limit = {} if told.get("limit") is None else {"max_tokens": told["limit"]}
        said = ask("m", json.dumps({**told, "nth": [case.id, nth]}), **limit).text
    return said


def judged(output, case):
    return ask("m", json.dumps({"out": 3, "about": case.id}), max_tokens=3).text != ""


Call = dict[str, Any]


def call(out: int, limit: int | None, pad: int = 0, **more: Any) -> Call:
    return {"out": out, "limit": limit, "pad": "x" * pad, **more}


def studied(trials: list[list[Call]], **more: Any) -> peira.Study:
    cases = [peira.Case(json.dumps(calls), id=f"case {n}") for n, calls in enumerate(trials)]
    return study(agent=asks, name="s", cases=cases, **more)


def executed(asked: Any, parallel: int) -> RunOutcome:
    return execute(asked, RunOptions(store="s.db", parallel=parallel, progress=False))


def sound() -> None:
    opened = SqliteStore("s.db", readonly=True)
    assert list(verify(opened)) == []
    opened.close()


@pytest.mark.parametrize("parallel", [8, 64])
@pytest.mark.parametrize("limit", [16, None])
def test_short_calls_followed_by_large_ones_spend_no_more_than_there_is(
    provider: Provider, parallel: int, limit: int | None
) -> None:
    """They took $7.20 of $2.00 at 8 in parallel, and $57.62 at 64: each was reserved as the one before."""
    short, large = call(16, limit), call(16, limit, 360_000, ratio=0.25)
    asked = studied([[short, large]] * 100, budget={"money": 100.0})
    outcome = executed(asked, parallel)
    assert provider.bill().money <= 100.0 * ROUNDING
    assert outcome.finished.exit_code == 3
    one = (360_100 * PRICE["input"] + 16 * PRICE["output"]) / 1e6
    assert provider.bill().money + one >= 100.0
    sound()


@pytest.mark.parametrize("parallel", [8, 64])
def test_small_calls_spend_nearly_all_of_a_budget(provider: Provider, parallel: int) -> None:
    outcome = executed(studied([[call(40, 100)]] * 1000, budget={"money": 2.0}), parallel)
    assert 1.9 <= provider.bill().money <= 2.0 * ROUNDING
    assert outcome.finished.exit_code == 3
    assert outcome.results.spent.money == pytest.approx(provider.bill().money)


def test_a_call_too_large_for_the_budget_does_not_keep_others_from_being_made(provider: Provider) -> None:
    cases = [[call(10, 10, 50_000 if n % 10 == 3 else 0)] for n in range(60)]
    outcome = executed(studied(cases, budget={"money": 2.0}), 8)
    assert outcome.results.counts["succeeded"] == 54
    assert (outcome.results.counts["exhausted"], outcome.finished.exit_code) == (6, 3)
    assert "a call may take" in outcome.finished.reason


def test_an_answer_that_does_not_say_what_it_took_counts_as_it_was_reserved(provider: Provider) -> None:
    asked = studied([[call(90, 100, do=["silent"])]] * 40, budget={"money": 1.0})
    for _ in range(3):
        assert executed(asked, 8).finished.exit_code == 3
        assert 0.5 <= provider.bill().money <= 1.0 * ROUNDING
    tokens = studied([[call(90, 100, do=["silent"])]] * 40, budget={"tokens": 5000})
    bill = provider.bill()
    Path("s.db").unlink()
    executed(tokens, 8)
    assert 2500 <= provider.bill().tokens - bill.tokens <= 5000


def test_an_answer_in_a_broken_encoding_is_kept_and_asked_again_by_a_later_run(provider: Provider) -> None:
    asked = studied([[call(10, 10, do=["garbled"])]] * 5)
    outcome = executed(asked, 2)
    assert provider.bill().calls == 5
    problems = {row.failure.message.partition(" (sent")[0] for row in outcome.results.failures if row.failure}
    assert problems == {
        "/chat/completions: an answer whose content encoding (gzip) is broken, kept as it came"
    }
    assert outcome.results.spent.doubtful == 0
    again = executed(asked, 2)
    assert provider.bill().calls == 10
    assert again.results.spent.doubtful == 0


FAILURES = ["ok", "silent", "busy", "refused", "broken", "reset", "garbled"]
CALLS = st.builds(
    lambda out, over, pad, ratio, do: call(
        out, None if over is None else out + over, pad, ratio=ratio, do=do
    ),
    st.integers(1, 300),
    st.one_of(st.none(), *[st.integers(0, 300)] * 4),
    st.sampled_from([0, 0, 100, 3000, 100_000]),
    st.sampled_from([0.1, 0.25, 1]),
    st.one_of(st.just([]), st.lists(st.sampled_from(FAILURES), max_size=3)),
)
TRIALS = st.builds(
    lambda trials, times: trials * times,
    st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=6),
    st.integers(1, 8),
)
BUDGETS = st.one_of(
    st.builds(lambda money: {"money": money}, st.floats(0.01, 8)),
    st.builds(lambda tokens: {"tokens": tokens}, st.integers(100, 200_000)),
    st.builds(
        lambda money, tokens: {"money": money, "per_model": {"m": {"tokens": tokens}}},
        st.floats(0.01, 8),
        st.integers(100, 200_000),
    ),
)
POLICY = {"backoff": 0, "call_tries": 2, "retries": 1}


def within(bill: Bill, budget: dict[str, Any], more: Bill | None = None) -> bool:
    """Whether no more was billed than the budget, and `more`."""
    tokens = budget.get("tokens") or budget.get("per_model", {}).get("m", {}).get("tokens")
    more = more or Bill()
    money = budget.get("money", 1e9) * ROUNDING + more.money
    return bill.money <= money and (tokens is None or bill.tokens <= tokens + more.tokens)


def last_answer(trials: list[list[Call]]) -> Bill:
    """The longest answer without a limit: the last call may take so much more, as the budget says."""
    unlimited = (one["out"] for calls in trials for one in calls if one["limit"] is None)
    return Bill(output=max(unlimited, default=0))


def machine(
    address: str, trials: list[list[Call]], budget: dict[str, Any], parallel: list[int], judge: bool
) -> None:
    """Run a study several times, as far as its budget goes; the provider has the last word."""
    evaluators = [judged] if judge else []
    here = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            provider = Provider(address)
            provider.project()
            for n in parallel:
                executed(studied(trials, budget=budget, evaluators=evaluators, policy=POLICY), n)
                assert within(provider.bill(), budget, last_answer(trials))
            sound()
        finally:
            os.chdir(here)


PARALLEL = st.lists(st.sampled_from([1, 3, 8, 64]), min_size=1, max_size=2)


@settings(max_examples=5)
@given(TRIALS, BUDGETS, PARALLEL, st.booleans())
def test_for_any_mix_of_sizes_and_failures_no_more_is_billed_than_the_budget(
    address: str, trials: list[list[Call]], budget: dict[str, Any], parallel: list[int], judge: bool
) -> None:
    machine(address, trials, budget, parallel, judge)


@pytest.mark.torture
@settings(max_examples=150)
@given(TRIALS, BUDGETS, PARALLEL, st.booleans())
def test_for_very_many_mixes_no_more_is_billed_than_the_budget(
    address: str, trials: list[list[Call]], budget: dict[str, Any], parallel: list[int], judge: bool
) -> None:
    machine(address, trials, budget, parallel, judge)


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
SCRIPT = """
import json, sys
from pathlib import Path
from peira import ask, run, study

told = json.loads(Path("told.json").read_text())


def asks(case):
    for nth, told in enumerate(json.loads(case.input)):
        said = ask("m", json.dumps({**told, "nth": [case.id, nth]}), max_tokens=told["limit"]).text
    return said


if __name__ == "__main__":
    policy = {"interruptions": 1000, "call_tries": 2, "backoff": 0}
    run(study(agent=asks, name="s", cases=told["cases"], budget=told["budget"], policy=policy),
        store="s.db", parallel=told["parallel"], progress=False)
"""


def kill_often(provider: Provider, warm: Any, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    doing: list[list[str]] = [["late"], ["reset"], []]
    cases = [
        json.dumps(
            [call(rng.randrange(1, 200), 200, size, do=rng.choice(doing)) for size in (0, 200, 20_000)]
        )
        for _ in range(60)
    ]
    budget = {"money": rng.uniform(1, 6)}
    Path("told.json").write_text(json.dumps({"cases": cases, "budget": budget, "parallel": 16}))
    Path("asks.py").write_text(SCRIPT)
    for _ in range(rounds):
        process = warm.start([sys.executable, "asks.py"], cwd=Path.cwd(), **QUIET)
        time.sleep(rng.uniform(0.05, 0.6))
        process.kill()
        process.wait()
        assert within(provider.bill(), budget)
    last = warm.start([sys.executable, "asks.py"], cwd=Path.cwd(), **QUIET)
    last.wait()
    assert within(provider.bill(), budget)
    sound()


def test_after_kills_no_more_is_billed_than_the_budget(provider: Provider, warm: Any) -> None:
    kill_often(provider, warm, 4, 1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(30))
def test_after_many_kills_no_more_is_billed_than_the_budget(provider: Provider, warm: Any, seed: int) -> None:
    kill_often(provider, warm, 12, seed)
