"""What is started warm is a process of its own, in all that tests look at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from .warm import end_started

PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
ENDS = {
    "": 0,
    "raise SystemExit": 0,
    "raise SystemExit(3)": 3,
    "raise SystemExit('sorry')": 1,
    "1 / 0": 1,
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)": -15,
    "raise KeyboardInterrupt": -2,
    "import threading; threading.Thread(target=print, args=['late']).start()": 0,
    "import atexit; atexit.register(print, 'at the end')": 0,
}


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], list[str]]:
    def write(source: str) -> list[str]:
        (tmp_path / "script.py").write_text(source)
        return [sys.executable, str(tmp_path / "script.py")]

    return write


def ended(start: Callable[..., Any], command: list[str], **how: Any) -> tuple[int, str, str]:
    process = start(command, **PIPES, **how)
    out, err = process.communicate(timeout=50)
    return process.returncode, out, err.strip().rpartition("\n")[2]


@pytest.mark.parametrize("source", ENDS)
def test_it_ends_as_one_that_popen_starts(source, warm, script):
    command = script(f"print('begun')\n{source}\n")
    assert ended(warm.start, command) == ended(subprocess.Popen, command)
    assert ended(warm.start, command)[0] == ENDS[source]


def test_it_has_its_own_folder_environment_words_and_input(warm, script, tmp_path):
    command = script("import os, sys\nprint(os.getcwd(), sorted(os.environ), sys.argv[1:], sys.path[0])\n")
    command += ["one", "two words"]
    env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ} | {"OWN": "1"}
    how = {"cwd": tmp_path, "env": env, "stdin": subprocess.DEVNULL}
    _, here, _ = ended(warm.start, command, **how)
    assert here.startswith(str(tmp_path))
    assert "'OWN'" in here
    assert here.endswith(f"['one', 'two words'] {tmp_path}\n")
    assert "HOME" not in here


def test_it_is_asked_while_it_runs(warm, script):
    process = warm.start(
        script("for line in open(0): print(line * 2, end='', flush=True)"), stdin=-1, **PIPES
    )
    print("a", file=process.stdin, flush=True)
    assert [process.stdout.readline(), process.stdout.readline()] == ["a\n", "a\n"]
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.communicate() == ("", "")
    assert process.returncode == process.poll() == -9


def test_what_a_test_leaves_is_killed_with_its_children_also_if_it_stands(warm, script):
    source = "import os, subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)\n"
    process = warm.start(script(f"{source}os.kill(os.getpid(), 19)\n"), **PIPES)
    child = psutil.Process(int(process.stdout.readline()))
    end_started()
    assert process.returncode == -9
    child.wait(20)


def test_nothing_of_one_is_in_the_next(warm, script):
    command = script("import peira, os\nprint(hasattr(peira, 'left'), os.getpid())\npeira.left = 1\n")
    one, other = (ended(warm.start, command)[1].split() for _ in range(2))
    assert one[0] == other[0] == "False"
    assert one[1] != other[1]


def test_the_plug_is_pulled_where_the_environment_says(warm, script):
    command = script(
        "from peira.core.failpoints import reach\nprint('on', flush=True)\nreach('here')\nreach('here')\n"
    )
    assert ended(warm.start, command, env={**os.environ, "PEIRA_FAILPOINT": "here:2"})[:2] == (-9, "on\n")
    assert ended(warm.start, command)[:2] == (0, "on\n")


def test_the_command_line_is_the_one_that_is_installed(warm, tmp_path):
    for words in (["--version"], ["status"], ["nonsense"]):
        forked = ended(warm.start, ["peira", *words], cwd=tmp_path)
        assert forked == ended(subprocess.Popen, [sys.executable, "-m", "peira.cli", *words], cwd=tmp_path)


def test_folders_of_pythonpath_come_before_what_is_installed(warm, script, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "only_here.py").write_text("value = 7\n")
    command = script("import only_here, sys\nprint(only_here.value, sys.path[1])\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    assert ended(warm.start, command, env=env) == ended(subprocess.Popen, command, env=env)
    assert ended(warm.start, command, env=env)[:2] == (0, f"7 {tmp_path / 'site'}\n")
