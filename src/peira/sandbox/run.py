"""`run_confined`: run an untrusted command and return how it ended.

Without a sandbox on this machine it runs unconfined, if that is allowed explicitly.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from peira.sandbox import process_tree as tree
from peira.sandbox.confinement import Confinement, Limits, needs_confinement
from peira.sandbox.process import ConfinedProcess, Launch, never_began
from peira.sandbox.streams import OutputBuffer, StreamExchange, never
from peira.sandbox.workspace import checked, collect, fill

# Not every system supports all of them: if one fails, the others still apply. The hard limit of CPU time is a
# second above the soft one: where both are reached at once the kernel sends SIGKILL, which does not say why.
LIMITED = """{ ulimit -c 0; ulimit -S -t "$1"; ulimit -H -t "$(($1 + 1))"; ulimit -f "$2"; ulimit -v "$3"
} 2>/dev/null; shift 3; exec "$@\""""
BLOCK, KIB = 512, 1024


class UnconfinedProcess:
    """A process with resource limits only, in a temporary folder; the same interface as ConfinedProcess."""

    confined = False
    peak: int | None = None

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._own = launch.place is None
        self._folder = launch.place or Path(tempfile.mkdtemp(prefix="peira-"))
        self._label = f"{launch.label}/{uuid4().hex}" if launch.label else f"unconfined-{uuid4().hex}"
        try:
            fill(self._folder, launch.files, launch.executable)
            self.process = self._started()
        except BaseException:
            self._remove()
            raise

    def _started(self) -> subprocess.Popen[bytes]:
        """Start the command under the shell's limits."""
        limits, launch = self._launch.limits, self._launch
        space = limits.memory if limits.address_space is None else limits.address_space
        most = "unlimited" if space >= 1 << 62 else str(space // KIB)
        amounts = [str(limits.cpu), str(limits.disk // BLOCK), most]
        home = {} if launch.view.open else {"HOME": str(self._folder), "TMPDIR": str(self._folder)}
        return subprocess.Popen(
            ["/bin/sh", "-c", LIMITED, "sh", *amounts, *launch.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=tree.labelled({**replace(launch, env={}).environment(), **home, **launch.env}, self._label),
            start_new_session=True,
            bufsize=0,
        )

    def _remove(self) -> None:
        """Remove the folder, unless it was given."""
        if self._own:
            shutil.rmtree(self._folder, ignore_errors=True)

    def look(self) -> str:
        """ "": nothing is monitored here, the shell's limits apply."""
        return ""

    def stop(self) -> None:
        """Kill it and everything it started."""
        tree.end(self._label, self.process.pid)

    def end(self, stopped: bool) -> int | None:
        """Wait for it; its exit status (128 plus the signal if one killed it), None if it was stopped."""
        code = self.process.wait()
        return None if stopped else code if code >= 0 else 128 - code

    def files(self) -> dict[str, bytes]:
        """Those of the files to keep that exist, by name."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return collect(folder, self._launch.keep, self._launch.limits.disk)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.stop()
        self.process.__exit__(None, None, None)  # closes its pipes, and waits
        self._remove()


NOTHING: Mapping[str, bytes] = MappingProxyType({})
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ProcessOutcome:
    """How a command ended.

    `exit` is None if it was stopped; `killed_by` then is the limit it exceeded (time, memory, output, files),
    otherwise what its exit status indicates (cpu, or the name of a signal), or "".
    """

    exit: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    killed_by: str = ""
    peak: int | None = None
    confined: bool = True
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def timed_out(self) -> bool:
        """Whether it exceeded the limit of wall-clock or CPU time."""
        return self.killed_by in ("time", "cpu")


def run_confined(
    argv: Sequence[str],
    *,
    files: Mapping[str, bytes] = NOTHING,
    stdin: bytes = b"",
    limits: Limits | None = None,
    env: Mapping[str, str] = NO_VARIABLES,
    keep: Sequence[str] = (),
    allow_unconfined: bool = False,
) -> ProcessOutcome:
    """Run a command in a sandbox of its own, with these files in its folder, and wait for it.

    When it returns, no process and no file of the command is left. Files named in `keep` are returned, if
    they exist. Raises Invalid without bubblewrap, unless unconfined execution is allowed: the outcome then
    says so. Raises ProcessDied if the sandbox itself failed, which is not the command's fault.
    """
    means = needs_confinement("run_confined", allow_unconfined)
    given = {name: files[name] for name in checked(files)}
    launch = Launch(tuple(argv), given, limits or Limits(), env, checked(keep))
    stdout, stderr = OutputBuffer(), OutputBuffer()
    exchange, began = StreamExchange(launch.limits, _nothing, never, stdout, stderr), time.monotonic()
    with closing(started(means, launch)) as process:
        status = held(process, exchange, stdin, stderr.data)
        return ProcessOutcome(
            exit=status,
            stdout=bytes(stdout.data),
            stderr=bytes(stderr.data),
            seconds=time.monotonic() - began,
            killed_by=exchange.ended_by or signal_of(status),
            peak=process.peak,
            confined=process.confined,
            files=process.files(),
        )


def started(means: Confinement | None, launch: Launch) -> ConfinedProcess | UnconfinedProcess:
    """Start it under bubblewrap, or without where there is none."""
    return ConfinedProcess(means, launch) if means else UnconfinedProcess(launch)


def held(
    process: ConfinedProcess | UnconfinedProcess,
    exchange: StreamExchange,
    stdin: bytes,
    said: bytes | bytearray,
) -> int | None:
    """Exchange data with a process until nothing of it is left; its exit status, None if it was stopped.

    Raises ProcessDied if it never began; `said` is then its standard error.
    """
    exchange.stop, exchange.look = process.stop, process.look
    exchange.hold(process.process, stdin)
    status = process.end(stopped=bool(exchange.ended_by))
    if status is None and not exchange.ended_by:
        raise never_began(bytes(said))
    return status


def _nothing() -> None:
    """Replaced by the process's own when it has started."""


def signal_of(status: int | None) -> str:
    """The signal that an exit status stands for: by the convention of shells, 128 plus its number."""
    if status is None or not 128 < status < 128 + signal.NSIG:
        return ""
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return ""
    return "cpu" if name == "SIGXCPU" else name
