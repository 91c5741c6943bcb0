"""Studies written to files, as people write them, and run here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from peira.core.registry import registry

Written = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def written(folder: Path) -> Written:
    """A study file, by its source."""

    def write(source: str, name: str = "s.py") -> Path:
        (folder / name).write_text(source)
        return folder / name

    return write


@pytest.fixture
def hooked() -> Iterator[Callable[[Any], Any]]:
    """Listen to the life cycle for the length of a test."""
    listeners: list[Any] = []

    def hook(listener: Any) -> Any:
        registry.hook(listener)
        listeners.append(listener)
        return listener

    yield hook
    for listener in listeners:
        registry.unhook(listener)
