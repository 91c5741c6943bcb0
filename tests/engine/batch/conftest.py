"""Studies whose calls are handed in together, in batches, and what is left in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, run, study
from peira.core.contracts import CallQuery
from peira.core.log.events import RunNoted
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

PRICE = '[models."{name}"]\nprice = {{input = 200.0, output = 400.0}}\n'
FULL = (10 * 200.0 + 5 * 400.0) / 1_000_000
"""What a call costs by itself: the endpoint counts 10 tokens in and 5 out."""
KEY = "canary-7f3a91c2-key-0b5d"
CASES = ["ab", "cd", "ef"]
openai_alone = pytest.mark.parametrize("provider", ["openai"], indirect=True)
anthropic_alone = pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
either = openai_alone
"""What does not depend on the form is shown in one."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    made = SqliteStore(tmp_path / "s.db")
    yield made
    assert verify(made) == []
    made.close()


Hand = Callable[..., peira.Results]


@pytest.fixture
def handed(store: Any) -> Hand:
    """Run a study with its calls in batches."""

    def hand(agent: Any, batch: bool = True, **more: Any) -> peira.Results:
        wishes = {name: more.pop(name) for name in ("policy", "parallel", "runner", "fresh") if name in more}
        asked = study(**{"agent": agent, "name": "s", "cases": CASES, **more})
        return run(asked, store=store, progress=False, batch=batch, **wishes)

    return hand


def outputs(results: peira.Results) -> list[Any]:
    return [trial.output for trial in results.trials]


def failures(results: peira.Results) -> list[str]:
    return [row.failure.message for row in results.failures if row.failure]


def calls(store: Any) -> list[Any]:
    return list(store.calls(CallQuery(limit=1000)))


def notes(store: Any, results: peira.Results) -> list[str]:
    events = (record.event for record in store.events(results.run_id))
    return [event.text for event in events if isinstance(event, RunNoted)]


def once(provider: Any) -> Any:
    name = provider.name
    return lambda case: ask(name, case.input)


def twice(provider: Any) -> Any:
    name = provider.name

    def agent(case):  # type: ignore[no-untyped-def]
        return ask(name, ask(name, case.input).text + "!")

    return agent


def until(true: Callable[[], bool]) -> None:
    while not true():
        threading.Event().wait(0.02)
