"""Documents as JSON answers."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from peira.core.text.secrets import without_keys
from peira.core.text.terminal import printable_json


def encoded(value: Any) -> bytes:
    """A document as JSON; numbers that JSON cannot carry become null."""
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return dict(value.items())
    if hasattr(value, "document"):
        return value.document()
    raise NotImplementedError(f"{type(value).__name__} in a document")


def json_response(document: Any, status: int = 200) -> web.Response:
    """A document as JSON, without keys."""
    text = printable_json(without_keys(encoded(document).decode()))
    return web.Response(text=text, status=status, content_type="application/json")
