"""Every help text: short enough to read, with an example, in 80 columns."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from peira import cli
from peira.cli.app import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_as_the_list_says_and_has_an_example(peira, name):
    done = peira(name, "--help")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0].startswith(f"Usage: peira {name}")
    assert lines[2].strip() == COMMANDS[name][1]
    assert "Examples:" in done.out
    assert f"    peira {name}" in done.out
    assert "--store PATH" in done.out
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"init", "demo"}))
def test_whatever_shows_something_can_show_it_to_programs(peira, name):
    assert "--json" in peira(name, "-h").out


def test_no_hidden_option_is_shown(peira):
    assert "announce" not in peira("run", "-h").out


def test_an_option_that_commands_share_is_declared_once():
    """One of the same flag with the same words is the same option: it belongs in cli/options.py."""
    declared = Counter(
        tuple(
            ast.unparse(part) for part in (*call.args, *call.keywords) if "callback" not in ast.unparse(part)
        )
        for path in Path(cli.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("typer.Option", "typer.Argument")
    )
    assert len(declared) > 100
    assert [words for words, times in declared.items() if times > 1] == []
