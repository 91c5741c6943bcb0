"""Counts and durations as text for people, and lines of words within a width."""

from __future__ import annotations

import textwrap

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


def wrapped(line: str, width: int) -> str:
    """A line that is broken between words to fit the width; the beginning of the line stays as it is."""
    if len(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())]
    parts = textwrap.wrap(
        line.strip(),
        width - len(own),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(own + part for part in parts)
