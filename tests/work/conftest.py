"""Work plans on small folders, executed in this process or in one of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from peira import fanout
from peira.app.work.run import WorkOutcome

SLEEP = "2971.5"
"""The seconds that processes sleep which must not survive; found by this argument."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a base of two files."""
    base = tmp_path / "base"
    (base / "src").mkdir(parents=True)
    (base / "src" / "main.py").write_text("print('hello')\n")
    (base / "README.md").write_text("a base\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def work(folder: Path) -> Callable[..., WorkOutcome]:
    """Execute units (by name: shell text or a table) on the base."""

    def execute(units: dict[str, Any], store: str = "w.db", **fields: Any) -> WorkOutcome:
        tables = {
            name: {"run": ["sh", "-c", one]} if isinstance(one, str) else dict(one)
            for name, one in units.items()
        }
        for table in tables.values():
            if isinstance(table.get("run"), str):
                table["run"] = ["sh", "-c", table["run"]]
        plan = {"base": str(folder / "base"), "units": tables, **fields}
        return fanout(plan, store=folder / store, progress=False)

    return execute


def states(outcome: WorkOutcome) -> dict[str, str]:
    """The states of all units."""
    return {name: one.state for name, one in outcome.units.items()}


def sleepers(seconds: str = SLEEP) -> list[int]:
    """The processes that sleep so long."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if seconds in (process.info["cmdline"] or []):
            found.append(process.pid)
    return found


def until(condition: Callable[[], Any], timeout: float = 60.0) -> Any:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
    return found


@pytest.fixture
def started(folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`peira work` in a process of its own, on a plan file of this text."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(plan: str, *words: str) -> subprocess.Popen[bytes]:
        (folder / "plan.toml").write_text(plan)
        process = subprocess.Popen(
            [sys.executable, "-m", "peira", "work", "plan.toml", "--store", "w.db", "--json", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
