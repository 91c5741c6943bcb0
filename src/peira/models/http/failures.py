"""Failures of requests: may it have been billed, may it be sent again, and when (Retry-After).

`free` means certainly not billed, and worth another try; `doubt` means that it may have been billed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from peira.core.ids import Json
from peira.core.text.secrets import scrub
from peira.errors import CallFailed

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_EPOCH = 1e9
"""Numbers above this are points in time, not durations; above a thousand times this, in milliseconds."""


MOST_SECONDS = 1e9
"""About thirty years: a number that clocks, timers and records can hold, whatever a header says."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, never negative and at most `MOST_SECONDS`; None if the provider did not say. Header
    names are in lower case."""
    wait = _asked_wait(headers) if headers else None
    return None if wait is None else min(wait, MOST_SECONDS)


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    used_up = [n for n, v in headers.items() if "ratelimit" in n and "remaining" in n and _number(v) == 0]
    if not used_up and "retry-after" not in headers and "retry-after-ms" not in headers:
        return None  # the usual case; parsing a date would be slow
    now = _date(headers.get("date", "")) or time.time()
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return max(0.0, milliseconds / 1000)
    if "retry-after" in headers:
        return _seconds(headers["retry-after"], now)
    waits = [_seconds(headers.get(name.replace("remaining", "reset"), ""), now) for name in used_up]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(text: str, now: float) -> float | None:
    """Seconds in "12", "6m0.5s", "20ms", an epoch time, an HTTP date or an ISO date."""
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
    """The number in a text; None if it is none."""
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text.strip()) else None


def _date(text: str) -> float | None:
    """The time in an HTTP or ISO date, in seconds since the epoch; None if it is neither."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, TypeError, ArithmeticError):  # as far as dates can be absurd
            found = parse(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None


FREE = frozenset({409, 425, 429, 503, 529})
BUSY = frozenset({429, 503, 529})
IN_DOUBT = frozenset({408})
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "insufficient balance")


def refused(
    path: str, status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> CallFailed:
    """The failure for an answer whose status is not 2xx."""
    message = provider_message(body)
    free = status in FREE and not (status == 429 and any(word in message.lower() for word in NO_MONEY))
    text = f"{path}: {status}{_hint(status)}{f': {message}' if message else ''}"
    return CallFailed(
        scrub(text, secrets),
        free=free,
        doubt=status in IN_DOUBT or (status >= 500 and not free),
        retry_after=retry_after(headers) if free else None,
        status=status,
        busy=free and status in BUSY,
    )


def unsent(path: str, why: str, secrets: Iterable[str]) -> CallFailed:
    """The failure of a request that was not sent: free."""
    return CallFailed(scrub(f"{path}: not sent: {why}", secrets), free=True)


def lost(path: str, why: str, secrets: Iterable[str], status: int = 0) -> CallFailed:
    """The failure of a request that was sent and not answered: in doubt."""
    return CallFailed(scrub(f"{path}: sent, but no answer: {why}", secrets), doubt=True, status=status)


def unreadable(path: str, why: str, status: int = 0) -> CallFailed:
    """The failure for an answer that cannot be used: neither free nor in doubt."""
    return CallFailed(scrub(f"{path}: {why}"), status=status)


def provider_message(body: bytes) -> str:
    """What a provider's error body says, in any of the usual shapes; its beginning if it is no JSON."""
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        return _message_in(msgspec.json.decode(body))
    return body[:2000].decode(errors="replace")


def _message_in(value: Json) -> str:
    """The message in a decoded error body."""
    if isinstance(value, list):
        return _message_in(value[0]) if value else ""
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    for name in ("error", "message", "detail"):
        if value.get(name):
            code = value.get("code") or value.get("type") if name == "message" else None
            message = _message_in(value[name])
            return f"{message} ({code})" if code and str(code) not in message else message
    return msgspec.json.encode(value).decode()


def _hint(status: int) -> str:
    """A hint for statuses that are often caused by a wrong base URL."""
    if 300 <= status < 400:
        return " (redirected, which is not followed: is the base URL right?)"
    return " (is the base URL right?)" if status == 405 else ""
