"""Code that means harm is contained, and leaves no process and no file behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from peira.sandbox.confinement import MIB, Limits, confinement, interpreter
from peira.sandbox.run import ProcessOutcome, run_confined

pytestmark = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")

SMALL = Limits(seconds=1, memory=128 * MIB, processes=16, disk=4 * MIB, entries=500, output=10_000)
PRELUDE = """
import os, signal, sys, time

def tries(what, *arguments):
    try:
        what(*arguments)
    except OSError as problem:
        print("refused", problem.errno)
    else:
        print("DONE", what, *arguments)

"""
Hostile = Callable[..., ProcessOutcome]


@pytest.fixture
def marker() -> Iterator[str]:
    mark = f"hostile-{uuid4().hex}"
    yield mark
    for pid in living(mark):  # only where a test has failed
        os.kill(pid, signal.SIGKILL)


def living(marker: str) -> list[int]:
    """All processes that were started with the marker, and what they forked."""
    found = []
    for process in psutil.process_iter():
        try:
            if marker in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture
def hostile(marker: str) -> Iterator[Hostile]:
    """Runs code under small limits; when it has returned, nothing is left."""

    def run(code: str, *arguments: object, limits: Limits = SMALL, **options: object) -> ProcessOutcome:
        flags = ["-S", "-s", "-P", "-B", "-c"]
        argv = [interpreter(), *flags, PRELUDE + code, *map(str, arguments), marker]
        outcome = run_confined(argv, limits=limits, **options)  # type: ignore[arg-type]
        assert living(marker) == []
        assert outcome.confined
        return outcome

    before = set(os.listdir(tempfile.gettempdir()))
    yield run
    named = [name for name in set(os.listdir(tempfile.gettempdir())) - before if marker in name]
    assert named == []


def said(outcome: ProcessOutcome) -> list[str]:
    assert outcome.exit == 0, outcome
    return outcome.stdout.decode().splitlines()


def refused(outcome: ProcessOutcome) -> bool:
    lines = said(outcome)
    return bool(lines) and all(line.startswith("refused") for line in lines)


def test_a_fork_bomb_is_bounded_and_ended(hostile: Hostile) -> None:
    # It stops by itself at 300 processes: should the sandbox ever fail, this machine must not.
    bomb = """
import mmap
made = mmap.mmap(-1, 2)
while made[1] < 3:
    try:
        if os.fork() == 0:
            made[1] += made[0] == 99
            made[0] = (made[0] + 1) % 100
    except OSError:
        time.sleep(0.01)
print("off")
time.sleep(60)
"""
    outcome = hostile(bomb)
    assert outcome.timed_out
    assert outcome.stdout == b""


def test_there_are_no_more_processes_than_allowed(hostile: Hostile) -> None:
    count = """
children = 0
try:
    while children < 100:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError:
    print(children)
"""
    [children] = said(hostile(count))  # itself is one; without root, bubblewrap's own is another
    assert SMALL.processes - 2 <= int(children) < SMALL.processes


def test_sandboxes_at_the_same_time_do_not_count_each_others_processes(hostile: Hostile, marker: str) -> None:
    holder = (
        "import os, time\nfor _ in range(14): os.fork() or time.sleep(60)\nprint(flush=True); time.sleep(60)"
    )
    script = (
        "import sys; from peira.sandbox.run import run_confined\n"
        "from peira.sandbox.confinement import Limits\n"
        "run_confined(sys.argv[1:], limits=Limits(seconds=20, processes=16))"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, interpreter(), "-S", "-c", holder, f"other-{marker[8:]}"]
    )
    try:
        while len(living(f"other-{marker[8:]}")) < 15:
            assert other.poll() is None
            time.sleep(0.01)
        assert said(hostile("for _ in range(10): os.fork() or os._exit(0)\nprint('fine')")) == ["fine"]
    finally:
        other.kill()
        other.wait()


def test_a_memory_bomb_in_one_process_is_refused(hostile: Hostile) -> None:
    bomb = """
held = []
try:
    while len(held) < 400:
        held.append(bytearray(1 << 20))
except MemoryError:
    print(len(held))
"""
    [held] = said(hostile(bomb))
    assert 0 < int(held) < 128


def test_a_memory_bomb_of_many_processes_is_ended(hostile: Hostile) -> None:
    bomb = """
for _ in range(6):
    if os.fork() == 0:
        break
held = bytearray(60 << 20)
for page in range(0, len(held), 4096):
    held[page] = 1
