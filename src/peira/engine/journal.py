"""The way into the store: pipelined, in order, bounded.

Ops that nobody waits for are gathered and handed over in groups (at the latest when the engine's
pulse comes round, a few tens of milliseconds); an op that must be durable takes all earlier ones
along, so order is kept. Too many groups on their way make the next caller wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import takewhile

from peira.core.contracts import Op, Outcome, Store

GROUP = 128
MOST_PENDING = 64


class Journal:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._gathered: list[Op] = []
        self._pending: deque[Future[list[Outcome]]] = deque()

    def add(self, ops: Sequence[Op]) -> None:
        """Queue ops; they will be durable soon."""
        with self._lock:
            self._gathered += ops
            full = len(self._gathered) >= GROUP
        if full:
            self.flush()

    def send(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        """Queue ops behind all earlier ones, at once; their outcomes are the future's last."""
        with self._lock:
            self._gathered += ops
            return self._hand_over()

    def write(self, ops: Sequence[Op]) -> list[Outcome]:
        """Make ops durable, behind all earlier ones; what became of each."""
        with self._lock:
            self._gathered += ops
            future = self._hand_over()
        return future.result()[-len(ops) :]

    def flush(self) -> None:
        """Hand over what is gathered; raises what went wrong with anything handed over before."""
        with self._lock:
            if self._gathered:
                self._hand_over()
            over = [self._pending.popleft() for _ in range(self._done())]
            if len(self._pending) > MOST_PENDING:
                over.append(self._pending[0])
        for future in over:
            # An op refused because its attempt lost its task is no error: the other's word stands.
            future.result()

    def drain(self) -> None:
        """Everything added so far is durable when this returns."""
        with self._lock:
            last = self._hand_over() if self._gathered else self._pending[-1] if self._pending else None
        if last is not None:
            last.result()
        self.flush()

    def _hand_over(self) -> Future[list[Outcome]]:
        ops, self._gathered = self._gathered, []
        future = self._store.commit(ops)
        self._pending.append(future)
        return future

    def _done(self) -> int:
        """How many of the oldest groups are through; they come through in order."""
        return sum(1 for _ in takewhile(Future.done, self._pending))
