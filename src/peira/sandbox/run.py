"""Run a command that nobody trusts, and tell what came of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType

from peira.sandbox.box import Box, never_began
from peira.sandbox.confine import needs_confinement
from peira.sandbox.exchange import Exchange
from peira.sandbox.limits import Limits
from peira.sandbox.unconfined import Unconfined
from peira.sandbox.workspace import checked

NOTHING: Mapping[str, bytes] = MappingProxyType({})
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `exit` is None if it was stopped; `killed_by` then says which limit it exceeded
    (time, memory, output, files), or else (cpu, or the name of a signal) what its status looks like."""

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
) -> Outcome:
    """Run a command in a sandbox of its own, with these files in its folder, and wait for it.

    When it returns, no process and no file of the command's is left. Those of its files that are named in
    `keep` are returned. Invalid without bubblewrap, unless unconfined is allowed: the outcome then says so.
    ProcessDied if the sandbox itself failed, which is no fault of the command's.
    """
    means = needs_confinement("run_confined", allow_unconfined)
    limits, given, kept = limits or Limits(), {name: files[name] for name in checked(files)}, checked(keep)
    began = time.monotonic()
    started = (
        Box(means, argv, given, limits, env, kept) if means else Unconfined(argv, given, limits, env, kept)
    )
    with closing(started):
        exchange = Exchange(limits, started.stop, started.look)
        exchange.hold(started.process, stdin)
        status = started.end(stopped=bool(exchange.ended_by))
        if status is None and not exchange.ended_by:
            raise never_began(bytes(exchange.stderr))
        return Outcome(
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
    """By the custom of shells, 128 and the number of a signal is the end by that signal."""
    if status is None or not 128 < status < 128 + signal.NSIG:
        return ""
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return ""
    return "cpu" if name == "SIGXCPU" else name
