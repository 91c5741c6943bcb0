"""How long a provider asks us to wait, in whatever way it says so.

`retry-after-ms`, `retry-after` (seconds or a date), or, of the limits that are used up, the longest time
until one is filled again. Dates are read against the server's own clock when it sent one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_EPOCH = 1e9
"""A reset above this is a point in time, not a duration; above a thousand times this, in milliseconds."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, never negative; None if the provider did not say. Header names are in lower case."""
    if not headers:
        return None
    used_up = [n for n, v in headers.items() if "ratelimit" in n and "remaining" in n and _number(v) == 0]
    if not used_up and "retry-after" not in headers and "retry-after-ms" not in headers:
        return None  # as almost every answer: a date takes longer to read than all else here
    now = _date(headers.get("date", "")) or time.time()
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return max(0.0, milliseconds / 1000)
    if "retry-after" in headers:
        return _seconds(headers["retry-after"], now)
    waits = [_seconds(headers.get(name.replace("remaining", "reset"), ""), now) for name in used_up]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(text: str, now: float) -> float | None:
    """Seconds in "12", "6m0.5s", "20ms", an epoch, an HTTP date or an ISO date."""
    text = text.strip()
    number = _number(text)
    if number is not None and number > _EPOCH:
        return max(0.0, (number / 1000 if number > _EPOCH * 1000 else number) - now)
    if number is not None:
        return max(0.0, number)
    if text and (found := _DURATION.fullmatch(text)):
        return sum(float(n) * unit for n, unit in zip(found.groups(), _UNITS, strict=True) if n)
    date = _date(text)
    return None if date is None else max(0.0, date - now)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text.strip()) else None


def _date(text: str) -> float | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            found = parse(text)
        except ValueError:
            continue
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None
