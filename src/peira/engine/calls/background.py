"""Reads and statements that must not block the loop of calls: a store's server may be slow, or away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from peira.core.contracts import Store

Value = TypeVar("Value")


async def find_calls(store: Store, keys: list[str]) -> dict[str, Any]:
    """The rows of these calls; a store on a server is asked on another thread."""
    if getattr(store, "remote", False):
        return await asyncio.to_thread(store.find, "call", keys)
    return store.find("call", keys)


def post(
    function: Callable[[], Value], done: Callable[[Value], None], failed: Callable[[BaseException], None]
) -> None:
    """Execute a function on another thread; its value or exception is delivered on this loop."""

    def tell(future: asyncio.Future[Value]) -> None:
        problem = future.exception()
        if problem is not None:
            failed(problem)
        else:
            done(future.result())

    asyncio.get_running_loop().run_in_executor(None, function).add_done_callback(tell)
