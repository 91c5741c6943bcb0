"""The page for those who come from other tools: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from peira.app.catalogue import LISTED
from peira.cli.app import COMMANDS
from peira.report import PLOTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] != "there"], ids=lambda row: row[0][:40])
def test_every_row_names_tests_that_exist(row: list[str]) -> None:
    _, here, tests = row
    assert here
    named = re.findall(r"`([\w/]+\.py)`", tests)
    assert named, tests
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_command_and_list_it_names_exists() -> None:
    words = set(re.findall(r"`peira (\w+)", PAGE))
    assert words - {*COMMANDS, "plan", "run"} == set()
    assert set(re.findall(r"`peira list ([a-z-]+)", PAGE)) - {*LISTED} == set()
    assert {"distribution", "costs", "seconds", "pareto"} <= {*PLOTS}
