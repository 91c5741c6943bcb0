"""`mcp`: the tools of an MCP server, started for each trial or shared by the trials of a run.

What a server offers is recorded with the trial, and so are its results: a resumed trial asks models the same
again, and a trial that is only replayed starts no server.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peira.core.chat.tools import Tool
from peira.core.context import Trial
from peira.core.ids import Json, digest
from peira.core.registry import Registry, nearest
from peira.core.steps import recorded
from peira.errors import Invalid, ToolFailed, ToolRefused
from peira.sandbox.confinement import process_namespace
from peira.sandbox.process_tree import labelled

OFFER = "mcp tools"
"""The name of the step that records what a server offers."""
LINGER = 5.0
"""Seconds that a shared server is kept without a trial that uses it."""
STARTING = 60.0
"""Seconds in which a server must have started."""
MISSING = "mcp(...) needs the package mcp, which is not installed: pip install 'peira[mcp]'"


@dataclass(frozen=True)
class McpTools:
    """The tools of an MCP server: see `mcp`."""

    command: tuple[str, ...] = ()
    url: str = ""
    only: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    share: bool = False
    timeout: float = 60.0
    version: str = ""

    @property
    def identity(self) -> Json:
        """How it is reached and which tools are offered; of variables and headers the names."""
        return {
            "tool": "mcp",
            "command": list(self.command),
            "url": self.url,
            "only": sorted(self.only),
            "env": sorted(self.env),
            "headers": sorted(self.headers),
            "version": self.version,
        }

    def written(self) -> Json:
        """How a study file names it."""
        given: dict[str, Json] = {
            "command": list(self.command),
            "url": self.url,
            "only": list(self.only),
            "env": dict(self.env),
            "headers": dict(self.headers),
            "share": self.share,
            "timeout": self.timeout if self.timeout != 60.0 else None,
            "version": self.version,
        }
        return {"name": "mcp", **{name: value for name, value in given.items() if value}}

    def check(self) -> None:
        """Raise Invalid if the package is missing, or a variable that it needs."""
        problems = [] if find_spec("mcp") else [MISSING]
        for value in (*self.env.values(), *self.headers.values()):
            try:
                _value(value)
            except Invalid as error:
                problems += error.problems
        if problems:
            raise Invalid(problems)

    @contextmanager
    def open(self, trial: Trial) -> Iterator[tuple[Tool, ...]]:
        """The tools of a trial; the server is started when it is first needed, and ended with the trial."""
        server = McpUse(self, getattr(trial.channel, "label", ""))
        try:
            offered = self._offered(trial, server)
            yield tuple(McpTool(self, server, **one) for one in offered)
        finally:
            server.close()

    def _offered(self, trial: Trial, server: McpUse) -> list[dict[str, Any]]:
        """What the server offers, as recorded when the trial first asked; Invalid if one is missing."""
        offered: Any = recorded(trial, OFFER, "", self.identity, server.offered)
        names = [one["name"] for one in offered]
        if wrong := [name for name in self.only if name not in names]:
            raise Invalid(f"mcp: the server has no tool {name!r}{nearest(name, names)}" for name in wrong)
        return [one for one in offered if not self.only or one["name"] in self.only]


@dataclass(frozen=True)
class McpTool:
    """One tool of an MCP server."""

    of: McpTools
    server: McpUse
    name: str
    description: str
    parameters: dict[str, Json]

    @property
    def identity(self) -> Json:
        """The server and the tool's name."""
        return {"mcp": self.of.identity, "name": self.name}

    def call(self, arguments: Json) -> Any:
        """The result of the server; ToolRefused with what the server says if it is an error."""
        if not isinstance(arguments, Mapping):
            raise ToolRefused(f"{self.name}: the arguments must be a JSON object")
        return self.server.call(self.name, dict(arguments))


