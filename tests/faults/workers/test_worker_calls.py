"""Workers that are killed or stopped with calls under way: nothing is paid for twice that need not be.

The endpoint counts bills. Every send is announced in the store before; a call is sent again only when its
sender is known to have ended, or no answer can come any more (S2).
"""

from __future__ import annotations

import json
import os
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
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.workers import submit_shared
from peira.core.log.events import CallAnswered, CallBilled, CallIntended, Record, Status, TasksClaimed
from peira.stores.postgres.store import PostgresStore
from peira.stores.verify import verify
from tests.faults.test_ledger_kill import SCRIPT

from .test_worker_kill import LEASE, SHORT, WORKER


@dataclass
class Callers:
    """A store that workers share, and the endpoint that has the last word about bills."""

    folder: Path
    address: str
    endpoint: Any
    begin: Callable[..., Any]
    cases: int
    told: dict[str, Any]

    def submit(self) -> str:
        os.environ["TOLD"] = json.dumps(
            {"agent": "waits", "cases": self.cases, "policy": {}, "budget": {}, **self.told}
        )
        (self.folder / "asks.py").write_text(SCRIPT)
        (self.folder / "worker.py").write_text(WORKER)
        return submit_shared("asks.py:asks", RunOptions(workers=0), Session.find(self.address))

    def join(self, failpoint: str = "", lease: float = LEASE) -> Any:
        env = {**os.environ, "PEIRA_FAILPOINT": failpoint}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        command = [sys.executable, "worker.py", self.address, str(lease)]
        return self.begin(command, cwd=self.folder, env=env, **quiet)

    def finish(self, process: Any) -> int:
        _, said = process.communicate(timeout=50)
        assert process.returncode in (0, -9), said.decode()
        return int(process.returncode)

    def wait_for_bills(self, n: int) -> None:
        until = time.monotonic() + 30
        while self.endpoint.bills() < n:
            assert time.monotonic() < until
            time.sleep(0.005)

    def check(self, run: str) -> tuple[int, int]:
        """The run is complete and sound, and every bill was announced.

        Returns how many calls were sent again by another worker than before, and how many second answers
        there were.
        """
        results = peira.open(self.address).results(run)
        assert results.status == "completed", [row.failure for row in results.failures][:3]
        outputs = {trial.input: trial.output for trial in results.trials}
        assert outputs == {f"case {i}": f"case {i} one two three" for i in range(self.cases)}
        store = PostgresStore(self.address, readonly=True)
        records: list[Record] = list(store.history())
        assert list(verify(store)) == []
        store.close()
        sends: Counter[str] = Counter()
        answered: set[str] = set()
        last: dict[str, CallIntended] = {}
        early = []
        taken_over = 0
        for record in records:
            event = record.event
            if isinstance(event, CallIntended):
                assert event.key not in answered, "a recorded answer was bought again"
                sends[event.key] += 1
                assert event.send == sends[event.key]
                before = last.get(event.key)
                if before is not None and before.owner != event.owner:
                    taken_over += 1
                    early += [before.owner] if record.at < before.until else []
                last[event.key] = event
            elif isinstance(event, CallAnswered):
                assert event.key not in answered
                answered.add(event.key)
        assert len(answered) == 3 * self.cases
        resends = sends.total() - len(sends)
        assert self.endpoint.bills() <= len(sends) + resends
        assert set(early) <= self.ended(), "sent again while the sender might still have been answered"
        spent = sum(one.sends for one in peira.open(self.address).run(run).spent)
        assert spent >= self.endpoint.bills()
        return taken_over, sum(isinstance(record.event, CallBilled) for record in records)

    def ended(self) -> set[str]:
        """The members that are known to have ended."""
        import psycopg

        with psycopg.connect(self.address.partition("?schema=")[0].partition("&schema=")[0]) as db:
            schema = self.address.rpartition("schema=")[2]
            rows = db.execute(f"SELECT n FROM {schema}.member WHERE state IN ('gone', 'left')").fetchall()
        return {str(n) for (n,) in rows}


