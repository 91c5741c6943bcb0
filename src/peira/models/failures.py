"""What a send without an answer means for the bill.

    free        nothing was billed, and it may be tried again: no connection was made (refused, unknown host,
                TLS, connect timeout), 409 and 425 (turned away before work began), 429, 503 and 529
                (with the wait the provider asked for)
    in doubt    it may have been billed: 408 and other 5xx (gateways send them when the model behind them was
                slow or broke), a timeout or a reset after sending, a stream that broke off
    permanent   trying again will not help: other 4xx, a redirect, 429 because the account has no money left

A message is one line: the endpoint's path, the status, and what the provider said, scrubbed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from peira.core.ids import Json
from peira.core.models import CallFailed
from peira.models.secrets import scrub
from peira.models.waiting import retry_after

FREE = frozenset({409, 425, 429, 503, 529})
BUSY = frozenset({429, 503, 529})
IN_DOUBT = frozenset({408})
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "insufficient balance")


def refused(
    path: str, status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> CallFailed:
    """The failure in an answer whose status is not 2xx."""
    said = provider_message(body)
    free = status in FREE and not (status == 429 and any(word in said.lower() for word in NO_MONEY))
    text = f"{path}: {status}{_hint(status)}{f': {said}' if said else ''}"
    return CallFailed(
        scrub(text, secrets),
        free=free,
        doubt=status in IN_DOUBT or (status >= 500 and not free),
        retry_after=retry_after(headers) if free else None,
        status=status,
        busy=free and status in BUSY,
    )


def unsent(path: str, why: str, secrets: Iterable[str]) -> CallFailed:
    return CallFailed(scrub(f"{path}: not sent: {why}", secrets), free=True)


def lost(path: str, why: str, secrets: Iterable[str], status: int = 0) -> CallFailed:
    return CallFailed(scrub(f"{path}: sent, but no answer: {why}", secrets), doubt=True, status=status)


def senseless(path: str, why: str, status: int = 0) -> CallFailed:
    """An answer came, and it is none."""
    return CallFailed(scrub(f"{path}: {why}"), status=status)


def provider_message(body: bytes) -> str:
    """What a provider's error body says, in any of the usual shapes; its beginning if it is no JSON."""
    said: Json = body[:2000].decode(errors="replace")
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        said = msgspec.json.decode(body)
    return _said(said)


def _said(value: Json) -> str:
    if isinstance(value, list):
        return _said(value[0]) if value else ""
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    for name in ("error", "message", "detail"):
        if value.get(name):
            code = value.get("code") or value.get("type") if name == "message" else None
            said = _said(value[name])
            return f"{said} ({code})" if code and str(code) not in said else said
    return msgspec.json.encode(value).decode()


def _hint(status: int) -> str:
    if 300 <= status < 400:
        return " (redirected, which is not followed: is the base URL right?)"
    return " (is the base URL right?)" if status == 405 else ""
