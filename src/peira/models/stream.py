"""Server-sent events, gathered into the one body that would have come without streaming."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from peira.core.ids import Json

if TYPE_CHECKING:
    import aiohttp


class StreamBroken(Exception):
    """A stream that said it failed, or that ended before its end."""


class Gather(Protocol):
    """Puts the events of one stream together."""

    def add(self, event: dict[str, Json]) -> bool:
        """Take an event; whether it carried something of the model's own. StreamBroken if it is an error."""
        ...

    def body(self) -> Json:
        """The body as it would have come in one piece. StreamBroken if the end is missing."""
        ...


async def gathered(content: aiohttp.StreamReader, gather: Gather, limit: int) -> tuple[bytes, float | None]:
    """The body, and when the model first spoke. Beyond the limit, what came until then."""
    raw, spoke = bytearray(), None
    buffer = b""
    async for part in content.iter_any():
        raw += part
        if len(raw) > limit:
            return bytes(raw), spoke
        *lines, buffer = (buffer + part).split(b"\n")
        for line in lines:
            if _spoken(line, gather) and spoke is None:
                spoke = time.perf_counter()
    _spoken(buffer, gather)
    return msgspec.json.encode(gather.body()), spoke


def _spoken(line: bytes, gather: Gather) -> bool:
    line = line.strip()
    if not line.startswith(b"data:") or line == b"data: [DONE]":
        return False
    try:
        return gather.add(msgspec.json.decode(line[5:], type=dict[str, Json]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise StreamBroken("the stream carries something that is no JSON") from None
    except (KeyError, TypeError, IndexError, AttributeError):
        raise StreamBroken("the stream carries an event of an unknown shape") from None
