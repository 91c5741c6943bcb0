from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from uuid import uuid4

import psutil
import pytest

from peira.sandbox.process_tree import LABEL, end, labelled, members

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are forked and signalled")

# What every script below can use; a process says its pid once it stands.
PRELUDE = """
import os, signal, subprocess, sys, time

def say(word):
    os.write(1, f"{word}\\n".encode())

def rest():
    say(os.getpid())
    time.sleep(600)

def child(what):
    if os.fork() == 0:
        what()
        os._exit(0)

def orphan(what):
    def middle():
        os.setsid()
        child(what)
    child(middle)
    os.wait()
"""
Spawn = Callable[..., tuple[subprocess.Popen[str], list[int]]]


@pytest.fixture
def label() -> Iterator[str]:
    name = f"test-{uuid4().hex}"
    yield name
    end(name)


@pytest.fixture
def spawn(label: str) -> Iterator[Spawn]:
    """Start a script as a tree's root; returns it with the pids that its `count` processes said."""
    started: list[subprocess.Popen[str]] = []

    def start(
        script: str, count: int, env: dict[str, str] | None = None
    ) -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", PRELUDE + script]
        env = labelled(os.environ, label) if env is None else env
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, [int(process.stdout.readline()) for _ in range(count)]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def living(pids: list[int]) -> list[int]:
    def lives(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in pids if lives(pid)]


def test_the_label_is_added_to_a_copy() -> None:
    env = {"PATH": "/bin", LABEL: "outer"}
    assert labelled(env, "inner") == {"PATH": "/bin", LABEL: "inner"}
    assert env[LABEL] == "outer"


def test_members_are_the_labelled_however_they_detached(spawn: Spawn, label: str) -> None:
    root, pids = spawn("child(rest); orphan(rest); rest()", 3)
    assert root.pid in pids
    assert sorted(process.pid for process in members(label)) == sorted(pids)
    assert members(label[:-1]) == members(label + "x") == []


def test_background_and_double_forked_grandchildren_are_ended(spawn: Spawn, label: str) -> None:
    root, pids = spawn("child(lambda: child(rest) or rest()); orphan(rest); rest()", 4)
    assert end(label, root.pid) == 4
    assert living(pids) == []
    assert members(label, root.pid) == []


def test_a_grandchild_that_holds_stdout_keeps_no_reader_waiting(spawn: Spawn, label: str) -> None:
    root, _ = spawn("orphan(rest)", 1)
    root.wait()
    assert end(label, root.pid) == 1
    assert root.stdout is not None
    assert root.stdout.read() == ""


def test_the_exit_status_stays_with_whoever_started_it(spawn: Spawn, label: str) -> None:
    root, _ = spawn("rest()", 1)
    assert end(label) == 1
    assert root.wait() == -signal.SIGKILL


def test_one_that_ignores_sigterm_is_killed_after_its_grace(spawn: Spawn, label: str) -> None:
    root, pids = spawn("signal.signal(signal.SIGTERM, signal.SIG_IGN); child(rest); rest()", 2)
    assert end(label, root.pid, grace=0.1) == 2
    assert living(pids) == []
    assert root.wait() == -signal.SIGKILL


TIDY = """
def tidy(*_):
    say("goodbye")
    os._exit(7)

signal.signal(signal.SIGTERM, tidy)
rest()
"""


def test_grace_lets_a_process_tidy_up(spawn: Spawn, label: str) -> None:
    root, _ = spawn(TIDY, 1)
    assert end(label, grace=30) == 1
    assert root.stdout is not None
    assert root.stdout.read() == "goodbye\n"
    assert root.wait() == 7


def test_no_grace_asks_nobody(spawn: Spawn, label: str) -> None:
    root, _ = spawn(TIDY, 1)
    assert end(label) == 1
    assert root.stdout is not None
    assert root.stdout.read() == ""


def test_a_stopped_process_is_asked_and_ended_too(spawn: Spawn, label: str) -> None:
    root, _ = spawn(TIDY, 1)
    root.send_signal(signal.SIGSTOP)
    assert end(label, grace=30) == 1
    assert root.wait() == 7


SCRUB = """
SLEEPER = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]

def scrub():
    os.execve(SLEEPER[0], SLEEPER, {})

"""


def test_descendants_that_scrub_their_environment_are_ended(spawn: Spawn, label: str) -> None:
    root, pids = spawn(SCRUB + "child(scrub); orphan(lambda: child(scrub) or rest()); rest()", 4)
    assert sorted(process.pid for process in members(label, root.pid)) == sorted(pids)
    assert end(label, root.pid) == 4
    assert living(pids) == []


def test_a_root_that_scrubbed_its_own_environment_is_ended(spawn: Spawn, label: str) -> None:
    root, pids = spawn("child(rest); rest()", 2, env={})
    assert members(label) == []
    assert end(label, root.pid) == 2
    assert living(pids) == []