class McpUse:
    """A trial's use of a server, which is started by the first use of it."""

    def __init__(self, tools: McpTools, label: str) -> None:
        self._tools, self._label = tools, label
        self._connection: McpConnection | None = None
        self._lock = threading.Lock()

    def _connected(self) -> McpConnection:
        with self._lock:
            if self._connection is None:
                make = partial(McpConnection, self._tools, self._label)
                self._connection = _shared.take(self._tools, make) if self._tools.share else make()
            return self._connection

    def offered(self) -> list[dict[str, Json]]:
        """Name, description and parameters of every tool."""
        return self._connected().offered()

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool."""
        return self._connected().call(name, arguments)

    def close(self) -> None:
        """End the server, or give it back if it is shared."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            if self._tools.share:
                _shared.give_back(self._tools)
            else:
                connection.close()


class McpConnection:
    """An open session with a server, on an event loop in a thread of its own."""

    def __init__(self, tools: McpTools, label: str) -> None:
        try:
            import mcp as sdk  # optional, and slow to import
        except ImportError:
            raise Invalid(MISSING) from None
        self._sdk, self._tools, self._label = sdk, tools, label
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._client: Any = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="peira-mcp", daemon=True)
        self._thread.start()
        if not self._ready.wait(STARTING):
            self.close()
            raise ToolFailed(f"mcp: {self._where} did not start within {STARTING:g} s")
        if self._problem is not None:
            self._thread.join()
            raise ToolFailed(f"mcp: {self._where} cannot be used: {_reason(self._problem)}")

    @property
    def _where(self) -> str:
        return self._tools.url or self._tools.command[0]

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._session())
        except BaseException as problem:  # given to the thread that waits
            self._problem = problem
        finally:
            self._ready.set()
            self._loop.close()

    async def _session(self) -> None:
        """Hold the session open until it is closed."""
        self._stop = asyncio.Event()
        async with AsyncExitStack() as opened:
            transport = await self._transport(opened)
            client = self._sdk.Client(transport, read_timeout_seconds=self._tools.timeout)
            self._client = await opened.enter_async_context(client)
            self._ready.set()
            await self._stop.wait()
        await asyncio.sleep(0)  # connections that were closed are gone after the next turn of the loop

    async def _transport(self, opened: AsyncExitStack) -> Any:
        """How the server is reached: over HTTP, or as a process whose own messages are not shown."""
        if self._tools.url:
            from httpx2 import AsyncClient
            from mcp.client.streamable_http import streamable_http_client

            headers = {name: _value(value) for name, value in self._tools.headers.items()}
            http = AsyncClient(headers=headers, timeout=self._tools.timeout, follow_redirects=True)
            await opened.enter_async_context(http)
            return streamable_http_client(self._tools.url, http_client=http)
        silent = opened.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115
        from mcp.client.stdio import get_default_environment, stdio_client

        env = {**get_default_environment(), **{n: _value(v) for n, v in self._tools.env.items()}}
        env = labelled(env, self._label) if self._label else env
        means = process_namespace()
        first, *rest = means.together(self._tools.command) if means else self._tools.command
        return stdio_client(self._sdk.StdioServerParameters(command=first, args=rest, env=env), errlog=silent)

    def _await(self, work: Any) -> Any:
        """Run a coroutine on the session's loop and wait for it."""
        if self._problem is not None or not self._thread.is_alive():
            work.close()
            raise ToolFailed(f"mcp: {self._where} has ended: {_reason(self._problem)}")
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(self._tools.timeout + 5)
        except TimeoutError:
            raise ToolRefused(f"the server did not answer within {self._tools.timeout:g} s") from None

    def offered(self) -> list[dict[str, Json]]:
        """Name, description and parameters of every tool."""
        return self._await(self._all_tools())  # type: ignore[no-any-return]

    async def _all_tools(self) -> list[dict[str, Json]]:
        found: list[dict[str, Json]] = []
        cursor = None
        while True:
            page = await self._client.list_tools(**({"cursor": cursor} if cursor else {}))
            found += [
                {"name": t.name, "description": t.description or "", "parameters": dict(t.input_schema)}
                for t in page.tools
            ]
            cursor = page.next_cursor
            if not cursor:
                return found

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool: its text, or its parts if there are images; ToolRefused if it is an error."""
        try:
            result = self._await(self._client.call_tool(name, arguments))
        except self._sdk.MCPError as problem:
            raise ToolRefused(str(problem)) from None
        parts = [_part(block) for block in result.content]
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        if result.is_error:
            raise ToolRefused(text or "the tool failed")
        if any(part["type"] == "image" for part in parts):
            return parts
        return text if text or result.structured_content is None else result.structured_content

    def close(self) -> None:
        """End the session, and with it the server's process."""
        if self._thread.is_alive() and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(STARTING)