time.sleep(60)
"""
    outcome = hostile(bomb, limits=Limits(seconds=30, memory=128 * MIB))
    assert outcome.killed_by == "memory"
    assert outcome.exit is None
    assert outcome.peak is not None
    assert outcome.peak > 128 * MIB


@pytest.mark.parametrize("stream", [1, 2])
def test_endless_output_is_cut_and_ended(hostile: Hostile, stream: int) -> None:
    outcome = hostile(
        f"while True: os.write({stream}, b'x' * 4096)", limits=Limits(seconds=30, output=10_000)
    )
    assert outcome.killed_by == "output"
    assert (outcome.stdout if stream == 1 else outcome.stderr) == b"x" * 10_000


def test_nothing_of_the_machine_can_be_read(hostile: Hostile, tmp_path: Path) -> None:
    secret = tmp_path / "peira.db"
    secret.write_text("secret")
    wanted = ["/etc/shadow", "/etc/passwd", "/proc/1/environ", "/proc/self/environ", "/sys", "/var", "/run"]
    wanted += [
        secret,
        tmp_path,
        Path(__file__),
        Path.cwd(),
        Path.cwd() / "pyproject.toml",
        "/home",
        str(Path.home() / ".ssh"),
    ]
    assert refused(hostile("for path in sys.argv[1:-1]: tries(os.stat, path)", *wanted))


def test_only_what_is_needed_is_there(hostile: Hostile) -> None:
    allowed = {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "tmp", "usr"}
    prefix = Path(os.path.realpath(sys.base_prefix))
    script = "print(*os.listdir('/')); print(*os.listdir('/etc')); print(os.listdir('/tmp'))"
    root, etc, folder = said(hostile(script))
    assert set(root.split()) <= allowed | {prefix.parts[1]}
    assert set(etc.split()) <= {"ld.so.cache"}
    assert folder == "[]"


def test_the_environment_is_empty(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    names = said(hostile("print(*sorted(os.environ))"))[0].split()
    assert set(names) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "TMPDIR"}


def test_no_open_descriptor_comes_along(hostile: Hostile, tmp_path: Path) -> None:
    script = "for number in range(3, 256): tries(os.fstat, number)"
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        assert refused(hostile(script))


def test_there_is_no_network(hostile: Hostile, marker: str) -> None:
    script = """
import socket
port, name = int(sys.argv[1]), sys.argv[2]
tries(socket.create_connection, ("127.0.0.1", port), 1)
tries(socket.create_connection, ("1.1.1.1", 53), 1)
tries(socket.socket(socket.AF_UNIX).connect, "\\0" + name)
tries(socket.socket, 40, socket.SOCK_STREAM)
tries(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)
tries(socket.socket, socket.AF_INET, socket.SOCK_RAW)
"""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0{marker}")
        local.listen()
        assert refused(hostile(script, server.getsockname()[1], marker))


def test_no_process_outside_can_be_seen_or_killed(hostile: Hostile) -> None:
    script = """
tries(os.kill, int(sys.argv[1]), 9)
tries(os.kill, int(sys.argv[2]), 9)
print(os.getppid())
"""
    lines = said(hostile(script, os.getpid(), os.getppid()))
    assert all(line.startswith("refused") for line in lines[:2])
    assert int(lines[2]) < 10


@pytest.mark.parametrize("victim", ["os.getppid()", "1", "-1", "0"])
def test_killing_those_around_it_helps_nobody(hostile: Hostile, victim: str) -> None:
    script = f"""
if os.fork() == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    time.sleep(60)
tries(os.kill, {victim}, 9)
tries(os.kill, {victim}, 15)
"""
    assert hostile(script).killed_by in ("", "SIGKILL")


def test_nothing_outside_can_be_written(hostile: Hostile, marker: str, tmp_path: Path) -> None:
    script = """
for folder in sys.argv[1:-1]:
    tries(os.mkdir, os.path.join(folder, sys.argv[-1]))
    tries(os.open, os.path.join(folder, sys.argv[-1]), os.O_CREAT | os.O_WRONLY)
tries(os.unlink, sys.executable)
tries(os.chmod, sys.executable, 0o777)
tries(os.rename, "/usr/bin/env", "/usr/bin/gone")
tries(os.mkdir, "../" + sys.argv[-1])
"""
    folders = [tmp_path, Path.cwd(), Path.home(), "/", "/usr", "/usr/bin", "/dev", "/etc", sys.base_prefix]
    assert refused(hostile(script, *folders))
    for folder in folders:
        assert not (Path(folder) / marker).exists()


def test_what_it_writes_into_its_folder_is_nowhere_else(hostile: Hostile, marker: str) -> None:
    assert hostile("open('/tmp/' + sys.argv[-1], 'w').write('x')").exit == 0
    assert not Path("/tmp", marker).exists()


def test_a_daemon_does_not_outlive_its_parent(hostile: Hostile) -> None:
    daemon = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (0, 1, 2):
            os.close(number)
        time.sleep(60)
    os._exit(0)
os.wait()
"""
    began = time.monotonic()
    assert hostile(daemon, limits=Limits(seconds=30)).exit == 0
    assert time.monotonic() - began < 20