BREEDER = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.fork())
print(os.getpid(), flush=True)
while True:
    time.sleep(600)
"""


def test_scrubbed_processes_are_not_lost_when_their_parent_obeys_sigterm(spawn: Spawn, label: str) -> None:
    breeder = f"child(lambda: os.execve(sys.executable, [sys.executable, '-c', {BREEDER!r}], {{}}))"
    root, pids = spawn(f"{breeder}; rest()", 2)
    assert end(label, root.pid, grace=1) == 3
    assert living(pids) == []
    assert root.stdout is not None
    assert root.stdout.read() == ""


def test_a_tree_that_keeps_forking_is_ended(spawn: Spawn, label: str) -> None:
    spawn("say(os.getpid())\nfor _ in range(300): orphan(lambda: time.sleep(600)); time.sleep(0.001)", 1)
    assert end(label) >= 1
    assert members(label) == []


# Each holds the writing end of its own pipe and watches all others: whoever dies first is avenged.
AVENGERS = """
import select
pipes = [os.pipe() for _ in range(6)]

def watch(own):
    for pipe in pipes:
        if pipe is not own:
            os.close(pipe[1])
    say(os.getpid())
    select.select([pipe[0] for pipe in pipes if pipe is not own], [], [])
    child(lambda: os.execve("/bin/sh", ["sh", "-c", "echo avenged"], {}))

for pipe in pipes:
    child(lambda: watch(pipe))
for pipe in pipes:
    os.close(pipe[1])
rest()
"""


def test_none_can_fork_away_while_the_others_are_ended(spawn: Spawn, label: str) -> None:
    root, _ = spawn(AVENGERS, 7)
    assert end(label, root.pid) == 7
    assert root.stdout is not None
    assert root.stdout.read() == ""


def test_bystanders_survive(spawn: Spawn, label: str) -> None:
    plain = {name: value for name, value in os.environ.items() if name != LABEL}
    _, unlabelled = spawn("rest()", 1, env=plain)
    _, other = spawn("rest()", 1, env=labelled(os.environ, label + "-other"))
    _, mentions = spawn("rest()", 1, env={**plain, "NOTE": f"x {LABEL}={label}", "MY_" + LABEL: label})
    root, pids = spawn("child(rest); rest()", 2)
    assert end(label, root.pid, grace=0.1) == 2
    assert living(pids) == []
    bystanders = unlabelled + other + mentions
    assert living(bystanders) == bystanders
    assert {psutil.Process(pid).status() for pid in bystanders}.isdisjoint({psutil.STATUS_STOPPED})


def test_a_root_that_is_no_longer_ours_is_taken_for_a_stranger(spawn: Spawn, label: str) -> None:
    launcher, [stranger] = spawn("orphan(rest)", 1, env=labelled(os.environ, label + "-other"))
    launcher.wait()
    try:
        assert members(label, stranger) == []
        assert end(label, stranger) == 0
        assert living([stranger]) == [stranger]
    finally:
        assert end(label + "-other") == 1


@pytest.mark.parametrize("root", [None, 2**22 + 1])
def test_nothing_to_end(label: str, root: int | None) -> None:
    assert members(label, root) == []
    assert end(label, root, grace=5) == 0


ENDS_ITS_OWN_TREE = """
import os, sys
sys.path[:] = os.environ["PATHS"].split(os.pathsep)
from peira.sandbox.process_tree import LABEL, end
print(end(os.environ[LABEL], root=os.getpid()), flush=True)
"""


def test_it_never_ends_itself_or_its_ancestors(spawn: Spawn, label: str) -> None:
    env = labelled({**os.environ, "PATHS": os.pathsep.join(sys.path)}, label)
    script = f"child(rest); subprocess.run([sys.executable, '-c', {ENDS_ITS_OWN_TREE!r}]); rest()"
    root, said = spawn(script, 3, env=env)
    child, ended, survivor = said
    assert ended == 1
    assert living([child]) == []
    assert survivor == root.pid
    assert living([survivor]) == [survivor]


DYING_ANCESTORS = """
import ctypes, os, sys, time

from peira.sandbox.process_tree import end

# The first is a subreaper that reaps at once. Below it is a chain of parents that end one by one, while
# the last process of the chain ends a tree.
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    for depth in range(40):
        if os.fork():
            time.sleep(0.01 + depth * 0.005)
            os._exit(0)
    for _ in range(40):
        end(sys.argv[1])
    os.write(1, b"ended")
    os._exit(0)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="subreapers are Linux's")
def test_ancestors_may_end_meanwhile(label: str) -> None:
    """As when the owner of a worker is killed, and reaped while the worker ends what it had started."""
    ended = subprocess.run([sys.executable, "-c", DYING_ANCESTORS, label], capture_output=True, timeout=50)
    assert (ended.stdout, ended.stderr) == (b"ended", b"")
