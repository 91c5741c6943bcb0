"""Places: how many tasks may be under way at once, over several runs of one process.

Each run takes places from a common number for tasks of some classes, and gives them back when a task ends,
waits or is put back. A run that finds none stands in line: no run takes a place while another has waited
longer for its first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection


class SharedPlaces:
    """A number of places that several runs share; thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = self._free = most
        self._lock = threading.Lock()
        self._line: dict[RunPlaces, None] = {}  # runs that found none, in the order of asking
        self._freed = threading.Event()

    @property
    def free(self) -> int:
        """The number of places that nobody has."""
        with self._lock:
            return self._free

    def of_run(self, classes: Collection[str]) -> RunPlaces:
        """The share of one more run, for its tasks of these classes."""
        return RunPlaces(self, classes)

    def take(self, run: RunPlaces, n: int) -> int:
        """Take up to `n` places for a run; returns how many it got."""
        with self._lock:
            before = 0
            for other in self._line:
                if other is run:
                    break
                before += 1
            taken = max(0, min(n, self._free - before))
            self._free -= taken
            if taken:
                self._line.pop(run, None)
            if taken < n:
                self._line.setdefault(run)
            return taken

    def give_back(self, n: int = 1) -> None:
        """So many tasks are under way no more."""
        with self._lock:
            self._free += n
            if self._line:
                self._freed.set()

    def leave_line(self, run: RunPlaces) -> None:
        """A run has nothing to start any more, or is over."""
        with self._lock:
            self._line.pop(run, None)

    def serve_line(self, timeout: float) -> None:
        """Wait until a place is given back that a run waits for, and let the runs in line try again.

        Called in a loop by one thread, which holds no lock of a run.
        """
        if not self._freed.wait(timeout):
            return
        self._freed.clear()
        with self._lock:
            line = list(self._line)
        for run in line:
            if not run.rouse():
                self.leave_line(run)


class RunPlaces:
    """What one run takes of shared places; called with the lock of its execution held."""

    rouse: Callable[[], bool] = staticmethod(lambda: False)
    """Lets the workers of the run look for work; whether there is any. Called without that lock."""

    def __init__(self, shared: SharedPlaces, classes: Collection[str]) -> None:
        self._shared, self._classes = shared, frozenset(classes)

    def limits(self, cls: str) -> bool:
        """Whether tasks of this class need a place."""
        return cls in self._classes

    def take(self, cls: str, n: int) -> int:
        """How many of `n` tasks of this class may start."""
        return self._shared.take(self, n) if cls in self._classes else n

    def give_back(self, cls: str) -> None:
        """A started task of this class is under way no more."""
        if cls in self._classes:
            self._shared.give_back()