def test_a_background_process_that_holds_the_output_does_not_delay_the_end(hostile: Hostile) -> None:
    outcome = hostile("os.fork() or time.sleep(60)\nprint('said')", limits=Limits(seconds=30))
    assert said(outcome) == ["said"]


def test_one_that_ignores_every_signal_is_ended(hostile: Hostile) -> None:
    stubborn = """
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
print("still here", flush=True)
while True:
    time.sleep(60)
"""
    outcome = hostile(stubborn)
    assert outcome.timed_out
    assert outcome.stdout == b"still here\n"


def test_processor_time_counts_too(hostile: Hostile) -> None:
    busy = "import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU), flush=True)\nwhile True: pass"
    outcome = hostile(busy)
    assert outcome.stdout == b"(1, 2)\n"
    assert outcome.timed_out


LINKS = """
os.symlink("/etc/shadow", "shadow")
os.symlink(sys.argv[1], "link")
os.symlink("/", "folder")
os.mkfifo("pipe")
os.mkdir("real")
open("real/file", "w").write("fine")
"""


def test_links_lead_nowhere(hostile: Hostile, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    wanted = ["shadow", "link", "folder/etc/passwd", f"folder{secret}", "pipe", "real", "real/file", "absent"]
    outcome = hostile(LINKS, secret, keep=wanted)
    assert outcome.exit == 0
    assert outcome.files == {"real/file": b"fine"}


def test_its_folder_has_a_size(hostile: Hostile) -> None:
    script = """
written = 0
try:
    for number in range(100):
        with open(str(number), "wb", buffering=0) as file:
            written += file.write(b"x" * (1 << 20))
except OSError as problem:
    print(written, problem.errno)
"""
    [line] = said(hostile(script))
    written, problem = map(int, line.split())
    assert written <= SMALL.disk
    assert problem == 28


def test_memory_files_do_not_get_around_that(hostile: Hostile) -> None:
    assert refused(hostile("tries(os.memfd_create, 'x')"))


def test_a_flood_of_empty_files_is_ended(hostile: Hostile) -> None:
    script = "for number in range(20_000): os.close(os.open(str(number), os.O_CREAT))\ntime.sleep(60)"
    outcome = hostile(script, limits=Limits(seconds=30, entries=1000))
    assert outcome.killed_by == "files"


def test_a_huge_file_is_refused(hostile: Hostile) -> None:
    script = """
file = os.open("huge", os.O_CREAT | os.O_RDWR)
tries(os.ftruncate, file, 1 << 40)
tries(os.posix_fallocate, file, 0, 1 << 27)
tries(os.pwrite, file, b"x", 1 << 40)
"""
    assert refused(hostile(script))


@pytest.mark.parametrize(
    "code", ["pass", "os.close(0)", "os.read(0, 10)", "os.write(0, b'x')", "time.sleep(60)"]
)
def test_one_that_does_not_listen_holds_nobody_up(hostile: Hostile, code: str) -> None:
    outcome = hostile(code, stdin=b"x" * 5_000_000)
    assert outcome.timed_out == ("sleep" in code)


def test_nobody_becomes_root(hostile: Hostile) -> None:
    script = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(os.getuid() == os.geteuid() != 0 and os.getgid() == os.getegid() != 0, os.getgroups() in ([], [65534]))
tries(os.setuid, 0)
tries(os.setgid, 0)
tries(os.setgroups, [0])
tries(os.chroot, "/tmp")
tries(os.mknod, "disk", 0o60666, 0)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
print(libc.capget(header, data), *data)
print(libc.prctl(39, 0, 0, 0, 0))
"""
    first, *tried, capabilities, no_new_privileges = said(hostile(script))
    assert first == "True True"
    assert all(line.startswith("refused") for line in tried)
    assert capabilities == "0 0 0 0 0 0 0"
    assert no_new_privileges == "1"


def test_limits_cannot_be_raised(hostile: Hostile) -> None:
    script = """
import resource
for name in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC", "CORE"):
    kind = getattr(resource, f"RLIMIT_{name}")
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1))
    except ValueError:
        print("refused")
    else:
        print("DONE", name)
"""
    assert refused(hostile(script))


def test_it_ends_with_the_process_that_started_it(marker: str) -> None:
    script = (
        "import sys; from peira.sandbox.run import run_confined\n"
        "from peira.sandbox.confinement import Limits\n"
        "run_confined(sys.argv[1:], limits=Limits(seconds=50))"
    )
    sleeper = f"import os, time; os.fork(); time.sleep(600) # {marker}"
    starter = subprocess.Popen([sys.executable, "-c", script, interpreter(), "-S", "-c", sleeper])
    try:
        while len(living(marker)) < 5:  # the starter, bubblewrap's two processes, and two that sleep
            assert starter.poll() is None
            time.sleep(0.01)
    finally:
        starter.kill()
        starter.wait()
    deadline = time.monotonic() + 20
    while living(marker):
        assert time.monotonic() < deadline
        time.sleep(0.01)
