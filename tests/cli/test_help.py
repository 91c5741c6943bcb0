"""Every help text: short enough to read, with an example, in 80 columns."""

from __future__ import annotations

import pytest

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
