"""Where canonical JSON is kept: small in the event, large as a blob."""

from __future__ import annotations

import msgspec

from peira.core.events import NOTHING
from peira.core.ids import digest_bytes

INLINE = 2048


def payload(value: bytes, inline: int = INLINE) -> tuple[msgspec.Raw, str, tuple[bytes, ...]]:
    """The value for the event, or the digest of the blob that holds it, and that blob."""
    if len(value) <= inline:
        return msgspec.Raw(value), "", ()
    return NOTHING, digest_bytes(value), (value,)
