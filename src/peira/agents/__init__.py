"""The built-in agents; the module of each is imported when it is first used."""

from __future__ import annotations

from typing import Any

from peira.core.contracts import Agent
from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "register"):
    from peira.agents.chat import chat as chat
    from peira.agents.command.agent import CommandAgent as CommandAgent
    from peira.agents.function import FunctionAgent as FunctionAgent


def register(registry: Registry) -> None:
    """Register the built-in agents, as any plug-in would."""
    registry.add("agent", "function", late(__name__, "FunctionAgent"))
    registry.add("agent", "command", _command)
    registry.promise("agent", ("agent",), "peira.agents.loop.agent")
    registry.promise("agent", ("conversation",), "peira.agents.conversation.agent")
    registry.promise("agent", ("graph",), "peira.agents.graph")
    registry.promise("tools", ("shell", "python", "files"), "peira.agents.tools.workspace")
    registry.promise("tools", ("mcp",), "peira.agents.tools.mcp")
    registry.promise("agent", ("random", "constant"), "peira.agents.baseline")
    registry.promise("prompted", ("chat",), "peira.agents.chat")


def _command(label: str, version: str | None = None, **options: Any) -> Agent:
    """A program, run confined for each trial: what it prints is the output."""
    agent: Agent = late(__name__, "CommandAgent")(label=label, version=version, **options)
    return agent
