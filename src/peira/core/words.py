"""Numbers as people say them, wherever they are said."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """1 case, 2 cases, 1,000 cases."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def lasting(seconds: float) -> str:
    """The same, with tenths of a second where they count."""
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