@pytest.fixture
def callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Any, warm: Any, postgres_url: str
) -> Callable[..., Callers]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOLD", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def made(
        cases: int = 24, delay: float = 0.05, timeouts: Any = None, limits: Any = None, **told: Any
    ) -> Callers:
        endpoint.always({"delay": delay})
        fast = {"model": f"openai:{endpoint.model}", "base_url": f"{endpoint.base}/v1"}
        fast |= {"price": {"request": 0.01}} if "budget" in told else {}
        fast |= {"limits": limits} if limits else {}
        fast |= {"timeouts": timeouts} if timeouts else {}
        (tmp_path / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": fast}}))
        return Callers(tmp_path, postgres_url, endpoint, warm.start, cases, told)

    return made


PLACES = ("ledger.after_intent:3", "ledger.before_answer:4", "ledger.after_answer:5")


@pytest.mark.parametrize(
    "place",
    [PLACES[1], *(pytest.param(place, marks=pytest.mark.torture) for place in (PLACES[0], PLACES[2]))],
)
def test_one_of_two_is_killed_between_intent_and_use(place, callers) -> None:
    tried = callers()
    run = tried.submit()
    killed = tried.join(place)
    while killed.poll() is None and not tried.endpoint.bills():
        time.sleep(0.005)
    other = tried.join()
    assert tried.finish(killed) == -9
    assert tried.finish(other) == 0
    taken_over, _ = tried.check(run)
    assert taken_over <= 4


def test_one_that_is_stopped_past_its_lease_is_waited_for(callers) -> None:
    """Its answers come late, are recorded and used, and nothing is sent again. It has all trials when it is
    stopped, so that the other has nothing else to do."""
    tried = callers(cases=8, delay=0.3)
    run = tried.submit()
    stopped = tried.join(lease=SHORT)
    tried.wait_for_bills(4)
    os.kill(stopped.pid, signal.SIGSTOP)
    other = tried.join()
    time.sleep(SHORT + 2.5)
    os.kill(stopped.pid, signal.SIGCONT)
    _, said = stopped.communicate(timeout=50)
    assert stopped.returncode == 1
    assert b"the lease of this process has run out" in said
    assert tried.finish(other) == 0
    assert tried.check(run) == (0, 0)
    assert tried.endpoint.bills() == 3 * tried.cases


def test_one_that_is_stopped_past_its_deadline_is_not_waited_for(callers) -> None:
    """Its calls are sent again, which is recorded first; so are the bills of its own answers."""
    tried = callers(delay=0.3, timeouts={"total": 1.0, "connect": 1.0, "first_byte": 1.0})
    run = tried.submit()
    stopped = tried.join(lease=SHORT)
    tried.wait_for_bills(4)
    os.kill(stopped.pid, signal.SIGSTOP)
    assert tried.finish(tried.join()) == 0
    os.kill(stopped.pid, signal.SIGCONT)
    stopped.communicate(timeout=50)
    taken_over, billed = tried.check(run)
    assert 1 <= taken_over <= 4
    assert billed <= taken_over


@pytest.mark.parametrize("budget", [{"calls": 40}, pytest.param({"money": 0.4}, marks=pytest.mark.torture)])
def test_a_budget_is_never_exceeded_by_all_together(budget, callers) -> None:
    """Three workers, one of them killed with calls under way: all of the budget is used, and no more (S3)."""
    tried = callers(cases=40, budget=budget)
    run = tried.submit()
    killed = tried.join("ledger.before_answer:6")
    tried.wait_for_bills(3)  # so that the others do not use all of it before
    others = [tried.join(), tried.join()]
    assert tried.finish(killed) == -9
    assert [tried.finish(one) for one in others] == [0, 0]
    ended = peira.open(tried.address).run(run)
    assert ended.status is Status.stopped
    assert f"budget.{next(iter(budget))}" in ended.reason
    store = PostgresStore(tried.address, readonly=True)
    sends = sum(isinstance(record.event, CallIntended) for record in store.history())
    assert list(verify(store)) == []
    store.close()
    assert sends == 40
    assert 40 - 4 <= tried.endpoint.bills() <= 40


@pytest.mark.parametrize(
    "limits", [{"requests_per_minute": 1200}, pytest.param({"concurrency": 3}, marks=pytest.mark.torture)]
)
def test_limits_of_a_model_are_kept_by_all_together(limits, callers) -> None:
    """Three workers: twenty sends a second, or three at once, and no more (S4)."""
    tried = callers(cases=20, delay=0.02, limits=limits)
    run = tried.submit()
    workers = [tried.join() for _ in range(3)]
    assert [tried.finish(one) for one in workers] == [0, 0, 0]
    assert tried.check(run) == (0, 0)
    if "concurrency" in limits:
        assert tried.endpoint.peak() <= 3
        return
    store = PostgresStore(tried.address, readonly=True)
    records = list(store.history())
    store.close()
    began = next(record.at for record in records if isinstance(record.event, TasksClaimed))
    sent = [record.at for record in records if isinstance(record.event, CallIntended)]
    early = [nth for nth, at in enumerate(sent) if at < began + (nth - 1) / 20]
    assert not early, "a send may come later than its turn, and none before"
