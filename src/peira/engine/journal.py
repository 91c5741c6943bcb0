"""The journal: a bounded, ordered queue of commits to the store.

Also `payload`, which decides whether a value is stored inline in its event or as a blob.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import takewhile

import msgspec

from peira.core.contracts import Op, Outcome, Store
from peira.core.ids import digest_bytes
from peira.core.log.events import NOTHING
from peira.errors import Unwritable

INLINE = 2048
"""The default size in bytes up to which values are stored inline."""


def payload(value: bytes, inline: int = INLINE) -> tuple[msgspec.Raw, str, tuple[bytes, ...]]:
    """(inline value, blob digest, blobs): inline if the value is small, otherwise as a blob."""
    if len(value) <= inline:
        return msgspec.Raw(value), "", ()
    return NOTHING, digest_bytes(value), (value,)


GROUP = 512
"""Gathered ops are committed when there are so many."""
MOST_PENDING = 64
"""The number of pending commits above which `flush` waits for the oldest."""


class Journal:
    """Queues ops for the store in order; thread-safe.

    Ops are gathered and committed in groups. A commit returns a future; errors of finished commits are raised
    by `flush`, which also waits if more than MOST_PENDING commits are pending.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._gathered: list[Op] = []
        self._pending: deque[Future[list[Outcome]]] = deque()
        self._sizes: deque[int] = deque()  # of the pending commits
        self._sent = 0
        self.durable = 0
        """How many ops were durable when `flush` last looked."""

    @property
    def added(self) -> int:
        """How many ops were added so far."""
        with self._lock:
            return self._sent + len(self._gathered)

    def add(self, ops: Sequence[Op]) -> None:
        """Queue ops; they will be durable soon. Blocks if too many commits are pending."""
        with self._lock:
            self._gathered += ops
            full = len(self._gathered) >= GROUP
        if full:
            self.flush()

    def queue(self, ops: Sequence[Op]) -> None:
        """Queue ops without ever blocking, for callers that hold a lock or run on an event loop.

        Callers that use this often must also call `flush`, elsewhere.
        """
        with self._lock:
            self._gathered += ops
            if len(self._gathered) >= GROUP:
                self._commit_gathered()

    def send(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        """Commit ops now, after all earlier ones; their outcomes are the last ones of the future."""
        with self._lock:
            self._gathered += ops
            return self._commit_gathered()

    def write(self, ops: Sequence[Op]) -> list[Outcome]:
        """Commit ops after all earlier ones, wait until they are durable, and return their outcomes."""
        with self._lock:
            self._gathered += ops
            future = self._commit_gathered()
        return future.result()[-len(ops) :]

    def flush(self) -> None:
        """Commit what is gathered; raises the errors of earlier commits."""
        with self._lock:
            if self._gathered:
                self._commit_gathered()
            over = [self._pending.popleft() for _ in range(self._done())]
            done = sum(self._sizes.popleft() for _ in over)
            if len(self._pending) > MOST_PENDING:
                over.append(self._pending[0])
        for future in over:
            # An op refused because its attempt lost its task is no error: the other's word stands.
            for outcome in future.result():
                if isinstance(outcome, Unwritable):
                    raise outcome
        with self._lock:
            self.durable += done

    def drain(self) -> None:
        """Wait until everything added so far is durable."""
        with self._lock:
            last = self._commit_gathered() if self._gathered else self._pending[-1] if self._pending else None
        if last is not None:
            last.result()
        self.flush()

    def _commit_gathered(self) -> Future[list[Outcome]]:
        """Commit the gathered ops. The journal's lock is held."""
        ops, self._gathered = self._gathered, []
        future = self._store.commit(ops)
        self._pending.append(future)
        self._sizes.append(len(ops))
        self._sent += len(ops)
        return future

    def _done(self) -> int:
        """The number of oldest commits that are finished; commits finish in order."""
        return sum(1 for _ in takewhile(Future.done, self._pending))
