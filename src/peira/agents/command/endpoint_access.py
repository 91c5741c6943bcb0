"""How a command reaches the recording endpoint: its session while it runs, its variables, the bridge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files as resources
from pathlib import Path

from peira.core.context import Channel
from peira.endpoint.session import EndpointSession, ModelRoutes
from peira.endpoint.tools import AttemptTools
from peira.sandbox import process_tree as tree
from peira.sandbox.confinement import interpreter

PORT, SOCKET = 7365, "/run/peira/endpoint.sock"
"""Where a confined command finds the endpoint: this port of its loopback, which leads to the socket."""


@cache
def _bridge() -> str:
    """The source of the bridge."""
    return resources("peira.endpoint").joinpath("bridge.py").read_text()


@dataclass(frozen=True)
class EndpointAccess:
    """How a command reaches the endpoint: its session, and the address as the command sees it."""

    session: EndpointSession
    base: str
    socket: str = ""

    @property
    def env(self) -> dict[str, str]:
        """The variables by which programs find it; the keys are worth nothing elsewhere."""
        token = self.session.token
        found = {
            "OPENAI_BASE_URL": f"{self.base}/v1",
            "OPENAI_API_BASE": f"{self.base}/v1",
            "OPENAI_API_KEY": token,
            "ANTHROPIC_BASE_URL": self.base,
            "ANTHROPIC_API_KEY": token,
        }
        return found | ({"PEIRA_MCP_URL": f"{self.base}/mcp"} if self.session.tools else {})

    @property
    def sockets(self) -> tuple[tuple[str, str], ...]:
        """The socket that a sandbox has to show, and where."""
        return ((self.socket, SOCKET),)


def bridged(words: Sequence[str]) -> list[str]:
    """A confined command behind the bridge that leads its loopback to the socket."""
    return [interpreter(), "-I", "-S", "-c", _bridge(), str(PORT), SOCKET, *words]


@contextmanager
def endpoint_access(
    channel: Channel, routes: ModelRoutes, tools: Sequence[str], folder: Path, token: str = ""
) -> Iterator[EndpointAccess | None]:
    """The endpoint of an attempt while it lasts; None if it may neither call models nor use tools.

    `token` is that of a confined command, which reaches only its own socket in `folder`; one that is not
    confined has a new one ("").
    """
    if not (routes.named or routes.trial or tools):
        yield None
        return
    from peira.endpoint.server import endpoint_server, new_token  # needs aiohttp, which is slow to import

    given = AttemptTools(tools, channel) if tools else None
    server, leftover = endpoint_server(), partial(tree.end, channel.label)
    session = EndpointSession(token or new_token(), channel, routes, given, leftover)
    name = new_token() if token else ""
    server.open(session, name)
    try:
        if token:
            stop = server.listen_unix(folder / name)
            try:
                yield EndpointAccess(session, f"http://127.0.0.1:{PORT}/{token}", str(folder / name))
            finally:
                stop()
        else:
            yield EndpointAccess(session, f"http://127.0.0.1:{server.listen_loopback()}/{session.token}")
    finally:
        server.close(session, name)
