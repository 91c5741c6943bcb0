"""The endpoint process, one for the whole session, and a model name of its own for each test."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

Turn = dict[str, Any]
CANARY = "canary-7f3a91c2-key-0b5d"


@dataclass(frozen=True)
class Remote:
    """One model at the endpoint, seen from a test."""

    base: str
    model: str

    def _call(self, path: str, told: Turn | None = None) -> Any:
        data = None if told is None else json.dumps(told).encode()
        with urllib.request.urlopen(f"{self.base}{path}", data) as answer:
            return json.loads(answer.read())

    def script(self, *turns: Turn) -> None:
        self._call("/script", {"model": self.model, "turns": turns})

    def always(self, turn: Turn) -> None:
        self._call("/script", {"model": self.model, "always": turn})

    def seen(self) -> list[Turn]:
        return self._call(f"/log?model={self.model}")["seen"]

    def sends(self) -> int:
        return len(self.seen())

    def bills(self) -> int:
        return self._call(f"/log?model={self.model}")["bills"]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    script = Path(__file__).with_name("server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    process.stdin.close()
    process.wait()
    process.stdout.close()


_numbers = count()


@pytest.fixture
def endpoint(server: str, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """A model of this test's own, with the keys of all providers set to the canary."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server)
    return Remote(server, f"m{next(_numbers)}")
