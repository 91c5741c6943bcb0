"""In a real terminal, nothing that a model, a case or a file says reaches it as a control sequence."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

OWNED = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eevil\u2066"
STUDY = f"""
from peira import Case, Factor, Level, exact, study, current_trial

HOSTILE = {OWNED!r}

@study(name="hostile", title="title" + HOSTILE, description=HOSTILE, tags=["tag" + HOSTILE],
       cases=[Case("q" + HOSTILE, expected="right" + HOSTILE, id="case" + HOSTILE, slice="slice" + HOSTILE,
                   metadata={{"note": HOSTILE}}), Case("bad", expected="x", id="bad")],
       factors={{"style" + "": [HOSTILE + "a", HOSTILE + "b"]}}, evaluators=[exact()])
def hostile(case, style):
    current_trial().log("log" + HOSTILE, said=HOSTILE)
    if case.input == "bad":
        raise ValueError("failed" + HOSTILE)
    return "right" + HOSTILE if style.endswith("a") else HOSTILE
"""
RAW = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\r*\n)|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae\x8e\x8f\xa8\xa9]|\xe2\x81[\xa6-\xa9]"
)
COMMANDS = [
    ["show"],
    ["show", "--failures"],
    ["show", "--trials"],
    ["show", "--json"],
    ["runs"],
    ["runs", "--json"],
    ["status"],
    ["events"],
    ["compare", "--by", "style"],
    ["leaderboard", "--by", "style"],
    ["effects"],
    ["slices"],
    ["plan"],
    ["estimate"],
    ["design"],
    ["calls"],
    ["quantiles"],
    ["hypotheses"],
    ["verify"],
    ["gate", "--min", "exact=2"],
    ["export", "-o", "out.jsonl"],
    ["report", "-o", "out.md"],
]
OF_STUDIES = ("plan", "estimate", "design")


def in_a_terminal(folder: Path, *words: str) -> tuple[int, bytes]:
    """What a terminal gets of the command, and its exit code."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "peira.cli", *words]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        got = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            got += piece
        os.close(ours)
        return process.wait(), got


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(STUDY)
    code, got = in_a_terminal(folder, "run", "hostile.py", "--store", "store.db")
    assert code == 1, got.decode(errors="replace")
    # The progress bar moves the cursor; what the study says must not.
    for sequence in (b"\x1b]0;owned", b"\x1b[2J", b"\xc2\x9b", "\u202e".encode(), "\u2066".encode()):
        assert sequence not in got
    return folder


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_raw_control_character_reaches_the_terminal(folder: Path, words: list[str]) -> None:
    given = ["hostile.py"] if words[0] in OF_STUDIES else []
    code, got = in_a_terminal(folder, *words, *given, "--store", "store.db")
    assert code in (0, 1), got.decode(errors="replace")
    assert (found := RAW.search(got)) is None, got[found.start() - 200 : found.end() + 50]


def test_one_trial_shows_everything_that_was_said_and_steers_nothing(folder: Path) -> None:
    _, listed = in_a_terminal(folder, "show", "--trials", "--store", "store.db")
    trials = re.findall(rb"^([0-9a-f]{12})", listed, flags=re.M)
    assert trials
    for trial in trials:
        run = re.search(rb"run ([0-9a-f]{12})", in_a_terminal(folder, "show", "--store", "store.db")[1])
        assert run is not None
        code, got = in_a_terminal(folder, "show", run[1].decode(), trial.decode(), "--store", "store.db")
        assert code == 0
        assert rb"\x1b]0;owned" in got
        assert RAW.search(got) is None


def test_a_wrong_word_is_repeated_harmlessly(folder: Path) -> None:
    for words in (["show", OWNED], ["runs", "--study", OWNED], [OWNED], ["compare", "--by", OWNED]):
        _, got = in_a_terminal(folder, *words, "--store", "store.db")
        assert RAW.search(got) is None, got
