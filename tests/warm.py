"""Processes that begin with peira imported.

To start Python and import peira takes most of a second, which is most of what a small program takes. So one
process (forking.py) imports it once, and forks a process of its own for each program that it is asked to run.
What is started is in every other way as if by `subprocess.Popen`: it has its own memory, files, folder,
environment, signals and end. Start with Popen what is about beginnings: imports, hash seeds, entry points.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

LARGEST = 1 << 20
LAST_WORDS = 10.0
"""Seconds in which a process that was killed is gone, and what it said is read."""


@dataclass
class Process:
    """What Popen gives, for a process that is the child of another."""

    pid: int
    stdin: IO[Any] | None
    stdout: IO[Any] | None
    stderr: IO[Any] | None
    _told: socket.socket
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ended, _, _ = select.select([self._told], [], [], timeout)
            if not ended:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            with self._told:
                self.returncode = int(self._told.recv(LARGEST))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """All it says until its end."""
        if self.stdin is not None:
            self.stdin.close()
        said: dict[str, Any] = {}
        files = {"stdout": self.stdout, "stderr": self.stderr}
        self.stdout = self.stderr = None  # they are closed by who reads them
        readers = [
            threading.Thread(target=_read, args=(name, file, said), daemon=True)
            for name, file in files.items()
            if file and not file.closed
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:  # children of it that go on may keep its output open
            reader.join(LAST_WORDS if timeout is None else timeout)
        return said.get("stdout"), said.get("stderr")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read(name: str, file: IO[Any], said: dict[str, Any]) -> None:
    with file:
        said[name] = file.read()


_started: list[Process | subprocess.Popen[Any]] = []
"""What was started in this test."""


def end_started() -> None:
    """Kill what the test has started and not waited for, stopped processes too, with their own children.

    A worker that goes on would hold its locks, and whoever drops its tables would wait for it for ever.
    """
    while _started:
        process = _started.pop()
        if process.poll() is None:
            for child in _children(process.pid):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.kill()
        process.wait(LAST_WORDS)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                with suppress(OSError):  # of what was written to it and not read
                    pipe.close()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@dataclass(frozen=True)
class Warm:
    """Starts processes: of `peira` and of this Python with a file here, of other programs as Popen does."""

    _orders: socket.socket

    def start(self, command: Sequence[str], **how: Any) -> Process | subprocess.Popen[Any]:
        """Start a process, which is killed at the end of the test if it is not over then."""
        process: Process | subprocess.Popen[Any]
        if command[0] == "peira":
            process = self._forked(command, **how)
        elif command[0] == sys.executable and command[1].endswith(".py"):
            process = self._forked(command[1:], **how)
        else:
            process = subprocess.Popen(command, **how)
        _started.append(process)
        return process

    def run(self, command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
        """Wait for the end of a process: its exit code, and all it said, as text."""
        process = self.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
        out, err = process.communicate()
        return subprocess.CompletedProcess(list(command), process.wait(), out, err)

    def _forked(
        self,
        command: Sequence[str],
        cwd: str | Path = ".",
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        text: bool = False,
    ) -> Process:
        told, keeps = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes = [_reading(stdin), _writing(stdout, 1)]
        pipes.append((None, os.dup(pipes[1][1])) if stderr == subprocess.STDOUT else _writing(stderr, 2))
        theirs = [fd for _, fd in pipes]
        environment = dict(os.environ if env is None else env)
        order = {"command": command, "cwd": os.path.abspath(cwd), "env": environment}
        socket.send_fds(self._orders, [json.dumps(order).encode()], [*theirs, keeps.fileno()])
        for fd in theirs:
            os.close(fd)
        keeps.close()
        into, out, err = (_opened(ours, mode, text) for (ours, _), mode in zip(pipes, "wrr", strict=True))
        return Process(int(told.recv(LARGEST)), into, out, err, told)


def _reading(asked: int | None) -> tuple[int | None, int]:
    """Our end, if there is one, and the end that the process gets."""
    if asked == subprocess.PIPE:
        theirs, ours = os.pipe()
        return ours, theirs
    return None, os.dup(0) if asked is None else os.open(os.devnull, os.O_RDONLY)


def _writing(asked: int | None, standard: int) -> tuple[int | None, int]:
    if asked == subprocess.PIPE:
        return os.pipe()
    return None, os.dup(standard) if asked is None else os.open(os.devnull, os.O_WRONLY)


def _opened(fd: int | None, mode: str, text: bool) -> IO[Any] | None:
    if fd is None:
        return None
    return os.fdopen(fd, mode, encoding="utf-8") if text else os.fdopen(fd, f"{mode}b")


@contextmanager
def beginning() -> Iterator[Warm]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", str(Path(__file__).with_name("forking.py")), str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    with ours:
        yield Warm(ours)
    try:
        process.wait(LAST_WORDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
