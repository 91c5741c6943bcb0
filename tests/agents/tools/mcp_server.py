"""A small MCP server for tests: over standard streams, or over HTTP at the port that is given."""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer

server = MCPServer("small", log_level="ERROR")
added: list[int] = []


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    added.append(a + b)
    return a + b


@server.tool()
def told() -> str:
    """The number of sums so far, the process, and a variable."""
    return f"{len(added)} {os.getpid()} {os.environ.get('TOLD', '-')} {os.environ.get('OPENAI_API_KEY', '-')}"


@server.tool()
def broken() -> str:
    """Fails."""
    raise ValueError("no way")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
