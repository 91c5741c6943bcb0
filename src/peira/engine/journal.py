"""The way into the store: pipelined, in order, bounded.

Ops that nobody waits for are gathered and handed over in groups (at the latest when the engine's
pulse comes round, a few tens of milliseconds); an op that must be durable takes all earlier ones
along, so order is kept. Too many ops on their way make the next caller wait.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from peira.core.contracts import Op, Outcome, Store

GROUP = 64
MOST_PENDING = 64


class Journal:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._gathered: list[Op] = []
        self._pending: deque[Future[list[Outcome]]] = deque()

    def add(self, op: Op) -> None:
        """Queue an op; it will be durable soon."""
        with self._lock:
            self._gathered.append(op)
            full = len(self._gathered) >= GROUP
        if full:
            self.flush()

    def write(self, op: Op) -> Future[list[Outcome]]:
        """Queue an op behind all earlier ones; its outcome is the future's last."""
        with self._lock:
            self._gathered.append(op)
            return self._hand_over()

    def write_all(self, ops: list[Op]) -> list[Outcome]:
        """Make ops durable, behind all earlier ones; what became of each."""
        if not ops:
            return []
        with self._lock:
            self._gathered += ops
            future = self._hand_over()
        return future.result()[-len(ops) :]

    def flush(self) -> None:
        """Hand over what is gathered; raises what went wrong with anything handed over before."""
        with self._lock:
            if self._gathered:
                self._hand_over()
            waiting = len(self._pending) > MOST_PENDING
        self._settle(wait=waiting)

    def drain(self) -> None:
        """Everything handed over so far is durable when this returns."""
        with self._lock:
            if self._gathered:
                self._hand_over()
        while self._pending:
            self._check(self._pending.popleft())

    def _hand_over(self) -> Future[list[Outcome]]:
        ops, self._gathered = self._gathered, []
        future = self._store.commit(ops)
        self._pending.append(future)
        return future

    def _settle(self, wait: bool) -> None:
        while self._pending and (wait or self._pending[0].done()):
            wait = False
            try:
                future = self._pending.popleft()
            except IndexError:
                return
            self._check(future)

    def _check(self, future: Future[list[Outcome]]) -> None:
        future.result()
