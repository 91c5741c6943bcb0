"""Clocks, passed in as arguments so that timeouts can be tested without waiting, and durations."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Protocol

from peira.errors import Invalid

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)?\s*$")


class Clock(Protocol):
    """The source of time of everything that measures or waits."""

    def now(self) -> float:
        """Seconds since the epoch: for timestamps that people read."""
        ...

    def monotonic(self) -> float:
        """Seconds of a monotonic clock: for deadlines and durations."""
        ...


class SystemClock:
    """The clock of the operating system."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class ShiftedClock:
    """Another clock, set to the time of somebody else: `shift` seconds later."""

    def __init__(self, clock: Clock, shift: float) -> None:
        self._clock, self._shift = clock, shift

    def now(self) -> float:
        return self._clock.now() + self._shift

    def monotonic(self) -> float:
        return self._clock.monotonic()


def seconds(value: float | str) -> float:
    """A duration in seconds, read from 90, "90s", "1.5h" or "200ms"; Invalid if it is not one."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = DURATION.match(value) if isinstance(value, str) else None
    if not found:
        raise Invalid(f"{value!r} is not a duration; write seconds, or 200ms, 90s, 5m, 2h, 1d")
    return float(found[1]) * UNITS[found[2] or ""]


def stamp(at: float) -> str:
    """A timestamp (seconds since the epoch) as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
