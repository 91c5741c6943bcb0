"""`ask`: a model, from inside an agent. Every call goes through the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from peira.core.context import current_trial
from peira.core.ids import Json, normalise
from peira.core.models import Reply, Request

Prompt = str | Sequence[Mapping[str, Json]]
"""A text, or messages as {"role": ..., "content": ...}."""


def ask(model: str, prompt: Prompt, *, system: str | None = None, key: str = "", **parameters: Any) -> Reply:
    """Ask a model and wait for its reply.

    A resumed trial gets the recorded reply and pays nothing. Equal requests in one trial are told apart
    by their order, or by `key`. `tools`, `schema` and the provider's parameters go by name.
    """
    return _begin(model, prompt, system, key, parameters).result()


async def ask_async(
    model: str, prompt: Prompt, *, system: str | None = None, key: str = "", **parameters: Any
) -> Reply:
    """`ask` for `async def` agents: awaits, and blocks nothing."""
    return await asyncio.wrap_future(_begin(model, prompt, system, key, parameters))


def _begin(
    model: str, prompt: Prompt, system: str | None, key: str, parameters: dict[str, Any]
) -> Future[Reply]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
    request = Request(
        messages=tuple(normalise(messages, "messages")),
        system=system,
        tools=tuple(normalise(list(parameters.pop("tools", ())), "tools")),
        schema=normalise(parameters.pop("schema", None), "schema"),
        parameters=normalise(parameters, "parameters"),
    )
    return current_trial().channel.call(model, request, key)
