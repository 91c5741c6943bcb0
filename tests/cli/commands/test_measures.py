"""What `show`, `leaderboard`, `compare`, `effects`, `doctor` and `calls` say is what was asked for."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import peira as door
from peira.core.text.grid import fitted, plain

STUDY = """
import peira
from peira import exact, study

cases = [
    {"input": f"what is {i}?", "expected": str(i % 3), "metadata": {"src": "ab"[i % 2]}} for i in range(12)
]

@study(cases=cases, factors={"model": ["a-model-here", "other-model"], "style": ["short", "long"]},
       evaluators=[exact()])
def wide(case, model, style):
    number = int(case.input.split()[-1][:-1])
    peira.current_trial().report(steps=number)
    if number == 11 and style == "long" and model.startswith("a-"):
        raise ValueError("no")
    return str(number % 3) if model.startswith("a-") or number % 4 else "x"
"""


@pytest.fixture
def ran(peira: Callable[..., Any], folder: Path) -> str:
    (folder / "wide.py").write_text(STUDY)
    return str(peira("run", "wide.py", "--json").document["run"])


@pytest.mark.parametrize("name", ["took", "cost", "steps"])
def test_show_takes_seconds_cost_and_metrics(peira: Callable[..., Any], ran: str, name: str) -> None:
    rows = peira("show", "--score", name, "--json").document["table"]["rows"]
    assert [(row["score"], row["n"]) for row in rows] == [(name, 12), (name, 11), (name, 12), (name, 12)]
    assert [row["failed"] for row in rows] == [0, 1, 0, 0]
    refused = peira("show", "--score", "step")
    assert refused.problems == ["peira: no score 'step'; did you mean 'steps'?"]


def test_an_unknown_cost_is_no_mean(tmp_path: Path) -> None:
    def agent(case: Any) -> str:
        door.current_trial().report(calls=1, **({} if case.input == "a" else {"cost": 0.5}))
        return "x"

    study = door.Study(name="s", cases=["a", "b"], agent=agent)
    found = door.run(study, store=tmp_path / "s.db", progress=False)
    [row] = found.table(score="cost").body
    assert (row.mean, row.n, row.unscored) == (0.5, 1, 1)


def test_results_show_the_conditions_that_the_command_shows(peira: Callable[..., Any], ran: str) -> None:
    results = door.open(".peira/peira.db").results()
    assert results.table().rows == peira("show", "--json").document["table"]["rows"]
    assert len(results.table().rows) == 4
    assert len(results.table(overall=True).rows) == 1
    assert str(results.table()) in str(results)


def test_means_by_metadata_of_cases(peira: Callable[..., Any], ran: str) -> None:
    for name in ("src", "metadata.src"):
        rows = peira("show", "--by", name, "--json").document["table"]["rows"]
        assert [(row[name], row["cases"]) for row in rows] == [("a", 6), ("b", 6)]
    assert "b - a" in peira("compare", "--by", "src").out
    assert "known: " in peira("show", "--by", "nothing").err
    assert "src" in peira("show", "--by", "srk").err
    assert peira("leaderboard", "--by", "src").code == 0


def test_a_trial_is_shown_without_its_run(peira: Callable[..., Any], ran: str) -> None:
    [first, *_] = peira("show", "--trials", "--json").document["trials"]
    alone = peira("show", first["trial"][:10], "--json").document
    assert (alone["trial"], alone["run"]) == (first["trial"], ran)
    assert alone == peira("show", ran, first["trial"], "--json").document
    assert "no run and no trial 'abcd'" in peira("show", "abcd").err


def test_cases_without_an_id_are_shown_with_their_input(peira: Callable[..., Any], ran: str) -> None:
    for words in (("--trials",), ("--by", "case"), ("--failures",)):
        assert "what is 11?" in peira("show", *words).out
    [row, *_] = peira("show", "--by", "case", "--json").document["table"]["rows"]
    assert " " not in row["case"]


def test_a_renamed_agent_is_the_reason_why_trials_are_new(
    peira: Callable[..., Any], ran: str, folder: Path
) -> None:
    (folder / "other.py").write_text(STUDY.replace("def wide", "def renamed"))
    reasons = peira("plan", "other.py", "--json").document["reasons"]
    assert len(reasons) == 1
    assert "agent renamed is new (wide, run " in reasons[0]
    (folder / "same.py").write_text(
        STUDY.replace("def wide", "def renamed").replace("@study(", "@study(name='wide', ")
    )
    [reason] = peira("plan", "same.py", "--json").document["reasons"]
    assert reason.startswith("agent renamed is new (wide before;")
    (folder / "wide.py").write_text(STUDY.replace("range(12)", "range(13)").replace("def wide", "def third"))
    assert peira("plan", "wide.py", "--json").document["reasons"] == []


def test_p_values_look_alike_everywhere(tmp_path: Path) -> None:
    def agent(case: Any, model: str) -> str:
        return "x" if model == "a" else "y"

    study = door.Study(
        name="s",
        cases=[(str(n), "x") for n in range(60)],
        factors={"model": ["a", "b"]},
        agent=agent,
        evaluators=[door.exact()],
    )
    found = door.run(study, store=tmp_path / "s.db", progress=False)
    for value in (found.compare("model"), found.effects()):
        assert "e-" not in str(value)
        assert "< 0.001" in str(value)


@pytest.mark.parametrize("words", [("leaderboard",), ("compare", "--by", "model")])
def test_tables_fit_into_80_columns(ran: str, folder: Path, words: tuple[str, ...]) -> None:
    lines = in_terminal([*words], folder)
    table = lines[: max(at for at, line in enumerate(lines) if line.startswith(("rank ", "model "))) + 2]
    assert max(map(len, table)) <= 80
    assert len(table) >= 4
    assert len([line for line in lines if line.startswith(("rank ", "model "))]) in (2, 3)


def in_terminal(words: list[str], folder: Path) -> list[str]:
    """The lines that a command writes into a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "peira.cli", *words]
    with subprocess.Popen(command, stdout=theirs, cwd=folder, env=environment) as process:
        os.close(theirs)
        written = b""
        try:
            while more := os.read(ours, 65536):
                written += more
        except OSError:  # the end of a terminal on Linux
            pass
        assert process.wait() == 0
    os.close(ours)
    return written.decode().replace("\r", "").splitlines()


