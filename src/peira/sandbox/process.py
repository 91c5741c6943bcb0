"""One confined process, from its start until nothing of it is left, with a monitor of its resources."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil

from peira.errors import ProcessDied
from peira.sandbox import process_tree as tree
from peira.sandbox import seccomp
from peira.sandbox.confinement import (
    COMMAND_PATH,
    ENVIRONMENT,
    PLAIN,
    SCRATCH,
    Confinement,
    Limits,
    PassedFiles,
    SandboxView,
)
from peira.sandbox.streams import PATIENCE
from peira.sandbox.workspace import collect, fill, parents

EVERY = 0.2


class ResourceMonitor:
    """Checks the resources of a sandbox periodically; `peak` is the maximum of memory seen, None if none."""

    def __init__(self, root: int, limits: Limits, view: SandboxView = PLAIN) -> None:
        self.peak: int | None = None
        self._root, self._limits = root, limits
        private = [view.folder, *([SCRATCH] if view.whole else [])]
        self._folders = [] if view.open else private
        self._next = time.monotonic() + EVERY

    def look(self) -> str:
        """Check, if it is time; returns the limit that is exceeded ("memory" or "files"), else ""."""
        if time.monotonic() < self._next:
            return ""
        found = self._processes()
        held = _resident(found)
        if held > self._limits.memory:
            held = _proportional(found)  # shared pages were counted once for each process
        self.peak = max(self.peak or 0, held)
        self._next = time.monotonic() + EVERY
        if held > self._limits.memory:
            return "memory"
        entries = sum(_entries(self._root, folder, self._limits.disk) for folder in self._folders)
        return "files" if entries > self._limits.entries else ""

    def _processes(self) -> list[psutil.Process]:
        """The processes in the sandbox."""
        try:
            return psutil.Process(self._root).children(recursive=True)
        except psutil.Error:
            return []


def _resident(processes: Iterable[psutil.Process]) -> int:
    """The resident memory of the processes, shared pages counted repeatedly."""
    return sum(_of(process, "memory_info", "rss") for process in processes)


def _proportional(processes: Iterable[psutil.Process]) -> int:
    """The memory of the processes, shared pages divided among them; slower."""
    return sum(_of(process, "memory_full_info", "pss") for process in processes)


def _of(process: psutil.Process, what: str, part: str) -> int:
    """A number about a process; 0 if it is gone."""
    try:
        return int(getattr(getattr(process, what)(), part))
    except psutil.Error:
        return 0


def _entries(root: int, folder: str, disk: int) -> int:
    """The number of files in a private folder; 0 if it cannot be read, or is not there yet."""
    try:
        found = os.statvfs(f"/proc/{root}/root{folder}")
    except OSError:
        return 0
    # Until the sandbox has mounted its own, this is the machine's folder, which is larger.
    ours = found.f_blocks * found.f_frsize <= disk + found.f_frsize
    return found.f_files - found.f_ffree if ours else 0


# Reports that the sandbox is set up, and waits until its folder has been opened from outside.
WAITING = ["/bin/sh", "-c", 'echo && read go && exec "$@"', "sh"]
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR")
"""The variables of this process that a program which is not confined gets; no others, and so no keys."""


@dataclass(frozen=True)
class Launch:
    """What is started in a sandbox: a command line, files for its folder, its limits and environment.

    `keep` are names and patterns of files that are read from its folder in the end. `executable` are the
    names of those of its `files` that may be executed. `label` marks its processes, so that they can be
    found by whoever owns that label later; `place` is the folder for a process that is not confined.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    executable: Collection[str] = ()
    view: SandboxView = PLAIN
    label: str = ""
    place: Path | None = None

    def environment(self) -> dict[str, str]:
        """The environment of the process."""
        if self.view.open:
            basic = {name: os.environ[name] for name in INHERITED if name in os.environ}
        elif self.view.whole:
            basic = {**ENVIRONMENT, "PATH": COMMAND_PATH, "HOME": SCRATCH, "TMPDIR": SCRATCH}
            basic |= {"USER": "user", "LOGNAME": "user"}
        else:
            basic = ENVIRONMENT
        whole = {**basic, **self.env}
        return tree.labelled(whole, self.label) if self.label else whole