def _reason(problem: BaseException | None) -> str:
    """The innermost reason in groups of exceptions."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return f"{type(problem).__name__}: {problem}" if problem is not None else "it was closed"


def _part(block: Any) -> dict[str, Any]:
    """A block of a result as a text or an image."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return {"type": "image", "data": block.data, "media": block.mime_type}
    resource = getattr(block, "resource", None)
    return {"type": "text", "text": getattr(resource, "text", None) or f"[{block.type}]"}


def _value(text: str) -> str:
    """A value that may be a variable of this process: $NAME; Invalid if that is not set."""
    if not text.startswith("$"):
        return text
    if text[1:] not in os.environ:
        raise Invalid(f"mcp: the variable {text[1:]} is not set")
    return os.environ[text[1:]]


class _SharedConnections:
    """The servers of this process that trials share, each with the number of trials that use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[McpConnection, int, threading.Timer | None]] = {}

    def take(self, tools: McpTools, make: Any) -> McpConnection:
        """The server, started if it is not there yet."""
        key = digest(tools.identity)
        with self._lock:
            connection, users, timer = self._open.get(key) or (make(), 0, None)
            if timer is not None:
                timer.cancel()
            self._open[key] = connection, users + 1, None
            return connection

    def give_back(self, tools: McpTools) -> None:
        """One user less; without any, the server is ended after a while."""
        key = digest(tools.identity)
        with self._lock:
            connection, users, _ = self._open[key]
            timer = None
            if users == 1:
                timer = threading.Timer(LINGER, self._end_idle, (key,))
                timer.daemon = True
                timer.start()
            self._open[key] = connection, users - 1, timer

    def _end_idle(self, key: str) -> None:
        with self._lock:
            found = self._open.get(key)
            if found is None or found[1]:
                return
            del self._open[key]
        found[0].close()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            found, self._open = list(self._open.values()), {}
        for connection, _, timer in found:
            if timer is not None:
                timer.cancel()
            connection.close()


_shared = _SharedConnections()
atexit.register(_shared.close)


def mcp(
    command: Sequence[str] = (),
    *,
    url: str = "",
    only: Sequence[str] = (),
    env: Sequence[str] | Mapping[str, str] = (),
    headers: Mapping[str, str] | None = None,
    share: bool = False,
    timeout: float = 60.0,
    version: str = "",
) -> McpTools:
    """The tools of an MCP server: `mcp(["server", "--option"])` starts one, `mcp(url=...)` uses one by HTTP.

    `only` are the names of the tools that are offered. `env` are variables of this process that it gets, or
    names and values; in these and in `headers`, "$NAME" is a variable of this process. A server is started
    for each trial and ended with it; with `share`, one serves all trials of a run in a process. It runs
    outside the sandbox. Needs `peira[mcp]`.
    """
    problems = []
    if isinstance(command, str):
        problems.append(f"command: write its words as a list: {command.split()!r}")
    elif bool(command) == bool(url):
        problems.append("give a command or a url")
    if isinstance(only, str):
        problems.append("only: must be a list of names")
    if not _positive(timeout):
        problems.append(f"timeout: must be more than 0, not {timeout!r}")
    if problems:
        raise Invalid(f"mcp: {problem}" for problem in problems)
    given = dict(env) if isinstance(env, Mapping) else {name: f"${name}" for name in env}
    words = tuple(map(str, command))
    return McpTools(words, url, tuple(only), given, dict(headers or {}), share, float(timeout), version)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def register(registry: Registry) -> None:
    """Register the tools that a study file may name."""
    registry.add("tools", "mcp", mcp)
