from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.errors import Invalid, ProcessDied
from peira.sandbox.confinement import Limits, confinement, interpreter
from peira.sandbox.run import ProcessOutcome, run_confined

confined = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")


def python(code: str, **options: Any) -> ProcessOutcome:
    return run_confined([interpreter(), "-S", "-s", "-P", "-B", "-c", code], **options)


@confined
def test_what_it_says_and_how_it_ends() -> None:
    outcome = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (outcome.exit, outcome.stdout, outcome.stderr) == (7, b"out\n", b"err\n")
    assert (outcome.killed_by, outcome.timed_out, outcome.confined) == ("", False, True)
    assert outcome.seconds > 0


@confined
@settings(max_examples=5)
@given(st.binary(max_size=300_000))
def test_standard_input_is_given_whole(given: bytes) -> None:
    assert run_confined(["cat"], stdin=given).stdout == given


@confined
def test_files_go_in_and_come_out() -> None:
    code = "open('new', 'w').write(open('a/b/old').read() * 2); print(open('a/b/old', 'a').write('x'))"
    outcome = python(code, files={"a/b/old": b"12", "empty": b""}, keep=["new", "a/b/old", "empty"])
    assert outcome.files == {"new": b"1212", "a/b/old": b"12x", "empty": b""}
    assert outcome.stdout == b"1\n"


@confined
def test_files_come_out_of_what_was_ended_too() -> None:
    code = "import time; open('left', 'w').write('this'); time.sleep(60)"
    outcome = python(code, keep=["left"], limits=Limits(seconds=1))
    assert (outcome.killed_by, outcome.exit, outcome.files) == ("time", None, {"left": b"this"})


@confined
def test_standard_input_is_its_own_when_files_are_kept() -> None:
    outcome = python("print(open(0).read())", stdin=b"two\nlines", keep=["none"])
    assert (outcome.stdout, outcome.files) == (b"two\nlines\n", {})


@confined
def test_an_end_by_a_signal_is_told() -> None:
    outcome = python("import os; os.kill(os.getpid(), 6)")
    assert (outcome.exit, outcome.killed_by) == (134, "SIGABRT")


@confined
def test_a_program_that_is_not_there_is_an_exit_and_no_failure_of_ours() -> None:
    outcome = run_confined(["no-such-program"])
    assert outcome.exit == 127
    assert b"no-such-program" in outcome.stderr


@confined
def test_a_sandbox_that_fails_is_not_the_code_s_fault() -> None:
    with pytest.raises(ProcessDied, match="the sandbox failed before the code began: bwrap"):
        run_confined(["true"], files={"a": b"", "a/b": b""})


@confined
def test_no_descriptor_and_no_child_is_left_in_this_process() -> None:
    def all_kinds(_: int = 0) -> None:
        python("print(input())", stdin=b"x" * 100_000, files={"a/b": b"1"}, keep=["a/b"])
        python("import time; time.sleep(60)", limits=Limits(seconds=0.1))
        with pytest.raises(ProcessDied):
            run_confined(["true"], files={"a": b"", "a/b": b""})
        with pytest.raises(ValueError, match="null byte"):
            run_confined(["\0"])

    all_kinds()
    here = psutil.Process()
    before = here.num_fds(), here.children(recursive=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(all_kinds, range(8)))
    assert (here.num_fds(), here.children(recursive=True)) == before


@confined
def test_common_tools_of_python_work() -> None:
    code = """
import concurrent.futures, hashlib, multiprocessing, random, sqlite3, tempfile, threading
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, range(10))) == list(range(10))
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(abs, range(4))) == list(range(4))
    with tempfile.TemporaryFile() as file:
        file.write(random.randbytes(10))
    print(hashlib.sha256(b"").hexdigest()[:4], sqlite3.connect("x.db").execute("select 1").fetchone())
"""
    outcome = python(code)
    assert (outcome.stdout, outcome.stderr) == (b"e3b0 (1,)\n", b"")


@confined
def test_variables_are_those_that_are_given() -> None:
    assert python("import os; print(os.environ['MINE'])", env={"MINE": "yes"}).stdout == b"yes\n"


@pytest.mark.parametrize("name", ["../up", "/abs", ""])
def test_files_outside_the_folder_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is not the name of a file"):
        run_confined(["true"], files={name: b""}, allow_unconfined=True)
    with pytest.raises(Invalid, match="is not the name of a file"):
        run_confined(["true"], keep=[name], allow_unconfined=True)


def test_all_wrong_limits_are_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        Limits(seconds=0, memory=-1, processes=True, disk=1.5)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4


UNCONFINED = """
import sys
from peira.errors import Invalid
from peira.sandbox.run import run_confined
from peira.sandbox.confinement import Limits

def run(code, seconds=20.0, allow=True, **options):
    limits = Limits(seconds=seconds, output=1000)
    return run_confined([sys.executable, "-S", "-c", code], limits=limits, allow_unconfined=allow, **options)

"""


def without_bubblewrap(code: str, tmp_path: Path) -> list[str]:
    """What a script prints on a machine that has no bubblewrap: none of its programs can be found."""
    env = {**os.environ, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", UNCONFINED + code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
    return done.stdout.splitlines()


def test_without_bubblewrap_nothing_runs(tmp_path: Path) -> None:
    script = "try: run('print(1)', allow=False)\nexcept Invalid as problem: print(problem)"
    [line] = without_bubblewrap(script, tmp_path)
    assert line.startswith("run_confined: code runs under bubblewrap only; not found: bwrap")
    assert line.endswith(
        "install it (apt-get install bubblewrap util-linux), or allow code to run unconfined"
    )


def test_unless_it_is_allowed_and_then_the_outcome_says_so(tmp_path: Path) -> None:
    code = "import os; open('b', 'w').write(open('a').read()); print(input(), len(os.environ) < 9)"
    script = f"found = run({code!r}, files={{'a': b'in'}}, stdin=b'said', keep=['b'])\n"
    script += "print(found.confined, found.exit, found.files, found.stdout)"
    assert without_bubblewrap(script, tmp_path) == ["False 0 {'b': b'in'} b'said True\\n'"]


def test_the_end_of_cpu_time_is_a_signal_that_says_so(tmp_path: Path) -> None:
    """With equal limits the kernel sends SIGKILL."""
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    script = f"found = run({code!r}, 30.0)\nprint(found.stdout.decode().strip())"
    assert without_bubblewrap(script, tmp_path) == ["(30, 31)"]


@pytest.mark.parametrize(
    ("code", "ended_by", "seconds"),
    [
        ("import time; time.sleep(60)", "time", 0.5),
        ("while True: print('x' * 100)", "output", 20),
        ("while True: pass", "cpu", 0.9),
        ("x = bytearray(1 << 40)", "", 20),
        ("import os\nif os.fork() == 0: import time; time.sleep(60)", "", 20),
    ],
)
def test_unconfined_code_is_bounded_and_its_tree_ended(
    tmp_path: Path, code: str, ended_by: str, seconds: float
) -> None:
    script = f"found = run({code!r}, {seconds})\nprint(found.killed_by or found.exit)\n"
    script += "import psutil; print(len(psutil.Process().children()))"
    [how, left] = without_bubblewrap(script, tmp_path)
    assert how in ({"time", "cpu"} if ended_by in ("time", "cpu") else {ended_by} if ended_by else {"0", "1"})
    assert left == "0"
