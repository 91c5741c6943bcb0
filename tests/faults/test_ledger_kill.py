"""kill -9 between intent and use, and processes that sleep through their deadlines: nothing is paid twice
that was recorded, and every bill in the endpoint's own log was announced in the store before."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira.core.log.events import CallAnswered, CallIntended, CallLost, Record, Status
from peira.engine.run_start import spent_by_calls
from peira.errors import StoreInUse
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

SCRIPT = """
import json, os
from peira import ask, ask_async, run, study

TOLD = json.loads(os.environ["TOLD"])


async def waits(case):
    one = await ask_async("fast", f"{case.input} one")
    two = await ask_async("fast", f"{one} two")
    return await ask_async("fast", f"{two} three")


def blocks(case):
    one = ask("fast", f"{case.input} one")
    two = ask("fast", f"{one} two")
    return ask("fast", f"{two} three")


asks = study(agent=globals()[TOLD["agent"]], name="asks", cases=[f"case {i}" for i in range(TOLD["cases"])],
             policy={"interruptions": 1000, **TOLD["policy"]}, budget=TOLD["budget"])

if __name__ == "__main__":
    run(asks, store="asks.db", parallel=32, progress=False)
"""
PARALLEL = 32


@dataclass
class Bench:
    """One store, the processes that work on it, and the endpoint that has the last word about bills."""

    folder: Path
    endpoint: Any
    begin: Callable[..., Any]
    told: dict[str, Any]
    kills: int = 0

    def __post_init__(self) -> None:
        (self.folder / "asks.py").write_text(SCRIPT)
        os.environ["TOLD"] = json.dumps(self.told)

    @property
    def store(self) -> Path:
        return self.folder / "asks.db"

    @property
    def calls(self) -> int:
        return 3 * int(self.told["cases"])

    def start(self, failpoint: str = "") -> Any:
        env = {**os.environ, "PEIRA_FAILPOINT": failpoint}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return self.begin([sys.executable, "asks.py"], cwd=self.folder, env=env, **quiet)

    def finish(self, process: Any) -> int:
        _, said = process.communicate(timeout=50)
        assert process.returncode in (0, -9), said.decode()
        self.kills += process.returncode == -9
        return int(process.returncode)

    def kill_at(self, failpoint: str) -> None:
        assert self.finish(self.start(failpoint)) == -9

    def kill_after(self, bills: int, seconds: float) -> None:
        """Kill from outside, so long after that many more bills."""
        process = self.started_until(bills)
        time.sleep(seconds)
        process.kill()
        self.finish(process)

    def started_until(self, bills: int) -> Any:
        """A process that has run up that many more bills."""
        aim = self.endpoint.bills() + bills
        process = self.start()
        while process.poll() is None and self.endpoint.bills() < aim:
            time.sleep(0.005)
        return process

    def go_on(self) -> peira.Results:
        """In this process, to the end; what was recorded before is not bought."""
        known = self.answered()
        before = Counter(self.endpoint.billed())
        results = peira.run("asks.py:asks", store=self.store, parallel=PARALLEL, progress=False)
        after = Counter(self.endpoint.billed())
        assert {text: after[text] for text in known} == {text: before[text] for text in known}
        return results

    def records(self) -> list[Record]:
        """What happened, in order."""
        store = SqliteStore(self.store, readonly=True)
        runs = sorted(peira.open(self.store).runs(limit=1000), key=lambda run: run.planned)
        found = [record for run in runs for record in store.events(run.id, limit=10**9)]
        store.close()
        return found

    def texts(self, records: list[Record]) -> dict[str, str]:
        """What was asked, by the key of the call."""
        store = SqliteStore(self.store, readonly=True)
        asked = {r.event.key: r.event.request for r in records if isinstance(r.event, CallIntended)}
        found = {key: json.loads(store.get(body))["messages"][-1]["content"] for key, body in asked.items()}
        store.close()
        return found

    def answered(self) -> set[str]:
        records = self.records() if self.store.exists() else []
        texts = self.texts(records)
        return {texts[r.event.key] for r in records if isinstance(r.event, CallAnswered)}

    # What must be true

    def check_bills(self) -> None:
        """Every bill was announced; no answer was bought again; few were bought in vain."""
        records, billed = self.records(), Counter(self.endpoint.billed())
        texts = self.texts(records)
        intents: Counter[str] = Counter()
        answered: set[str] = set()
        for event in (record.event for record in records):
            if isinstance(event, CallIntended):
                assert event.key not in answered, "a recorded answer was bought again"
                intents[texts[event.key]] += 1
                assert event.send == intents[texts[event.key]]
            elif isinstance(event, CallAnswered):
                assert event.key not in answered
                answered.add(event.key)
        assert not {text: n for text, n in billed.items() if n > intents[text]}
        resends = sum(intents.values()) - len(intents)
        assert billed.total() <= len(intents) + resends
        assert billed.total() >= len(answered)
        self._check_counted(records, billed.total())

    def _check_counted(self, records: list[Record], billed: int) -> None:
        """What the runs say they spent is every send that may have been billed."""
        free = sum(isinstance(r.event, CallLost) and not r.event.doubt for r in records)
        sends = sum(isinstance(r.event, CallIntended) for r in records)
        store = SqliteStore(self.store, readonly=True)
        runs = peira.open(self.store).runs(limit=1000)
        spent = [s for r in runs for s in (r.spent if r.spent else spent_by_calls(store, r.id))]
        store.close()
        assert sum(one.sends for one in spent) == sends - free >= billed

    def check_done(self, results: peira.Results) -> None:
        assert results.status == "completed", [row.failure for row in results.failures][:3]
        outputs = {trial.input: trial.output for trial in results.trials}
        assert outputs == {f"case {i}": f"case {i} one two three" for i in range(int(self.told["cases"]))}
        doubts = sum(isinstance(r.event, CallLost) and r.event.doubt for r in self.records())
        assert self.endpoint.bills() <= self.calls + doubts + PARALLEL * self.kills
        self.check_bills()
        self.check_sound()

    def check_sound(self) -> None:
        store = SqliteStore(self.store, readonly=True)
        assert list(verify(store)) == []
        store.close()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Any, warm: Any) -> Callable[..., Bench]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOLD", "")
    endpoint.always({"delay": 0.02})

    def made(
        cases: int = 40, agent: str = "waits", timeouts: Any = None, price: Any = None, **told: Any
    ) -> Bench:
        fast = {"model": f"openai:{endpoint.model}", "base_url": f"{endpoint.base}/v1"}
        fast |= {"timeouts": timeouts} if timeouts else {}
        fast |= {"price": price} if price else {}
        (tmp_path / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": fast}}))
        told = {"policy": {}, "budget": {}, **told}
        return Bench(tmp_path, endpoint, warm.start, {"cases": cases, "agent": agent, **told})

    return made


PLACES = [
    "ledger.after_intent:1",
    "ledger.after_intent:50",
    "ledger.before_answer:1",
    "ledger.before_answer:40",
    "ledger.after_answer:1",
    "ledger.after_answer:70",
    "store.before_commit:9",
    "store.after_commit:11",
    "store.after_acknowledge:7",
]


@pytest.mark.parametrize("place", PLACES)
def test_killed_between_intent_and_use(place: str, bench: Callable[..., Bench]) -> None:
    tried = bench()
    tried.kill_at(place)
    tried.check_bills()
    tried.check_done(tried.go_on())


def test_killed_when_a_send_was_just_lost(bench: Callable[..., Bench]) -> None:
    """It may have been billed, and nobody will ever say so: it counts as sent."""
    tried = bench()
    tried.endpoint.script(*[{"fail": "doubt"}] * 5)
    tried.kill_at("ledger.after_loss:3")
    tried.check_bills()
    tried.check_done(tried.go_on())


def struck(tried: Bench, seed: int, kills: int) -> None:
    chance = random.Random(f"ledger {seed}")
    for _ in range(kills):
        tried.kill_after(chance.randint(1, 25), chance.uniform(0.0, 0.05))
        tried.check_bills()
    assert tried.kills == kills  # none came too late
    tried.check_done(tried.go_on())


def test_killed_at_random_moments(bench: Callable[..., Bench]) -> None:
    struck(bench(agent="blocks", cases=60), 0, kills=3)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(1, 11))
def test_killed_a_hundred_times_at_random_moments(seed: int, bench: Callable[..., Bench]) -> None:
    agent = "waits" if seed % 2 else "blocks"
    struck(bench(agent=agent, cases=200), seed, kills=10)


def test_what_is_held_is_billed_at_most_once_whatever_happens(bench: Callable[..., Bench]) -> None:
    tried = bench(policy={"in_doubt": "hold"})
    tried.endpoint.script({"do": "reset"}, {"fail": "doubt"})
    tried.kill_at("ledger.before_answer:30")
    results = tried.go_on()
    again = tried.go_on()
    states = Counter(trial.state.value for trial in again.trials)
    assert set(states) == {"succeeded", "in_doubt"}
    assert 2 <= states["in_doubt"] <= 2 + PARALLEL
    assert (results.status, again.status) == ("completed with failures",) * 2
    assert max(Counter(tried.endpoint.billed()).values()) == 1
    peira.open(tried.store).resolve("resend")
    tried.check_done(tried.go_on())


def test_a_budget_counts_what_a_killed_run_may_have_spent(bench: Callable[..., Bench]) -> None:
    tried = bench(budget={"calls": 60})
    tried.kill_at("ledger.after_answer:20")
    results = tried.go_on()
    assert results.status == "stopped by a limit"
    assert 20 <= tried.endpoint.bills() <= 60
    assert sum(isinstance(record.event, CallIntended) for record in tried.records()) == 60
    tried.check_bills()


@pytest.mark.parametrize("place", ["ledger.after_intent:25", "ledger.before_answer:10"])
def test_money_that_a_killed_run_may_have_spent_counts(place: str, bench: Callable[..., Bench]) -> None:
    """At a cent a call, what was on its way when it was killed is as good as paid."""
    tried = bench(budget={"money": 0.6}, price={"request": 0.01})
    tried.kill_at(place)
    assert tried.go_on().status == "stopped by a limit"
    assert sum(isinstance(record.event, CallIntended) for record in tried.records()) == 60
    tried.check_bills()


# Not dead, only asleep

ZOMBIES = [
    ({"timeouts": {"first_byte": 0.6}}, "its calls"),
    ({"policy": {"timeout": 1.0, "retries": 3, "backoff": 0.05}}, "its trials"),
]


@pytest.mark.parametrize("told", [told for told, _ in ZOMBIES], ids=[name for _, name in ZOMBIES])
def test_asleep_past_its_deadline(told: dict[str, Any], bench: Callable[..., Bench]) -> None:
    """Stopped with calls under way, past their deadline or that of their trials, and woken again."""
    tried = bench(**told)
    tried.endpoint.always({"delay": 0.2})
    process = tried.started_until(bills=40)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreInUse):
        peira.run("asks.py:asks", store=tried.store, progress=False)
    time.sleep(1.2)
    process.send_signal(signal.SIGCONT)
    assert tried.finish(process) == 0
    assert peira.open(tried.store).run().status in (Status.completed, Status.failures)
    tried.check_bills()
    tried.check_done(tried.go_on())


def test_asleep_and_then_killed(bench: Callable[..., Bench]) -> None:
    tried = bench()
    tried.endpoint.always({"delay": 0.1})
    process = tried.started_until(bills=50)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    process.kill()
    tried.finish(process)
    tried.check_bills()
    tried.check_done(tried.go_on())
