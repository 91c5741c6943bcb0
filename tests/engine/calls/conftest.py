"""Studies that ask the models of a real endpoint in another process, and its log of bills."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira import ask_async, study
from peira.app import execute
from peira.app.run import RunOptions, RunOutcome
from peira.core.log.events import RunNoted
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

CENT = {"output": 1000}
"""Ten tokens of output are a cent."""
TEN_TOKENS = {"text": "so it is", "usage": {"input": 7, "output": 10}}

Project = Callable[..., None]


@pytest.fixture
def project(folder: Path) -> Project:
    """Write a peira.toml with these models."""

    def write(**models: Any) -> None:
        (folder / "peira.toml").write_text(tomli_w.dumps({"models": models}))

    return write


@pytest.fixture
def fast(endpoint: Any, project: Project) -> Any:
    """The endpoint's model, known to the project as "fast"."""
    project(fast=at(endpoint))
    return endpoint


def at(remote: Any, **more: Any) -> dict[str, Any]:
    return {"model": f"openai:{remote.model}", "base_url": f"{remote.base}/v1", **more}


def nowhere() -> str:
    """A base URL at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


async def asks(case, model="fast"):
    return await ask_async(model, case.input, max_tokens=10)


def studied(agent: Any = asks, cases: int = 20, **more: Any) -> peira.Study:
    return study(**{"agent": agent, "name": "s", "cases": [f"q{i}" for i in range(cases)], **more})


def conducted(asked: Any, store: Any = "s.db", **wishes: Any) -> RunOutcome:
    return execute(asked, RunOptions(store=store, progress=False, **wishes))


def events(kind: Any, store: Any = "s.db") -> list[Any]:
    look = peira.open(store)
    records = (record for one in look.runs() for record in look.events(one.id, limit=100_000))
    return [record.event for record in records if isinstance(record.event, kind)]


def notices(store: Any = "s.db") -> list[str]:
    return [event.text for event in events(RunNoted, store)]


def problems(outcome: RunOutcome) -> set[str]:
    return {row.failure.message for row in outcome.results.failures if row.failure}


def sound(store: str = "s.db") -> None:
    opened = SqliteStore(store, readonly=True)
    assert list(verify(opened)) == []
    opened.close()
