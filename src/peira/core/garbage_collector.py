"""Holding the garbage collector back while many objects are made that form no cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 50_000
"""How many objects more must be alive before the youngest are searched; memory for a few megabytes."""
FEW = 1_000
"""Up to so many trials make too few objects for it to matter."""
_lock = threading.Lock()
_holding: list[tuple[int, int, int] | None] = []
"""For each that holds it back now, what it found set and is to be set again; None if nothing is."""


@contextmanager
def collection_paused() -> Iterator[None]:
    """Make the collector run rarely inside the block; the last of nested blocks restores its thresholds.

    A collector that is disabled, has thresholds as high, or has frozen objects, is left as it is.
    """
    with _lock:
        _holding.append(None if _holding else _hold())
    try:
        yield
    finally:
        with _lock:
            found = _holding.pop()
            if not _holding and found is not None:
                gc.set_threshold(*found)
                gc.unfreeze()


def _hold() -> tuple[int, int, int] | None:
    found = gc.get_threshold()
    if not gc.isenabled() or not 0 < found[0] < SELDOM or gc.get_freeze_count():
        return None
    gc.freeze()
    gc.set_threshold(SELDOM, *found[1:])
    return found
