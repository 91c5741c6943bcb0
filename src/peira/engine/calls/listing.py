"""What calls asked and were answered, for a store that shows it to other programs.

It is told as calls are answered, when request and reply are in memory: reading both back from the store and
parsing the answers again costs as much as everything else that is done for a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from peira.core.chat.dialects import readable
from peira.core.contracts import CallWords, ListsPlans
from peira.core.ids import Json
from peira.core.models import Reply, Request
from peira.core.text.secrets import value_without_keys, without_keys
from peira.engine.calls.purchase import CallRequest
from peira.plan.listing import as_text, beginning

GROUP = 2000
"""Calls that are written together."""


class CallListing:
    """The words of answered calls, on their way to a store; used on the ledger's loop only."""

    def __init__(self, store: ListsPlans) -> None:
        self._store = store
        self._waiting: list[tuple[str, bytes | Request, str]] = []

    def note(self, key: str, call: CallRequest, reply: Reply) -> None:
        """Add a call that was answered. Never waits: the store's own thread makes texts of it, and writes."""
        # Not the whole call: thousands of those, with all that they refer to, are work for the collector.
        self._waiting.append((key, call.request if call.request.form else call.body, reply.text))
        if len(self._waiting) >= GROUP:
            self._flush()

    def close(self) -> None:
        """Hand over the rest."""
        if self._waiting:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._store.list_calls(_words(*one) for one in waiting)


def _words(key: str, asked: bytes | Request, text: str) -> CallWords:
    readably = (
        msgspec.json.decode(asked) if isinstance(asked, bytes) else msgspec.to_builtins(readable(asked))
    )
    return call_words(key, readably, text)


def call_words(key: str, asked: Json, said: str) -> CallWords:
    """A call as it is listed: how the last message and the answer begin, without keys."""
    prompt = as_text(value_without_keys(_last_message(asked))) or ""
    return CallWords(key, beginning(prompt), beginning(without_keys(said)))


def _last_message(request: Json) -> Json:
    """The last message of a request; the whole request if it has none."""
    messages: Any = request.get("messages") if isinstance(request, Mapping) else None
    last = messages[-1] if messages else None
    return last.get("content") if isinstance(last, Mapping) and last.get("content") else request
