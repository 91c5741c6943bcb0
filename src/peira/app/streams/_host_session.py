"""The session of a host: reads the store that the host has open, also while the host ends."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peira.app.session import Session
from peira.core.contracts import OpenStore

PATIENCE = 10.0
"""Seconds for which a host that ends waits for those who read its store."""


class HostSession(Session):
    """A session that reads the open store of a host; once the host has ended, it opens the store again.

    So who holds it (a view, a subscriber, results) may go on reading, whenever the host ends. Thread-safe.
    """

    def __init__(self, session: Session, store: OpenStore) -> None:
        """`session` is that with which the host has found its store, `store` is that store, open."""
        super().__init__(session.project, session.store)
        self._lent: OpenStore | None = store
        self._readers: Counter[int] = Counter()
        """How many reads are under way, by thread."""
        self._changed = threading.Condition()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """The store, open for reading: the host does not close it before the end of the block."""
        with self._changed:
            lent = self._lent
            if lent is not None:
                self._readers[reader := threading.get_ident()] += 1
        if lent is None:
            with super().reading() as opened:
                yield opened
            return
        try:
            yield lent
        finally:
            with self._changed:
                self._readers -= Counter([reader])
                self._changed.notify_all()

    def detach(self) -> None:
        """Stop lending the store, and wait a limited time for other threads that are reading it.

        Reads of the calling thread are not waited for, so that it can end a host while it reads.
        """
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            self._lent = None
            while self._readers.keys() - {threading.get_ident()}:
                if not self._changed.wait(deadline - time.monotonic()):
                    return
