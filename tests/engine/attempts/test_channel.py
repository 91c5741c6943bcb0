"""What an attempt's calls come to is counted before the attempt is over."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from peira.core.contracts import Attempt
from peira.core.log.events import TaskSpec
from peira.core.models import Reply, Request, Usage
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.attempts.endings import ended
from peira.engine.context import RunContext
from peira.stores.memory import MemoryStore

QUESTION = Request(({"role": "user", "content": "q"},))


def channel_to(ledger: Any, folder: Path) -> AttemptChannel:
    work: Any = SimpleNamespace(scope=lambda: "s", stage="generate")
    attempt = Attempt(TaskSpec("0" * 64, "generate", "generate"), 1, work)
    return AttemptChannel(
        RunContext("r", "1", MemoryStore(), work_root=folder), attempt, lambda account: ledger
    )


class SlowToTell:
    """A ledger whose replies wake whoever waits, while their callbacks are still to be called."""

    def __init__(self) -> None:
        self.reserve = SimpleNamespace(trial=lambda task, own: None)
        self.told, self.reply = threading.Event(), Future[Reply]()
        self.reply.add_done_callback(lambda _: self.told.wait(10))

    def ask(self, model: str, asked: Any) -> Future[Reply]:
        return self.reply


def test_a_call_is_counted_though_its_attempt_ends_before_its_callbacks_run(tmp_path: Path) -> None:
    ledger: Any = SlowToTell()
    channel = channel_to(ledger, tmp_path)
    reply = channel.call("m", QUESTION, "")
    answer = Reply("a", call="k", usage=Usage(2, 3), cost=5.0)
    teller = threading.Thread(target=ledger.reply.set_result, args=(answer,))
    teller.start()
    assert reply.result(10).text == "a"
    found, _, _ = ended(channel, 0.1, "a", None, 1000)
    ledger.told.set()
    teller.join()
    assert found.result.calls == ("k",)
    assert (found.result.metrics["calls"], found.result.metrics["cost"]) == (1.0, 5.0)
    assert (channel.calls, channel.bought) == (("k",), 1)


class SlowToOpen:
    """A ledger that takes its time to open a trial's account; it keeps what it is asked."""

    def __init__(self) -> None:
        self.reserve = SimpleNamespace(trial=self._open)
        self.opening, self.go = threading.Event(), threading.Event()
        self.opened: list[object] = []
        self.asked: list[Any] = []

    def _open(self, task: str, own: object) -> object:
        self.opening.set()
        self.go.wait(10)
        self.opened.append(object())
        return self.opened[-1]

    def ask(self, model: str, asked: Any) -> Future[Reply]:
        self.asked.append(asked)
        return Future()


def test_threads_that_ask_first_share_one_account(tmp_path: Path) -> None:
    ledger = SlowToOpen()
    channel = channel_to(ledger, tmp_path)
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(channel.call, "m", QUESTION, "") for _ in range(4)]
        ledger.opening.wait(10)
        wait(calls, timeout=0.2)  # none of them can be through
        ledger.go.set()
    assert len(ledger.opened) == 1
    assert [asked.account for asked in ledger.asked] == ledger.opened * 4


def test_threads_that_ask_the_same_are_told_apart(tmp_path: Path) -> None:
    ledger = SlowToOpen()
    ledger.go.set()
    channel, before = channel_to(ledger, tmp_path), sys.getswitchinterval()

    def asks() -> None:
        for _ in range(5000):
            channel.call("m", QUESTION, "")

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            wait([threads.submit(asks) for _ in range(4)])
    finally:
        sys.setswitchinterval(before)
    assert sorted(int(asked.ordinal) for asked in ledger.asked) == list(range(1, 20_001))
