"""Every option of every command, as the commands declare them, with values at the edge.

Nothing is listed here by name but what a command needs to get as far as its options, and what would not end:
a new command or option is fuzzed by itself.
"""

# ruff: noqa: E501
from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.cli import main
from peira.cli.app import COMMANDS, commands

CODES = {0, 1, 2, 3, 4, 130}
STUDY = """
from peira import Case, Factor, exact, study

@study(name="s", cases=[Case("a", expected="a", id="one"), Case("b", expected="x", id="two")],
       factors={"style": ["p", "q"], "size": [1, 2.5]}, evaluators=[exact()])
def s(case, style, size):
    return case.input
"""
ARGUMENTS = {
    "STUDY": "s.py",
    "[STUDY]": "s.py",
    "A": "s.py",
    "B": "s.py",
    "FILE": "out.jsonl",
    "WHAT": "s.py",
}
"""Arguments that let a command get as far as its options, by what their help calls them."""
ENDLESS = {("events", "--follow"), ("watch", ""), ("run", "--detach"), ("demo", ""), ("run", "--announce")}
ENDLESS |= {("serve", ""), ("view", ""), ("endpoint", "")}  # serve until they are told to end
"""What waits for something else, or takes minutes by itself; a command without an option stands for all."""

WHOLE = [
    "0",
    "-1",
    "1",
    "99999999999999999999",
    "-99999999999999999999",
    "9223372036854775808",
    "1e3",
    "٣",
    "",
]
REAL = ["0", "-0.0", "1", "-1", "0.5", "1e-320", "1e309", "-1e309", "nan", "inf", "1e400", "0x10", "", "1_0"]
TEXT = [
    *("", " ", "0", "-", "=", "a=b", "a=", ":", ".", "nosuch", "s.py", "/dev/null/x", "a:b:c"),
    *(
        "1" * 5000,
        "[" * 5000,
        "(" * 500,
        "x" * 300,
        "\x1b]0;owned\x07\u202e",
        "ü\ud83d\ude00",
        "%s%n{}",
        "*",
        "?",
    ),
    *(
        "99999999999999999999",
        "1e309",
        "1e-320",
        "nan",
        "-1",
        "http://localhost:99999999",
        "{",
        '{"a":',
        "\udcff",
    ),
]


def declared() -> Iterator[tuple[str, Any]]:
    """Every option that takes a value, and every argument, with its command."""
    group = commands()
    for name in COMMANDS:
        for param in group.get_command(None, name).params:
            if not getattr(param, "is_flag", False):
                yield name, param


def flags(command: str) -> list[str]:
    found = commands().get_command(None, command).params
    every = [option for param in found if getattr(param, "is_flag", False) for option in param.opts]
    return [option for option in every if (command, option) not in ENDLESS and option != "--wait"]


def values(param: Any) -> list[str]:
    kind = str(param.bare_type())
    return WHOLE if "int" in kind else REAL if "float" in kind else TEXT


def label(pair: tuple[str, Any]) -> str:
    return f"{pair[0]} {pair[1].opts[0]}"


PAIRS = sorted(declared(), key=label)


def arguments(command: str, but: Any = None) -> list[str]:
    """The arguments that a command needs, but for the one that is fuzzed."""
    params = commands().get_command(None, command).params
    needed = [p for p in params if not p.opts[0].startswith("-") and p.required and p is not but]
    return [ARGUMENTS.get(str(param.metavar), "nosuch") for param in needed]


def written(folder: Path) -> dict[str, str]:
    """What is in a folder, by name; logs and shared memory of SQLite are no content."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    kept = (path for path in files if not path.name.endswith(("-shm", "-wal", ".lock", ".pyc")))
    return {str(path.relative_to(folder)): content(path) for path in kept}


def content(path: Path) -> str:
    """A digest of what a file says. A store is owned, and its log emptied, also by who writes nothing to it."""
    if path.suffix != ".db":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    with closing(sqlite3.connect(path)) as store:
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        said = [
            repr(list(store.execute(f"SELECT * FROM {name}"))) for name in sorted(tables) if name != "meta"
        ]
    return hashlib.sha256("".join(said).encode()).hexdigest()


Attempt = Callable[[list[str]], int]


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and a store in which it was run, to be copied."""
    folder = tmp_path_factory.mktemp("studied")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("s.py").write_text(STUDY)
        assert main(["run", "s.py", "--store", "a.db", "--quiet"]) == 0
    return folder


@pytest.fixture
def attempt(
    studied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Attempt:
    shutil.copytree(studied, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def attempt(words: list[str]) -> int:
        before = written(tmp_path)
        code = main([*words, "--store", "a.db"])
        said = capfd.readouterr()
        assert code in CODES, words
        assert "Traceback" not in said.err, words
        if code == 2:
            assert written(tmp_path) == before, words
            assert said.err.startswith("peira: "), (words, said.err)
            assert all(len(line) < 2000 for line in said.err.splitlines()), (words, "a line without an end")
        return code

    return attempt


def given_words(command: str, param: Any, value: str) -> list[str]:
    option = param.opts[-1] if len(param.opts[-1]) > 2 else param.opts[0]
    if not option.startswith("-"):
        return [command, *arguments(command, param), "--", value] if value[:1] == "-" else [command, value]
    return [
        command,
        *arguments(command),
        *([f"{option}={value}"] if param.nargs == 1 else [option, value, value]),
    ]


def endless(command: str, param: Any) -> bool:
    return (command, "") in ENDLESS or (command, param.opts[0]) in ENDLESS


@pytest.mark.parametrize("pair", PAIRS, ids=label)
def test_an_option_meets_values_at_the_edge(pair: tuple[str, Any], attempt: Attempt) -> None:
    command, param = pair
    if endless(command, param):
        pytest.skip("it waits, or takes minutes by itself")
    if param.opts[0] == "--store":
        return
    drawn = random.Random(label(pair)).sample(values(param), 3)
    for value in drawn:
        attempt(given_words(command, param, value))


@pytest.mark.torture
@pytest.mark.parametrize("pair", PAIRS, ids=label)
def test_an_option_meets_every_value_at_the_edge(pair: tuple[str, Any], attempt: Attempt) -> None:
    command, param = pair
    if endless(command, param):
        pytest.skip("it waits, or takes minutes by itself")
    for value in values(param):
        attempt(given_words(command, param, value))


@pytest.mark.torture
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_options_meet_one_another(attempt: Attempt, data: st.DataObject) -> None:
    known = sorted({command for command, param in PAIRS if not endless(command, param)})
    command = data.draw(st.sampled_from(known))
    own = [param for name, param in PAIRS if name == command and param.opts[0].startswith("--")]
    own = [param for param in own if param.opts[0] != "--store" and not endless(command, param)]
    words = [command, *arguments(command)]
    for param in data.draw(st.lists(st.sampled_from(own), max_size=4)) if own else []:
        value = data.draw(
            st.sampled_from(values(param)) | st.text(st.characters(blacklist_characters="\0"), max_size=9)
        )
        words += given_words(command, param, value)[1 + len(arguments(command)) :]
    if flags(command):
        words += data.draw(st.lists(st.sampled_from(flags(command)), max_size=2, unique=True))
    attempt(words)
