"""Studies written to files, as people write them, and run here or in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def written(folder: Path) -> Callable[..., Path]:
    """A study file, by its source."""

    def write(source: str, name: str = "s.py") -> Path:
        (folder / name).write_text(source)
        return folder / name

    return write


@pytest.fixture
def spawned(folder: Path, warm: Any) -> Callable[..., Any]:
    """A Python file run in a process of its own."""

    def spawn(name: str = "s.py", **env: str) -> Any:
        command = [sys.executable, name]
        return warm.start(command, cwd=folder, stderr=subprocess.DEVNULL, env={**os.environ, **env})

    return spawn


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait until something is so."""

    def until(so: Callable[[], object], seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not so():
            assert time.monotonic() < end, "it never came to be"
            time.sleep(0.01)

    return until
