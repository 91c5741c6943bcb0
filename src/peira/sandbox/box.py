"""One confined process, from its start until nothing of it is left."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import msgspec
import psutil

from peira.errors import ProcessDied
from peira.sandbox import seccomp
from peira.sandbox.confine import ENVIRONMENT, FOLDER, Confinement, Passed
from peira.sandbox.exchange import PATIENCE
from peira.sandbox.limits import Limits
from peira.sandbox.watch import Watch
from peira.sandbox.workspace import collect, parents

OPEN_FILES = 256

# Says that the sandbox stands, and waits until its folder has been opened from outside.
WAITING = ["/bin/sh", "-c", 'echo && read go && exec "$@"', "sh"]


class Box:
    """A process under bubblewrap, and the sandbox around it."""

    confined = True

    def __init__(
        self,
        means: Confinement,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        env: Mapping[str, str],
        keep: Sequence[str],
    ) -> None:
        self._limits, self._keep = limits, keep
        self._life: int | None = None
        self._folder: int | None = None
        with _passed(files) as (passed, status, unblock):
            wrapped = [*WAITING, *argv] if keep else argv
            self.process = subprocess.Popen(
                means.command(wrapped, limits, passed),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=passed.every,
                env={**ENVIRONMENT, **env},
                bufsize=0,
            )
        self._status, self._gate = os.fdopen(status, "rb"), os.fdopen(unblock, "wb")
        try:
            self._root = self._first()
            self._watch = Watch(self._root, limits)
            self._gate.close()
            if keep:
                self._open()
        except BaseException:
            self.close()
            raise

    def _first(self) -> int:
        """The sandbox's first process, which bubblewrap tells as soon as there is one; 0 if there is none.

        It is given its limits, which all others inherit, while it waits to begin with the command.
        """
        line = self._status.readline()
        root = int(msgspec.json.decode(line)["child-pid"]) if line else 0
        try:
            # Only bubblewrap's own child: a child that is dead by now may have lost its number to another.
            if not line or psutil.Process(root).ppid() != self.process.pid:
                return 0
            self._life = os.pidfd_open(root)
            for kind, most in _amounts(self._limits):
                resource.prlimit(root, kind, most)
        except (psutil.Error, ProcessLookupError):
            return 0
        return root

    def _open(self) -> None:
        assert self.process.stdout
        assert self.process.stdin
        if self.process.stdout.read(1):
            self._folder = os.open(f"/proc/{self._root}/root{FOLDER}", os.O_RDONLY | os.O_DIRECTORY)
            self.process.stdin.write(b"\n")

    @property
    def peak(self) -> int | None:
        return self._watch.peak

    def look(self) -> str:
        return self._watch.look()

    def stop(self) -> None:
        """Kill all of it. With the first process of a process namespace the kernel kills all others."""
        self.process.kill()
        if self._life is not None:
            try:
                signal.pidfd_send_signal(self._life, signal.SIGKILL)
            except ProcessLookupError:
                return

    def end(self, stopped: bool) -> int | None:
        """Its exit status once all of it is dead; None if it was stopped, or never began."""
        self.process.wait()
        if self._life is not None:
            poll = select.poll()
            poll.register(self._life, select.POLLIN)
            poll.poll(1000 * PATIENCE)
        told = [msgspec.json.decode(line) for line in self._status.read().splitlines()]
        found = next((said["exit-code"] for said in told if "exit-code" in said), None)
        return None if stopped else found

    def files(self) -> dict[str, bytes]:
        return {} if self._folder is None else collect(self._folder, self._keep, self._limits.disk)

    def close(self) -> None:
        self.stop()
        self.process.__exit__(None, None, None)  # closes its pipes, and waits
        self._status.close()
        self._gate.close()
        for descriptor in (self._life, self._folder):
            if descriptor is not None:
                os.close(descriptor)


def _amounts(limits: Limits) -> Iterator[tuple[int, tuple[int, int]]]:
    """The kernel's limits of each process; more than it may have now, nobody can give it."""
    yield resource.RLIMIT_AS, (limits.memory, limits.memory)
    yield resource.RLIMIT_CPU, (limits.cpu, limits.cpu + 1)
    yield resource.RLIMIT_FSIZE, (limits.disk, limits.disk)
    yield resource.RLIMIT_NPROC, (limits.processes, limits.processes)
    yield resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        yield kind, (0, 0)


def never_began(said: bytes) -> ProcessDied:
    lines = said.decode(errors="replace").splitlines()
    return ProcessDied(
        f"the sandbox failed before the code began: {' '.join(lines[-1:]) or 'it says nothing'}"
    )


@contextmanager
def _passed(files: Mapping[str, bytes]) -> Iterator[tuple[Passed, int, int]]:
    """What bubblewrap is handed, where its status is read, and what lets it begin when it is closed. This
    process's own copies of what is handed over are closed again."""
    with ExitStack() as ours:
        status, theirs = os.pipe()
        block, unblock = os.pipe()
        for descriptor in (theirs, block):
            ours.callback(os.close, descriptor)
        rules = seccomp.program()
        rule = None if rules is None else _in_memory(rules, ours)
        contents = tuple((_in_memory(content, ours), name) for name, content in files.items())
        try:
            yield Passed(theirs, block, rule, contents, tuple(parents(files))), status, unblock
        except BaseException:
            os.close(status)
            os.close(unblock)
            raise


def _in_memory(content: bytes, ours: ExitStack) -> int:
    descriptor = os.memfd_create("peira")
    ours.callback(os.close, descriptor)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
