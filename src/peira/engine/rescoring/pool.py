"""The processes that score: started, given batches, and given up if they die or do not answer."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from peira.core.contracts import Evaluator
from peira.engine.rescoring.messages import (
    READY,
    ScoredItem,
    ScoringItem,
    ScoringSetup,
    decode_scores,
    encode,
)
from peira.plan.expansion import evaluator_digest
from peira.sandbox import process_tree
from peira.sandbox.child_module import start_module

STARTING = 30.0
"""Seconds in which a process must have its evaluators."""
PATIENCE = 10.0
"""Seconds in which a batch must be scored; a process that takes longer is killed."""
AHEAD = 2
"""Batches that a process has, so that it need not wait for the next."""
MOST = 4
"""The most processes: more would wait for the one that commits."""
WAITED = 0.5
"""Seconds spent waiting for scores after which another process is started: about what that costs."""
T = TypeVar("T")


def setup_of(evaluators: Sequence[Evaluator]) -> ScoringSetup | None:
    """What another process needs to have these evaluators; None if it could not have them."""
    try:
        pickled = [pickle.dumps(one) for one in evaluators]
    except Exception:  # whatever objects raise that cannot be pickled
        return None
    if any(b"__main__" in one for one in pickled):
        return None
    return ScoringSetup(list(sys.path), pickled, list(map(evaluator_digest, evaluators)))


@dataclass(eq=False)
class _Process(Generic[T]):
    """One process, its pipe, and the batches that it was given, oldest first."""

    process: subprocess.Popen[bytes]
    pipe: Connection
    given: deque[T] = field(default_factory=deque)
    since: float = 0.0
    """When it was started, was given the oldest batch, or answered the one before."""

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.wait()


def _is_ready(pipe: Connection) -> bool:
    """Whether the process says that it has its evaluators, and is not gone."""
    try:
        return pipe.recv_bytes() == READY
    except (EOFError, OSError):
        return False


class ScoringPool(Generic[T]):
    """Processes that score batches of items; a batch is anything that `items` makes a list of items of."""

    def __init__(
        self,
        setup: ScoringSetup,
        label: str,
        items: Callable[[T], list[ScoringItem]],
        patience: float = PATIENCE,
    ) -> None:
        """`label` marks the processes; `patience` are the seconds in which a batch must be scored."""
        self._setup, self._label, self._items, self._patience = setup, label, items, patience
        self._processes: list[_Process[T]] = []
        self._starting: list[_Process[T]] = []
        self._most, self._waited = 1, 0.0

    def start(self, n: int) -> None:
        """Start a process. Up to so many are used: further ones are started while scores are waited for,
        which most plain functions never make necessary."""
        self._most = min(n, MOST)
        self._starting.append(self._start())

    def ready(self) -> bool:
        """Wait for the first process; whether it has its evaluators."""
        [first] = self._starting
        self._note_started([first.pipe] if first.pipe.poll(STARTING) else [])
        return bool(self._processes)

    def _grow(self) -> None:
        """Start another process; it is used once it has its evaluators."""
        self._waited = 0.0
        if not self._starting and len(self._processes) < self._most:
            self._starting.append(self._start())

    def _start(self) -> _Process[T]:
        ours, theirs = socket.socketpair()
        with theirs:
            path = {"PYTHONPATH": os.pathsep.join(sys.path)}
            env = process_tree.labelled({**os.environ, **path}, self._label)
            process = start_module("peira.engine.rescoring.child", theirs.fileno(), env)
        pipe = Connection(ours.detach())
        pipe.send_bytes(encode(self._setup))
        return _Process(process, pipe, since=time.monotonic())

    def scored(self, batches: Iterable[T]) -> Iterator[tuple[T, list[ScoredItem] | None]]:
        """Each batch with its scores, in any order; None if the process that had it is gone."""
        for batch in batches:
            while not (free := self._free()) and (self._processes or self._starting):
                yield from self._answers()
                if self._waited > WAITED:
                    self._grow()
            if not free:
                yield batch, None
                continue
            self._give(min(free, key=lambda one: len(one.given)), batch)
        while any(one.given for one in self._processes):
            yield from self._answers()

    def _free(self) -> list[_Process[T]]:
        return [one for one in self._processes if len(one.given) < AHEAD]

    def _give(self, process: _Process[T], batch: T) -> None:
        if not process.given:
            process.since = time.monotonic()
        process.given.append(batch)
        with suppress(OSError):  # it is gone, which shows when its answer is waited for
            process.pipe.send_bytes(encode(self._items(batch)))

    def _answers(self) -> Iterator[tuple[T, list[ScoredItem] | None]]:
        """What has come, after a moment; and what processes had that are gone or late."""
        busy = [one for one in self._processes if one.given]
        since = time.monotonic()
        ready = wait([one.pipe for one in (*busy, *self._starting)], 0.5)
        self._waited += time.monotonic() - since
        self._note_started(ready)
        for one in busy:
            if one.pipe in ready:
                try:
                    scores = decode_scores(one.pipe.recv_bytes())
                except (EOFError, OSError):
                    yield from self._give_up(one)
                    continue
                one.since = time.monotonic()
                yield one.given.popleft(), scores
            elif time.monotonic() - one.since > self._patience:
                yield from self._give_up(one)

    def _note_started(self, ready: Sequence[object]) -> None:
        """Use processes that have their evaluators by now; those that cannot have them are ended."""
        for one in list(self._starting):
            if one.pipe in ready or time.monotonic() - one.since > STARTING:
                self._starting.remove(one)
                if one.pipe in ready and _is_ready(one.pipe):
                    self._processes.append(one)
                else:
                    one.end()

    def _give_up(self, process: _Process[T]) -> Iterator[tuple[T, None]]:
        self._processes.remove(process)
        process.end()
        for batch in process.given:
            yield batch, None

    def close(self) -> None:
        """End all processes."""
        for one in (*self._processes, *self._starting):
            one.end()
        self._processes.clear()
        self._starting.clear()
