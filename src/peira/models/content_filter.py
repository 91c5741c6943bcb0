"""Refusals by a provider's content filter, which are refusals like any: of an answer, or of the request.

An answer that was cut off by a filter ends with a reason of its own (`FILTERED`). A request that a filter
refuses is answered by an error instead, with status 400; that error is recorded as the answer, and read as a
refusal, so that it is neither a failed trial nor asked again.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from peira.core.ids import Json
from peira.core.models import Reply, Usage

STATUS = 400
FILTERED = frozenset(
    {"content_filter", "content_filtered", "safety", "recitation", "prohibited_content", "blocklist", "spii"}
)
"""Reasons, in lower case, with which providers end an answer that their filter cut off."""
CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "contentpolicyviolationerror",
        "moderation_blocked",
        "responsibleaipolicyviolation",
    }
)
"""Codes, in lower case, of errors that say that a filter refused the request."""
MOST = 65536
"""Bytes of an error that are looked at."""


def refusal_by_filter(finish: str, text: str) -> str:
    """The text of the refusal for an answer with this finish reason; "" if no filter ended it."""
    if finish.lower() not in FILTERED:
        return ""
    return text or f"refused by the provider's content filter ({finish})"


def filtered_reply(status: int, body: bytes) -> Reply | None:
    """The refusal that an error of a content filter is; None if it is any other error."""
    if status != STATUS or len(body) > MOST:
        return None
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        error = msgspec.json.decode(body)
        error = error.get("error", error) if isinstance(error, dict) else None
        if isinstance(error, dict) and not CODES.isdisjoint(_codes(error)):
            said = error.get("message")
            why = said if isinstance(said, str) and said else "refused by the provider's content filter"
            return Reply(text=why, refusal=why, finish="refusal", usage=Usage(0, 0))
    return None


def _codes(error: dict[str, Json]) -> set[str]:
    """The codes and types of an error and of the error inside it, in lower case."""
    inner = error.get("innererror")
    tables = [error, *([inner] if isinstance(inner, dict) else [])]
    found = (table.get(name) for table in tables for name in ("code", "type"))
    return {text.lower() for text in found if isinstance(text, str)}
