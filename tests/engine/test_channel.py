"""What an attempt's calls come to is counted before the attempt is over."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from peira.core.contracts import Attempt
from peira.core.events import TaskSpec
from peira.core.models import Reply, Request, Usage
from peira.engine.channel import AttemptChannel
from peira.engine.endings import ended


class SlowToTell:
    """A ledger whose replies wake whoever waits, while their callbacks are still to be called."""

    def __init__(self) -> None:
        self.reserve = SimpleNamespace(trial=lambda: None)
        self.told, self.reply = threading.Event(), Future[Reply]()
        self.reply.add_done_callback(lambda _: self.told.wait(10))

    def ask(self, model: str, asked: Any) -> Future[Reply]:
        return self.reply


def test_a_call_is_counted_though_its_attempt_ends_before_its_callbacks_run(tmp_path: Path) -> None:
    work: Any = SimpleNamespace(scope=lambda: "s", stage="generate")
    ledger: Any = SlowToTell()
    attempt = Attempt(TaskSpec("0" * 64, "generate", "generate"), 1, work)
    unused: Any = None
    channel = AttemptChannel("r", attempt, unused, unused, tmp_path, ledger)
    reply = channel.call("m", Request(({"role": "user", "content": "q"},)), "")
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
