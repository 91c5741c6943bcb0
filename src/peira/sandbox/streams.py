"""Standard input and output of an untrusted process, limited in time and size."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from peira.sandbox.confinement import Limits

TICK = 0.2
"""Seconds between two checks of the process's resources."""

PATIENCE = 5.0
"""Seconds that killed processes are given to be gone."""

CHUNK = 1 << 16
SHOWN = 1 << 16
"""The bytes at the beginning, and at the end, that are held in memory of an output that goes to a file."""


class OutputSink(Protocol):
    """Where the output of a process goes; it counts all of it and keeps at most `limit` bytes."""

    size: int
    """The bytes that came."""

    def add(self, chunk: bytes, limit: int) -> None:
        """Take the next bytes."""
        ...

    def close(self) -> None:
        """There is no more."""
        ...


@dataclass
class OutputBuffer:
    """Output that is held in memory."""

    data: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, chunk: bytes, limit: int) -> None:
        self.data += chunk[: max(0, limit - self.size)]
        self.size += len(chunk)

    def close(self) -> None:
        """Nothing to do."""


class SpilledOutput:
    """Output that is written to a file as it comes; its first and last bytes are also held in memory."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.kept = path, 0, 0
        self.head, self.tail = bytearray(), bytearray()
        self._file: IO[bytes] = path.open("wb", buffering=0)

    def add(self, chunk: bytes, limit: int) -> None:
        self.size += len(chunk)
        fits = chunk[: max(0, limit - self.kept)]
        if fits:
            self.kept += self._file.write(fits) or 0
        self.head += chunk[: max(0, SHOWN - len(self.head))]
        self.tail += chunk
        del self.tail[:-SHOWN]

    def close(self) -> None:
        self._file.close()

    @property
    def whole(self) -> bytes:
        """Everything that was kept."""
        return bytes(self.head) if self.size <= SHOWN else self.path.read_bytes()

    def shown(self) -> str:
        """The text, or its beginning and its end with the number of bytes that were left out between them."""
        if self.size <= 2 * SHOWN:
            return self.whole.decode(errors="replace")
        left = self.size - len(self.head) - len(self.tail)
        ends = self.head.decode(errors="replace"), self.tail.decode(errors="replace")
        return f"{ends[0]}\n[... {left:,} bytes are left out here ...]\n{ends[1]}"


def never() -> str:
    """No reason to stop."""
    return ""


@dataclass
class StreamExchange:
    """The output of a process, and why it was stopped: "time", "output", or what `look` or `watch` returned;
    "" if it ended by itself."""

    limits: Limits
    stop: Callable[[], None]
    look: Callable[[], str]
    stdout: OutputSink = field(default_factory=OutputBuffer)
    stderr: OutputSink = field(default_factory=OutputBuffer)
    watch: Callable[[], str] = never
    """Called about every TICK: a reason to stop it, "" if there is none."""
    extra: Callable[[], float] = lambda: 0.0
    """Seconds that it has so far been kept waiting and that do not count against its time limit."""
    ended_by: str = ""

    def hold(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        """Exchange data until the process is over and all writers have closed their end, by themselves or
        after being stopped. A process that closes its output and goes on is still watched."""
        assert process.stdin
        assert process.stdout
        assert process.stderr
        began, given_up = time.monotonic(), 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, self.stdout)
            selector.register(process.stderr, selectors.EVENT_READ, self.stderr)
            self._offer(selector, process.stdin, given)
            life = _life_of(process)
            if life is not None:
                selector.register(life, selectors.EVENT_READ, None)
            try:
                while self._goes_on(selector, process, given_up):
                    self._exchange(selector)
                    over = process.poll() is not None
                    self.ended_by = self.ended_by or self._excess(over, began)
                    if not given_up and (over or self.ended_by):
                        self.stop()  # processes it left running may hold the pipes open
                        given_up = time.monotonic() + PATIENCE
            finally:
                if life is not None:
                    os.close(life)
        self.stdout.close()
        self.stderr.close()

    def _goes_on(
        self, selector: selectors.BaseSelector, process: subprocess.Popen[bytes], given_up: float
    ) -> bool:
        """Whether there is anything to wait for; what was stopped is not waited for much longer."""
        if given_up and time.monotonic() >= given_up:
            return False
        return _reading(selector) or process.poll() is None

    def _exchange(self, selector: selectors.BaseSelector) -> None:
        """Read and write what is possible within a TICK; what is over its limit is read no further."""
        for key, _ in selector.select(TICK):
            if key.data is None:  # the process has ended
                selector.unregister(key.fileobj)
                continue
            _move(selector, key, self.limits.output)

    def _offer(self, selector: selectors.BaseSelector, pipe: IO[bytes], given: bytes) -> None:
        """Register standard input, or close it if there is nothing to write."""
        if not given:
            pipe.close()
            return
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, selectors.EVENT_WRITE, bytearray(given))

    def _excess(self, over: bool, began: float) -> str:
        """The limit that is exceeded; "" if none is."""
        if max(self.stdout.size, self.stderr.size) > self.limits.output:
            return "output"
        if over:
            return ""
        if time.monotonic() - self.extra() >= began + self.limits.seconds:
            return "time"
        return self.watch() or self.look()


def _life_of(process: subprocess.Popen[bytes]) -> int | None:
    """A descriptor that becomes readable when the process ends; None where there are none."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(process.pid)
    return None


def _reading(selector: selectors.BaseSelector) -> bool:
    """Whether any output is still open."""
    keys = selector.get_map().values()
    return any(key.events & selectors.EVENT_READ and key.data is not None for key in keys)


def _move(selector: selectors.BaseSelector, key: selectors.SelectorKey, limit: int) -> None:
    """Read what is available, or write what fits; a finished pipe is unregistered."""
    if key.events & selectors.EVENT_READ:
        chunk = os.read(key.fd, CHUNK)
        key.data.add(chunk, limit)
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
