"""What a sandbox holds at this moment: limits of single processes do not bound all of them together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import psutil

from peira.sandbox.confine import FOLDER
from peira.sandbox.limits import Limits

EVERY = 0.2


class Watch:
    """Looks at a sandbox now and then; `peak` is the most memory seen, None if it ended before a look."""

    def __init__(self, root: int, limits: Limits) -> None:
        self.peak: int | None = None
        self._root, self._limits = root, limits
        self._next = time.monotonic() + EVERY

    def look(self) -> str:
        """The limit that is exceeded: "memory" or "files"; else ""."""
        if time.monotonic() < self._next:
            return ""
        found = self._processes()
        held = _resident(found)
        if held > self._limits.memory:
            held = _proportional(found)  # pages that several share were counted for each
        self.peak = max(self.peak or 0, held)
        self._next = time.monotonic() + EVERY
        if held > self._limits.memory:
            return "memory"
        return "files" if _entries(self._root, self._limits.disk) > self._limits.entries else ""

    def _processes(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._root).children(recursive=True)
        except psutil.Error:
            return []


def _resident(processes: Iterable[psutil.Process]) -> int:
    return sum(_of(process, "memory_info", "rss") for process in processes)


def _proportional(processes: Iterable[psutil.Process]) -> int:
    return sum(_of(process, "memory_full_info", "pss") for process in processes)


def _of(process: psutil.Process, what: str, part: str) -> int:
    try:
        return int(getattr(getattr(process, what)(), part))
    except psutil.Error:
        return 0


def _entries(root: int, disk: int) -> int:
    """Files in the private folder; 0 where it cannot be seen, or is not there yet."""
    try:
        found = os.statvfs(f"/proc/{root}/root{FOLDER}")
    except OSError:
        return 0
    # Until the sandbox has its own view, this is the machine's folder, which is larger.
    ours = found.f_blocks * found.f_frsize <= disk + found.f_frsize
    return found.f_files - found.f_ffree if ours else 0
