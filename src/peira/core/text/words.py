"""Counts and durations as text for people."""

from __future__ import annotations

HIDDEN = "[hidden]"
"""What stands in the place of a secret."""


def counted(n: int, what: str) -> str:
    """A count with its noun: 1 case, 2 cases, 1,000 cases."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration as text: 45 s, 12 min, 3 h 05 min."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def lasting(seconds: float) -> str:
    """As `duration`, with tenths of a second below ten seconds."""
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
