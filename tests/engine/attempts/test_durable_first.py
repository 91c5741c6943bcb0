"""On a slow store: nothing is sent before its intent is durable, and nothing used before its answer is."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

import peira
from peira import ask, ask_async, run, study
from peira.core.contracts import Op, Outcome
from peira.core.log.events import CallAnswered, CallIntended, CallLost
from peira.core.models import Answer, Reply, Request
from peira.core.registry import registry
from peira.errors import CallFailed
from peira.stores.memory import MemoryStore

LAG = 0.02


class Lagging(MemoryStore):
    """A store whose commits take a while. What it shows is durable, and nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[tuple[Sequence[Op], Future[list[Outcome]]]] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        done: Future[list[Outcome]] = Future()
        self._queue.put((ops, done))
        return done

    def _write(self) -> None:
        while True:
            ops, done = self._queue.get()
            time.sleep(LAG)
            done.set_result(super().commit(ops).result())

    def durable(self, kind: type) -> Counter[str]:
        """How many events of a kind there are, by what was asked."""
        events = [record.event for record in self.history()]
        asked = {e.key: self.get(e.request).decode() for e in events if isinstance(e, CallIntended)}
        return Counter(asked[event.key] for event in events if isinstance(event, kind))


class Witness:
    """A model that says what was durable when it was sent something."""

    store: Lagging
    sends: Counter[str]
    early: list[str]

    def __init__(self, model: str) -> None:
        self.name, self.identity = f"witness:{model}", {"witness": model}
        self._fails = model == "fails once"

    def check(self) -> None:
        return None

    async def send(self, request: Request) -> Answer:
        text = str(request.messages[-1]["content"])
        Witness.sends[text] += 1
        announced = sum(n for asked, n in self.store.durable(CallIntended).items() if f'"{text}"' in asked)
        if announced < Witness.sends[text]:
            Witness.early.append(text)
        if self._fails and Witness.sends[text] == 1:
            raise CallFailed("reset by peer", doubt=True, retry_after=0.001)
        return Answer(200, text.encode(), 0.0)

    def read(self, answer: Answer) -> Reply:
        return Reply(answer.body.decode())

    async def close(self) -> None:
        return None


@pytest.fixture
def store() -> Lagging:
    registry.add("model", "witness", Witness)
    Witness.store, Witness.sends, Witness.early = Lagging(), Counter(), []
    return Witness.store


def answered(text: str) -> bool:
    return any(f'"{text}"' in asked for asked in Witness.store.durable(CallAnswered))


async def waits(case, model):
    used = []
    for n in ("one", "two"):
        reply = await ask_async(model, f"{case.input} {n}")
        used.append(answered(reply.text))
    return used


def blocks(case, model):
    return [answered(ask(model, f"{case.input} {n}").text) for n in ("one", "two")]


@pytest.mark.parametrize("agent", [waits, blocks])
@pytest.mark.parametrize("model", ["witness:plain", "witness:fails once"])
def test_every_send_is_announced_and_every_answer_kept_before_it_is_used(
    store: Lagging, agent: Any, model: str
) -> None:
    asked: peira.Study = study(
        agent=agent, name="s", cases=[f"case {i}" for i in range(4)], factors={"model": [model]}
    )
    results = run(asked, store=store, parallel=4, progress=False)
    assert [trial.output for trial in results.trials] == [[True, True]] * 4
    assert Witness.early == []
    again = 2 if model == "witness:fails once" else 1
    assert set(Witness.sends.values()) == {again}
    assert store.durable(CallIntended).total() == 8 * again
    assert store.durable(CallLost).total() == 8 * (again - 1)
