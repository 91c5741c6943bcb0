"""Listening to runs for OpenTelemetry, while they last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from peira.core.registry import registry
from peira.report.telemetry.spans import OpenTelemetry

_lock = threading.Lock()
_listeners: list[OpenTelemetry] = []
_runs = 0


@contextmanager
def telling(wanted: bool) -> Iterator[None]:
    """While a run lasts, and it is wanted, tell OpenTelemetry. Runs at the same time share one listener."""
    if not wanted:
        yield
        return
    _join()
    try:
        yield
    finally:
        _leave()


def _join() -> None:
    global _runs
    with _lock:
        if not _listeners:
            listener = OpenTelemetry()
            registry.hook(listener)
            _listeners.append(listener)
        _runs += 1


def _leave() -> None:
    global _runs
    with _lock:
        _runs -= 1
        if not _runs:
            listener = _listeners.pop()
            registry.unhook(listener)
            listener.close()
