"""A folder with studies in it, and `peira` called in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from peira.cli import main

CAPITALS = """
from peira import current_trial, match, step, study

@study(cases=[("France?", "Paris"), ("Japan?", "Tokyo")], factors={"model": ["a", "b"], "size": [1, 2]},
       repeats=2, evaluators=[match()], tags=["small"])
def capitals(case, model, size):
    print("the agent prints this")
    trial = current_trial()
    trial.log("asked", question=case.input)
    trial.report(tokens=3)
    trial.attach("note.txt", "hello")
    return "Paris" if step("look", len, case.input) else ""
"""

FAILING = """
from peira import exact, study

@study(cases=[("good", "good"), ("bad", "bad")], evaluators=[exact()])
def failing(case):
    if case.input == "bad":
        raise ValueError("no luck with this one")
    return "good"
"""

SLOW = """
import time
from peira import exact, study

@study(cases=[(f"q{n}", "a") for n in range(4000)], evaluators=[exact()])
def slow(case):
    time.sleep(0.05)
    return "a"
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def problems(self) -> list[str]:
        return self.err.splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with capitals.py, failing.py and slow.py in it."""
    for name, text in {"capitals": CAPITALS, "failing": FAILING, "slow": SLOW}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def peira(folder: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`peira ...` in this process."""

    def call(*arguments: str) -> Done:
        capfd.readouterr()
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def spawn(folder: Path, warm: Any) -> Iterator[Callable[..., Any]]:
    """`peira ...` in a process of its own, ended at the end of the test if it is still there."""
    started: list[Any] = []

    def start(*arguments: str) -> Any:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(warm.start(["peira", *arguments], cwd=folder, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def ended(spawn: Callable[..., Any]) -> Callable[..., Done]:
    """`peira ...` in a process of its own, to its end."""

    def call(*arguments: str) -> Done:
        process = spawn(*arguments)
        out, err = process.communicate(timeout=50)
        return Done(process.returncode, out, err)

    return call


@pytest.fixture
def under_way(peira: Callable[..., Done]) -> Callable[[int], dict[str, Any]]:
    """Wait until the newest run has so many trials done; where it stands then."""

    def wait(trials: int) -> dict[str, Any]:
        while True:
            if Path(".peira/peira.db").exists():
                found = peira("status", "--json")
                if found.code == 0 and found.document["progress"]["done"] >= trials:
                    return dict(found.document)
            time.sleep(0.05)

    return wait


@pytest.fixture
def stop_process() -> Iterator[list[int]]:
    """Processes to end after the test, if they are still there."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
