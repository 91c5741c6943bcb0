"""Standard input and output of an untrusted process, limited in time and size."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from peira.sandbox.confinement import Limits

TICK = 0.2
"""Seconds between two checks of the process's resources."""

PATIENCE = 5.0
"""Seconds that killed processes are given to be gone."""

CHUNK = 1 << 16


@dataclass
class StreamExchange:
    """The output of a process, and why it was stopped: "time", "output", or what `look` returned; else ""."""

    limits: Limits
    stop: Callable[[], None]
    look: Callable[[], str]
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    ended_by: str = ""

    def hold(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        """Exchange data until all writers have closed their end, by themselves or after being stopped."""
        assert process.stdin
        assert process.stdout
        assert process.stderr
        deadline, stopped = time.monotonic() + self.limits.seconds, False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, self.stdout)
            selector.register(process.stderr, selectors.EVENT_READ, self.stderr)
            self._offer(selector, process.stdin, given)
            while _reading(selector) and (not stopped or time.monotonic() < deadline):
                for key, _ in selector.select(min(TICK, max(0.0, deadline - time.monotonic()))):
                    _move(selector, key)
                over = process.poll() is not None
                self.ended_by = self.ended_by or self._excess(over, deadline)
                if not stopped and (over or self.ended_by):
                    self.stop()  # processes it left running may hold the pipes open
                    deadline, stopped = time.monotonic() + PATIENCE, True
        del self.stdout[self.limits.output :], self.stderr[self.limits.output :]

    def _offer(self, selector: selectors.BaseSelector, pipe: IO[bytes], given: bytes) -> None:
        """Register standard input, or close it if there is nothing to write."""
        if not given:
            pipe.close()
            return
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, selectors.EVENT_WRITE, bytearray(given))

    def _excess(self, over: bool, deadline: float) -> str:
        """The limit that is exceeded; "" if none is."""
        if max(len(self.stdout), len(self.stderr)) > self.limits.output:
            return "output"
        if over:
            return ""
        return "time" if time.monotonic() >= deadline else self.look()


def _reading(selector: selectors.BaseSelector) -> bool:
    """Whether any output is still open."""
    return any(key.events & selectors.EVENT_READ for key in selector.get_map().values())


def _move(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Read what is available, or write what fits; a finished pipe is unregistered."""
    if key.events & selectors.EVENT_READ:
        chunk = os.read(key.fd, CHUNK)
        key.data.extend(chunk)
        done = not chunk
    else:
        done = _write(key)
    if done:
        selector.unregister(key.fileobj)
        if key.events & selectors.EVENT_WRITE:
            key.fileobj.close()  # type: ignore[union-attr]


def _write(key: selectors.SelectorKey) -> bool:
    """Write what fits into standard input; returns whether that is finished."""
    try:
        del key.data[: os.write(key.fd, key.data[:CHUNK])]
    except BlockingIOError:
        return False
    except BrokenPipeError:
        return True
    return not key.data
