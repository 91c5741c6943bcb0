"""Listens: `peira serve` and `peira view`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from peira.app.session import Session
from peira.errors import Invalid, PeiraError
from peira.web.application import make_application
from peira.web.connections import ConnectionGuard, allow_many_connections
from peira.web.feed import EventFeed
from peira.web.reader import SiteReader
from peira.web.security import AccessCheck, credentials_from
from peira.web.site import Site

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LAST_WAIT = 2.0
"""Seconds for answers under way when the server ends."""
KEEP = 30.0
"""Seconds for which an idle connection is kept."""


@dataclass(frozen=True)
class ServerOptions:
    """How to serve: where to listen, under which other names, and what may be done."""

    listen: str = "127.0.0.1:0"
    hosts: tuple[str, ...] = ()
    read_only: bool = False
    open_browser: bool = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; Invalid if that is not what it says."""
        host, colon, port = self.listen.rpartition(":")
        host = host.strip("[]")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise Invalid(f"listen: {self.listen!r} is not HOST:PORT, like 127.0.0.1:7360")
        if host not in LOOPBACK and not self.hosts:
            raise Invalid(
                f"listen: {host} can be reached from other machines: name this one with --host, as browsers "
                "will call it"
            )
        return host, int(port)


def serve(
    session: Session, options: ServerOptions, store: str | None, announce: Callable[[str], None]
) -> None:
    """Serve the pages of a store until Ctrl-C or SIGTERM; `announce` gets the address with its token."""
    host, port = options.address
    reader = SiteReader(session, options.read_only)
    with reader:
        asyncio.run(_serve(reader, options, host, port, store, announce))


async def _serve(
    reader: SiteReader,
    options: ServerOptions,
    host: str,
    port: int,
    store: str | None,
    announce: Callable[[str], None],
) -> None:
    logging.getLogger("aiohttp.server").setLevel(logging.ERROR)
    allow_many_connections()
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    credentials, feed = credentials_from(os.environ), EventFeed(reader)
    names = [*LOOPBACK[:2], f"[{LOOPBACK[2]}]", *([host] if ":" not in host else [f"[{host}]"])]
    hosts = {f"{name}:{port}" for name in names}
    hosts |= {name if ":" in name else f"{name}:{port}" for name in options.hosts} | set(options.hosts)
    site = Site(reader, feed, credentials, options.read_only, store or str(reader.session.store))
    guard = ConnectionGuard()
    app = make_application(site, AccessCheck(credentials, hosts, options.read_only), guard)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, keepalive_timeout=KEEP, shutdown_timeout=LAST_WAIT
    )
    await runner.setup()
    ended, accepting = asyncio.Event(), None
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, ended.set)
    try:
        accepting = await loop.create_server(guard.connection(runner.server), sock=listening, backlog=1024)
        feed.start()
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}/?token={credentials.token}"
        announce(url)
        if options.open_browser:
            await asyncio.to_thread(webbrowser.open, url)
        await ended.wait()
    finally:
        if accepting is not None:
            accepting.close()
        await feed.stop()
        await runner.cleanup()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; an error that says why not."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, proto)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as problem:
        raise PeiraError(f"cannot listen on {host}:{port}: {problem.strerror or problem}") from None
    return listening
