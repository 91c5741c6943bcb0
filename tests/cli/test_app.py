"""Errors in one form, exit codes, and a quick start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peira.cli.app import COMMANDS


def test_every_problem_is_one_line_and_nothing_is_written(peira, folder):
    (folder / "bad.py").write_text(
        "from peira import study\n@study(cases=[], factors={'x': [1, 1]}, evaluators=['exakt'], repeats=0)\n"
        "def bad(case): ...\n"
    )
    before = sorted(folder.iterdir())
    done = peira("run", "bad.py")
    assert done.code == 2
    assert done.out == ""
    assert len(done.problems) >= 4
    assert all(line.startswith("peira: ") for line in done.problems)
    assert "Traceback" not in done.err
    assert "did you mean 'exact'" in done.err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "no such command 'rnu'; did you mean 'run'?"),
        (["run", "capitals.py", "--paralel", "2"], "no such option --paralel; did you mean '--parallel'?"),
        (["run"], "missing argument 'STUDY'"),
        (["run", "capitals.py", "--parallel", "many"], "'--parallel'"),
        (["run", "capitals.py", "--parallel", "0"], "parallel: must be at least 1"),
        (["run", "capitals.py", "--runner", "lokal"], "did you mean 'local'?"),
        (["run", "capitals.py", "--stage", "generat"], "did you mean 'generate'?"),
        (["run", "capitals.py", "--timeout", "soon"], "timeout: 'soon' is not a duration"),
        (["run", "capitals.py", "--limit", "0"], "limit: must be at least 1"),
        (["run", "capitals.py", "--where", "modle=a"], "no 'modle' in this study; did you mean 'model'?"),
        (["run", "capitals.py", "--where", "model =="], "where: "),
        (["run", "capitals.py", "--where", "model < 3"], "model < 3"),
        (["run", "capitols.py"], "capitols.py: there is no such file; did you mean 'capitals.py'?"),
        (["run", "capitals.py:nothing"], "nothing"),
        (["run", "capitals"], "'capitals' is no study"),
        (["run", "abcdef12"], "no run 'abcdef12': there is no store"),
        (["plan", "abcdef12"], "no run 'abcdef12': there is no store"),
        (["score", "capitals.py"], "nothing to score"),
        (["runs"], "there is no store"),
        (["status"], "there is no store"),
        (["show"], "there is no store"),
        (["watch"], "there is no store"),
        (["events"], "there is no store"),
        (["cancel", "abcd"], "there is no store"),
        (["verify"], "there is no store"),
    ],
)
def test_wrong_use_is_told_and_leaves_nothing_behind(peira, folder, words, said):
    done = peira(*words)
    assert (done.code, done.out) == (2, "")
    assert all(line.startswith("peira: ") for line in done.problems)
    assert said in done.err
    assert not (folder / ".peira").exists()


def test_a_store_that_cannot_be_written_is_a_line(peira, folder):
    done = peira("run", "capitals.py", "--store", "capitals.py/store.db")
    assert done.code == 1
    assert done.problems[-1].startswith("peira: ")
    assert "Traceback" not in done.err


def test_without_a_command_it_says_what_there_is(peira):
    done = peira()
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)


def test_it_says_its_version(peira):
    assert peira("--version").out.startswith("peira 0.")


def test_a_reader_that_leaves_early_is_no_error(peira, spawn, folder):
    peira("run", "capitals.py")
    process = spawn("events", "--limit", "1000")
    process.stdout.close()
    process.wait()
    assert process.stderr.read() == ""


def test_help_imports_no_command_and_nothing_slow():
    code = (
        "import sys; from peira.cli import main; main(['--help']);"
        "slow = {'rich', 'scipy', 'pandas', 'matplotlib'}"
        "      | {'peira.cli.commands.run', 'peira.cli.commands.runs'};"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_reference_page_is_up_to_date():
    generate = Path(__file__).parents[2] / "docs" / "generate.py"
    done = subprocess.run([sys.executable, generate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf_8_gets_escapes(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "s.py").write_text(
        "from peira import study\n"
        "@study(cases=['ä → 日'], evaluators=['refusal'])\n"
        "def städte(case):\n"
        "    return '✓'\n"
    )
    (tmp_path / "peira.toml").touch()
    surroundings = {
        **os.environ,
        "PYTHONIOENCODING": encoding,
        "PYTHONUTF8": "0",
        "LC_ALL": "C",
        "PYTHONWARNINGS": "error",
    }
    for command in (["run", "s.py"], ["show", "--trials"], ["plan", "s.py"], ["show", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "peira", *command],
            cwd=tmp_path,
            env=surroundings,
            capture_output=True,
            check=False,
        )
        assert (done.returncode == 0, b"Traceback" in done.stderr) == (True, False), done.stderr
