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
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from peira.sandbox import process_tree as tree
from peira.sandbox.confinement import ENVIRONMENT, Limits, needs_confinement
from peira.sandbox.process import ConfinedProcess, never_began
from peira.sandbox.streams import StreamExchange
from peira.sandbox.workspace import checked, collect, fill

# Not every system supports all of them: if one fails, the others still apply.
LIMITED = '{ ulimit -c 0; ulimit -t "$1"; ulimit -f "$2"; ulimit -v "$3"; } 2>/dev/null; shift 3; exec "$@"'
BLOCK, KIB = 512, 1024


class UnconfinedProcess:
    """A process with resource limits only, in a temporary folder; the same interface as ConfinedProcess."""

    confined = False
    peak: int | None = None

    def __init__(
        self,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        env: Mapping[str, str],
        keep: Sequence[str],
    ) -> None:
        self._limits, self._keep = limits, keep
        self._folder = Path(tempfile.mkdtemp(prefix="peira-"))
        self._label = f"unconfined-{uuid4().hex}"
        try:
            fill(self._folder, files)
            self.process = self._started(argv, env)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _started(self, argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the command under the shell's limits."""
        amounts = [self._limits.cpu, self._limits.disk // BLOCK, self._limits.memory // KIB]
        home = {"HOME": str(self._folder), "TMPDIR": str(self._folder)}
        return subprocess.Popen(
            ["/bin/sh", "-c", LIMITED, "sh", *map(str, amounts), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=tree.labelled({**ENVIRONMENT, **home, **env}, self._label),
            start_new_session=True,
            bufsize=0,
        )

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
            return collect(folder, self._keep, self._limits.disk)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.stop()
        self.process.__exit__(None, None, None)  # closes its pipes, and waits
        shutil.rmtree(self._folder, ignore_errors=True)


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
    limits, given, kept = limits or Limits(), {name: files[name] for name in checked(files)}, checked(keep)
    began = time.monotonic()
    started = (
        ConfinedProcess(means, argv, given, limits, env, kept)
        if means
        else UnconfinedProcess(argv, given, limits, env, kept)
    )
    with closing(started):
        exchange = StreamExchange(limits, started.stop, started.look)
        exchange.hold(started.process, stdin)
        status = started.end(stopped=bool(exchange.ended_by))
        if status is None and not exchange.ended_by:
            raise never_began(bytes(exchange.stderr))
        return ProcessOutcome(
            exit=status,
            stdout=bytes(exchange.stdout),
            stderr=bytes(exchange.stderr),
            seconds=time.monotonic() - began,
            killed_by=exchange.ended_by or _signal(status),
            peak=started.peak,
            confined=started.confined,
            files=started.files(),
        )


def _signal(status: int | None) -> str:
    """The signal that an exit status stands for: by the convention of shells, 128 plus its number."""
    if status is None or not 128 < status < 128 + signal.NSIG:
        return ""
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return ""
    return "cpu" if name == "SIGXCPU" else name