@given(
    st.lists(st.lists(st.text("abc", min_size=1, max_size=30), min_size=4, max_size=4), max_size=3),
    st.integers(10, 100),
    st.integers(1, 3),
)
def test_a_fitted_table_keeps_every_cell(rows: list[list[str]], width: int, keys: int) -> None:
    header = ["k", "l", "m", "n"]
    text = fitted(header, rows, width, keys)
    tables = text.split("\n\n") if rows else [text]
    assert all(table.startswith("k") for table in tables if table)
    if len(tables) == 1:
        assert text == plain(header, rows)
    for cell in {cell.strip() for row in rows for cell in row}:
        assert cell in text


def test_doctor_says_missing_for_what_is_not_there(
    folder: Path, ended: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own: what was found once is remembered."""
    monkeypatch.setenv("PATH", str(folder))
    said = ended("doctor")
    assert [line.split()[1] for line in said.out.splitlines() if line.startswith("missing")] != []
    assert any(line.startswith("missing  sandbox") for line in said.out.splitlines())
    checks = {one["name"]: one for one in ended("doctor", "--json").document["checks"]}
    assert checks["sandbox"]["missing"]
    assert checks["sandbox"]["ok"]


def test_a_call_is_shown_as_text(peira: Callable[..., Any], folder: Path) -> None:
    (folder / "peira.toml").write_text('[models.m]\nmodel = "scripted:x"\nanswers = ["wonderful answer"]\n')
    (folder / "call.py").write_text(
        "from peira import ask, study\n\n@study(cases=['hello'])\ndef call(case):\n"
        "    return ask('m', case.input).text\n"
    )
    assert peira("run", "call.py").code == 0
    key = peira("calls", "--json").document["calls"][0]["key"]
    said = peira("calls", key).out
    assert said.count("wonderful answer") == 2
    assert "eyJ" not in said


def test_a_gate_asks_about_a_part(peira: Callable[..., Any], ran: str) -> None:
    assert (
        peira("gate", "--min", "exact=0.7", "--where", "model=a-model-here", "--where", "style=short").code
        == 0
    )
    refused = peira("gate", "--min", "exact=0.7", "--where", "model=other-model", "--json")
    assert refused.code == 1
    [check] = refused.document["checks"]
    assert check["demand"] == "exact >= 0.7 where model == 'other-model'"
