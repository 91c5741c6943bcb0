"""Studies of functions in files, so that their code can be edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peira.plan.expansion import expand
from peira.spec.study import Study

AGENT = """
from peira import study

def prefix(text):
    return "> " + text

def answer(case, style):
    return prefix(case.input) + style

def plain(case):
    return case.input
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


@pytest.fixture
def make(folder: Path) -> Callable[..., Study]:
    """The study of `answer`, with what is said otherwise."""

    def make(**fields: Any) -> Study:
        said = {
            "name": "s",
            "cases": [{"input": "one", "id": "1"}, {"input": "two", "id": "2"}],
            "factors": {"style": ["a", "b"]},
            **fields,
        }
        agent = {} if "agents" in said else {"agent": f"{folder}/agent.py:answer"}
        return Study.assemble({**agent, **said}, [folder])

    return make


@pytest.fixture
def ids(make: Callable[..., Study]) -> Callable[..., set[str]]:
    """The trial ids of that study."""

    def ids(generation: int = 0, **fields: Any) -> set[str]:
        layout = expand(make(**fields), generation=generation).layout
        found = [layout.trial_id(place) for place in layout.places()]
        assert len(set(found)) == len(found)
        return set(found)

    return ids


@pytest.fixture
def edit(folder: Path) -> Callable[[str, str], None]:
    """Replace a piece of the agent's file."""

    def edit(old: str, new: str) -> None:
        source = (folder / "agent.py").read_text()
        assert old in source
        (folder / "agent.py").write_text(source.replace(old, new))

    return edit
