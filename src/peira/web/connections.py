"""Connections of clients: many of them, and none that is held open without ever asking anything."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from aiohttp import web

FIRST_REQUEST = 20.0
"""Seconds within which a new connection must have sent a whole request, or be closed."""
MOST_FILES = 65_536


class ConnectionGuard:
    """Closes connections that have not sent a whole request in time."""

    def __init__(self, patience: float = FIRST_REQUEST) -> None:
        self._patience = patience
        self._new: set[Any] = set()
        """Protocols on which no request has come yet."""

    def saw(self, request: web.Request) -> None:
        """A request has come on its connection."""
        self._new.discard(request.protocol)

    def connection(self, make: Callable[[], Any] | None) -> Callable[[], Any]:
        """The factory of protocols: that of the server, with a deadline for each first request."""
        assert make is not None, "the runner is set up"

        def connect() -> Any:
            made = make()
            self._new.add(made)
            asyncio.get_running_loop().call_later(self._patience, self._check, made)
            return made

        return connect

    def _check(self, protocol: Any) -> None:
        if protocol in self._new:
            self._new.discard(protocol)
            if protocol.transport is not None:
                protocol.transport.abort()


def allow_many_connections() -> None:
    """Raise the number of files that this process may have open, as far as the system allows it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
