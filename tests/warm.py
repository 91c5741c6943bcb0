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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LARGEST = 1 << 20


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
        said: dict[int, Any] = {}
        files = [file for file in (self.stdout, self.stderr) if file and not file.closed]
        readers = [threading.Thread(target=_read, args=(file, said), daemon=True) for file in files]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said.get(id(self.stdout)), said.get(id(self.stderr))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read(file: IO[Any], said: dict[int, Any]) -> None:
    with file:
        said[id(file)] = file.read()


@dataclass(frozen=True)
class Warm:
    """Starts processes: of `peira` and of this Python with a file here, of other programs as Popen does."""

    _orders: socket.socket

    def start(self, command: Sequence[str], **how: Any) -> Process | subprocess.Popen[Any]:
        if command[0] == "peira":
            return self._forked(command, **how)
        if command[0] == sys.executable and command[1].endswith(".py"):
            return self._forked(command[1:], **how)
        return subprocess.Popen(command, **how)

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
        files = [_opened(ours, mode, text) for (ours, _), mode in zip(pipes, "wrr", strict=True)]
        return Process(int(told.recv(LARGEST)), *files, told)


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
    command = [sys.executable, "-P", Path(__file__).with_name("forking.py"), str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    with ours:
        yield Warm(ours)
    process.wait()