class ConfinedProcess:
    """A process under bubblewrap, and the sandbox around it."""

    def __init__(self, means: Confinement, launch: Launch) -> None:
        self._launch, self._limits, self._keep = launch, launch.limits, launch.keep
        self.confined = not launch.view.open
        self._life: int | None = None
        self._folder: int | None = None
        if launch.view.open:
            fill(Path(launch.view.folder), launch.files, launch.executable)
        user = means.new_user()
        with _passed(launch, user) as (passed, status, unblock):
            wrapped = [*WAITING, *launch.argv] if launch.keep else launch.argv
            self.process = subprocess.Popen(
                means.command(wrapped, launch.limits, passed, launch.view, user),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=passed.every,
                env=launch.environment(),
                bufsize=0,
            )
        self._status, self._gate = os.fdopen(status, "rb"), os.fdopen(unblock, "wb")
        try:
            self._root = self._first()
            self._watch = ResourceMonitor(self._root, launch.limits, launch.view)
            self._gate.close()
            if launch.keep:
                self._open()
        except BaseException:
            self.close()
            raise

    def _first(self) -> int:
        """The pid of the sandbox's first process, which bubblewrap reports; 0 if there is none.

        It gets its limits, which all others inherit, while it waits to execute the command.
        """
        line = self._status.readline()
        root = int(msgspec.json.decode(line)["child-pid"]) if line else 0
        try:
            # Only bubblewrap's own child: if the child is dead, its pid may have been reused.
            if not line or psutil.Process(root).ppid() != self.process.pid:
                return 0
            self._life = os.pidfd_open(root)
            for kind, most in _amounts(self._limits, shared=self._launch.view.open):
                resource.prlimit(root, kind, most)
        except (psutil.Error, ProcessLookupError):
            return 0
        return root

    def _open(self) -> None:
        """Open the private folder from outside, then let the command start."""
        assert self.process.stdout
        assert self.process.stdin
        if self.process.stdout.read(1):
            folder = f"/proc/{self._root}/root{self._launch.view.folder}"
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self.process.stdin.write(b"\n")

    @property
    def peak(self) -> int | None:
        """The maximum of memory seen, in bytes; None if it ended before the first check."""
        return self._watch.peak

    def look(self) -> str:
        """The limit that is exceeded; "" if none is."""
        return self._watch.look()

    def stop(self) -> None:
        """Kill all of it: with the first process of a pid namespace the kernel kills all others."""
        self.process.kill()
        if self._life is not None:
            try:
                signal.pidfd_send_signal(self._life, signal.SIGKILL)
            except ProcessLookupError:
                return

    def end(self, stopped: bool) -> int | None:
        """Wait until all of it is dead; its exit status, or None if it was stopped or never began."""
        self.process.wait()
        if self._life is not None:
            poll = select.poll()
            poll.register(self._life, select.POLLIN)
            poll.poll(1000 * PATIENCE)
        entries = [msgspec.json.decode(line) for line in self._status.read().splitlines()]
        found = next((entry["exit-code"] for entry in entries if "exit-code" in entry), None)
        return None if stopped else found

    def files(self) -> dict[str, bytes]:
        """Those of the files to keep that exist, by name."""
        return {} if self._folder is None else collect(self._folder, self._keep, self._limits.disk)

    def close(self) -> None:
        """Kill it and release everything."""
        self.stop()
        self.process.__exit__(None, None, None)  # closes its pipes, and waits
        self._status.close()
        self._gate.close()
        for descriptor in (self._life, self._folder):
            if descriptor is not None:
                os.close(descriptor)


def _amounts(limits: Limits, shared: bool) -> Iterator[tuple[int, tuple[int, int]]]:
    """The kernel's limits for each process; `shared`: it has the user of this process."""
    space = limits.memory if limits.address_space is None else limits.address_space
    space = resource.RLIM_INFINITY if space >= 1 << 62 else space
    yield resource.RLIMIT_AS, (space, space)
    yield resource.RLIMIT_DATA, (limits.memory, limits.memory)
    yield resource.RLIMIT_CPU, (limits.cpu, limits.cpu + 1)
    yield resource.RLIMIT_FSIZE, (limits.disk, limits.disk)
    yield resource.RLIMIT_NOFILE, (limits.descriptors, limits.descriptors)
    if not shared:  # else it would count all processes of the user
        yield resource.RLIMIT_NPROC, (limits.processes, limits.processes)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        yield kind, (0, 0)


def never_began(stderr: bytes) -> ProcessDied:
    """The error for a sandbox that failed before the command started."""
    lines = stderr.decode(errors="replace").splitlines()
    return ProcessDied(
        f"the sandbox failed before the code began: {' '.join(lines[-1:]) or 'it says nothing'}"
    )


@contextmanager
def _passed(launch: Launch, user: int) -> Iterator[tuple[PassedFiles, int, int]]:
    """The descriptors for bubblewrap, the pipe of its status, and the pipe that unblocks it when closed.

    This process's copies of the descriptors that are passed on are closed at the end.
    """
    with ExitStack() as ours:
        status, theirs = os.pipe()
        block, unblock = os.pipe()
        for descriptor in (theirs, block):
            ours.callback(os.close, descriptor)
        rules = None if launch.view.open else seccomp.program()
        rule = None if rules is None else _in_memory(rules, ours)
        files = {} if launch.view.open else launch.files
        contents = tuple((_in_memory(content, ours), name) for name, content in files.items())
        system = _system_files(user) if launch.view.whole and not launch.view.open else {}
        try:
            yield (
                PassedFiles(
                    theirs,
                    block,
                    rule,
                    contents,
                    tuple(parents(files)),
                    tuple((_in_memory(content, ours), path) for path, content in system.items()),
                    frozenset(fd for fd, name in contents if name in launch.executable),
                ),
                status,
                unblock,
            )
        except BaseException:
            os.close(status)
            os.close(unblock)
            raise


def _system_files(user: int) -> dict[str, bytes]:
    """What programs look for and generated code does not."""
    users = f"root:x:0:0:root:/:/bin/sh\nuser:x:{user}:{user}:user:{SCRATCH}:/bin/sh\n"
    return {
        "/etc/passwd": users.encode(),
        "/etc/group": f"root:x:0:\nuser:x:{user}:\n".encode(),
        "/etc/hosts": b"127.0.0.1 localhost\n::1 localhost\n",
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
    }


def _in_memory(content: bytes, ours: ExitStack) -> int:
    """A descriptor of an anonymous file with this content."""
    descriptor = os.memfd_create("peira")
    ours.callback(os.close, descriptor)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
